// The tools of a server: a list to search in, and the one that the address names beside it.
import { html, memo, useMemo, useState } from "../../lib.mjs";
import { Empty } from "../../widgets/notice.mjs";
import { Search } from "../../widgets/search.mjs";
import { place } from "./address.mjs";
import { Marks } from "./marks.mjs";
import { Tool } from "./tool.mjs";

const MAX_SHOWN = 400; // rows at a time; a search finds the others

// offers: as GET /servers/NAME answers; selected: the name of a tool
export function Tools({ server, offers, selected, card }) {
  if (!offers.tools.length && selected === undefined) return html`<div class="panel"><${Empty}>${nothing(card)}</${Empty}></div>`;
  return html`<div class=${`sides${selected === undefined ? "" : " chosen"}`}>
    <${List} server=${server} tools=${offers.tools} more=${offers.more?.tools} selected=${selected} />
    <div class="side">${selected === undefined
      ? html`<div class="panel"><${Empty}>Choose a tool to see what it takes, and to try it.</${Empty}></div>`
      : html`<${Tool} key=${selected} server=${server} name=${selected}
        entry=${offers.tools.find((each) => each.name === selected)} version=${offers.version} />`}
    </div>
  </div>`;
}

// What stands in place of the tools where there are none: those of a server that has not run are not known.
function nothing({ state }) {
  if (state === "ready" || state === "asleep") return "It offers no tools.";
  return `Its tools are not known, because it has not listed them yet (${state}).`;
}

function List({ server, tools, more, selected }) {
  const [query, setQuery] = useState("");
  const found = useMemo(() => matching(tools, query), [tools, query]);
  return html`<nav class="panel side-list" aria-label="Tools">
    <${Search} label="Search the tools" value=${query} onInput=${setQuery} />
    <p class="hidden" role="status">${query && `${found.length} tools`}</p>
    ${!tools.length && html`<${Empty}>It offers no tools.</${Empty}>`}
    ${tools.length > 0 && !found.length && html`<${Empty}>No tool fits that.</${Empty}>`}
    <ul>${found.slice(0, MAX_SHOWN).map((tool) => html`<${Row} key=${tool.name} tool=${tool} href=${place(server,
      "tools", tool.name)} current=${tool.name === selected} />`)}</ul>
    ${found.length > MAX_SHOWN && html`<p class="muted small">${found.length - MAX_SHOWN} more; search for them.</p>`}
    ${more && html`<p class="muted small">${more} more are not listed here.</p>`}
  </nav>`;
}

const Row = memo(({ tool, href, current }) => html`<li><a class="entry" href=${href} aria-current=${current ? "true"
  : undefined}>
  <span class="row"><span class="mono strong wrap">${tool.shown ?? tool.name}</span><${Marks} tool=${tool} /></span>
  ${tool.description && html`<span class="muted small clamp">${tool.description}</span>`}
</a></li>`);

function matching(tools, query) {
  const words = query.toLowerCase().split(/\s+/).filter(Boolean);
  if (!words.length) return tools;
  return tools.filter((tool) => {
    const text = `${tool.name} ${tool.title ?? ""} ${tool.description ?? ""}`.toLowerCase();
    return words.every((word) => text.includes(word));
  });
}
