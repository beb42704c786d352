// The resources of a server, and its templates: a list, and a preview of the one that was read last.
import { html, useEffect, useMemo, useRef, useState } from "../../lib.mjs";
import { bytes } from "../../widgets/format.mjs";
import { Empty, Loading } from "../../widgets/notice.mjs";
import { Search } from "../../widgets/search.mjs";
import { place } from "./address.mjs";
import { Blocks } from "./result.mjs";
import { CallFailure, Questions, useTrial } from "./trial.mjs";

const MAX_SHOWN = 300; // rows at a time

// selected: the URI that the address names
export function Resources({ server, offers, selected }) {
  const { resources, templates } = offers;
  if (!resources.length && !templates.length && selected === undefined) return html`<div class="panel"><${Empty}>It lists
    no resources.</${Empty}></div>`;
  return html`<div class=${`sides${selected === undefined ? "" : " chosen"}`}>
    <div class="stack">
      <${List} server=${server} resources=${resources} selected=${selected} more=${offers.more?.resources} />
      ${templates.length > 0 && html`<${Templates} server=${server} templates=${templates} />`}
    </div>
    <div class="side">${selected === undefined
      ? html`<div class="panel"><${Empty}>Choose a resource to read it.</${Empty}></div>`
      : html`<${Preview} key=${selected} server=${server} uri=${selected}
        entry=${resources.find((each) => each.uri === selected)} />`}
    </div>
  </div>`;
}

function List({ server, resources, selected, more }) {
  const [query, setQuery] = useState("");
  const found = useMemo(() => {
    const wanted = query.toLowerCase();
    const words = (each) => [each.uri, each.name, each.title, each.description].filter(Boolean).join(" ").toLowerCase();
    return resources.filter((each) => words(each).includes(wanted));
  }, [resources, query]);
  return html`<nav class="panel side-list" aria-label="Resources">
    <${Search} label="Search the resources" value=${query} onInput=${setQuery} />
    ${!resources.length && html`<${Empty}>It lists no resources.</${Empty}>`}
    ${resources.length > 0 && !found.length && html`<${Empty}>No resource fits that.</${Empty}>`}
    <ul>${found.slice(0, MAX_SHOWN).map((each) => html`<li key=${each.uri}>
      <a class="entry" href=${place(server, "resources", each.uri)} aria-current=${each.uri === selected ? "true"
        : undefined}>
        <span class="strong wrap">${each.title ?? each.name ?? each.uri}</span>
        <span class="muted small mono clamp">${each.uri}</span>
        <span class="muted small">${[each.mime_type, each.size !== undefined
          && bytes(each.size)].filter(Boolean).join(", ")}</span>
        ${each.description && html`<span class="muted small clamp">${each.description}</span>`}
      </a>
    </li>`)}</ul>
    ${found.length > MAX_SHOWN && html`<p class="muted small">${found.length - MAX_SHOWN} more; search for them.</p>`}
    ${more && html`<p class="muted small">${more} more are not listed here.</p>`}
  </nav>`;
}

function Preview({ server, uri, entry }) {
  const trial = useTrial("/read");
  const run = () => trial.run({ server, uri });
  useEffect(() => void run(), []);
  return html`<section class="panel stack" aria-labelledby="resource-name">
    <a class="back" href=${place(server, "resources")}>All resources</a>
    <div class="spread">
      <div class="grow"><h2 id="resource-name" class="title">${entry?.title ?? entry?.name ?? "Resource"}</h2><p
        class="mono small muted wrap">${uri}</p></div>
      <button type="button" class="small" aria-disabled=${trial.running ? "true" : undefined}
        onClick=${() => trial.running || run()}>Read again</button>
    </div>
    ${entry?.description && html`<p class="break">${entry.description}</p>`}
    <${Questions} trial=${trial} />
    <div aria-live="polite">
      ${trial.running && html`<${Loading}>Reading…</${Loading}>`}
      ${trial.failure && html`<${CallFailure} failure=${trial.failure} />`}
      ${trial.result && html`<${Blocks} blocks=${trial.result.content} />`}
    </div>
  </section>`;
}

// --- templates

function Templates({ server, templates }) {
  return html`<section class="panel stack" aria-labelledby="templates">
    <h2 id="templates">Templates</h2>
    ${templates.map((each) => html`<${Template} key=${each.uri_template} server=${server} template=${each} />`)}
  </section>`;
}

// A template (RFC 6570) with a field for each variable; one with odd expressions is filled in by hand.
function Template({ server, template }) {
  const names = useMemo(() => variables(template.uri_template), [template.uri_template]);
  const [values, setValues] = useState({});
  const [uri, setUri] = useState(template.uri_template);
  const form = useRef(null);
  const open = (event) => {
    event.preventDefault();
    location.hash = place(server, "resources", names ? expanded(template.uri_template, values) : uri);
  };
  const field = (name, value, onInput) => html`<label key=${name} class="field"><span class="label mono">${name}</span>
    <input value=${value} autocomplete="off" spellcheck=${false}
      onInput=${(event) => onInput(event.target.value)} /></label>`;
  return html`<form ref=${form} class="stack tight sunk" onSubmit=${open}>
    <div><span class="strong">${template.title ?? template.name}</span> <span
      class="mono small muted wrap">${template.uri_template}</span></div>
    ${template.description && html`<p class="small muted">${template.description}</p>`}
    ${names ? names.map((name) => field(name, values[name] ?? "", (value) => setValues({ ...values, [name]: value })))
      : field("URI", uri, setUri)}
    <div><button type="submit" class="small">Read</button></div>
  </form>`;
}

const PLAIN = /\{(\+?)([\w.]+)\}/g;

// The variables of a template with plain expressions only, else null.
function variables(template) {
  if (/[{}]/.test(template.replace(PLAIN, ""))) return null;
  return [...new Set([...template.matchAll(PLAIN)].map((each) => each[2]))];
}

const expanded = (template, values) =>
  template.replace(PLAIN, (_whole, plus, name) => (plus ? encodeURI : encodeURIComponent)(values[name] ?? ""));
