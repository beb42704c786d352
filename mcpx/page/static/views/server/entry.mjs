// The entry of a server in the configuration: what it lacks, its text, its name, and taking it out.
import { html, useState } from "../../lib.mjs";
import { post, useAnswer } from "../../api.mjs";
import { Action } from "../../widgets/action.mjs";
import { Copy } from "../../widgets/copy.mjs";
import { Field } from "../../widgets/field.mjs";
import { Failed, Loading } from "../../widgets/notice.mjs";
import { place } from "./address.mjs";
import { Edit } from "./edit.mjs";

const written = (entry) => JSON.stringify(entry, null, 2);

// card: of the server
export function Entry({ server, card }) {
  const { answer, failure, again } = useAnswer(`/setup/entry?server=${encodeURIComponent(server)}`);
  const [typed, setTyped] = useState(null); // until then it is as it stands in the file
  const [edit, setEdit] = useState(null); // the properties of the dialog, while it is open
  if (failure) return html`<${Failed} failure=${failure} again=${again} />`;
  if (!answer) return html`<${Loading} />`;
  const text = typed ?? written(answer.entry);
  const closed = (made) => {
    setEdit(null);
    if (!made?.changed) return;
    setTyped(null);
    if (edit.leads) location.hash = edit.leads;
    else again();
  };
  const replace = (entry, title) => setEdit({
    title, command: "add", yes: "Write it", options: { server, entry, replace: true },
  });
  return html`<div class="stack">
    <${Missing} server=${server} entry=${answer.entry} card=${card}
      onSet=${(entry) => replace(written(entry), `Set what ${server} lacks?`)} />
    <section class="panel stack" aria-label="Entry">
      <${Field} label="The entry in the configuration" hint="A value that is shown as *** stays as it is.">
        ${(its) => html`<textarea ...${its} class="grows" rows="10" value=${text}
          onInput=${(event) => setTyped(event.target.value)}></textarea>`}</${Field}>
      <div class="row">
        <button type="button" class="primary" disabled=${text === written(answer.entry)}
          onClick=${() => replace(text, `Change ${server}?`)}>Preview the change</button>
      </div>
    </section>
    <${Rename} server=${server} onRename=${(to) => setEdit({ title: `Rename ${server} to ${to}?`, command: "rename",
      yes: "Rename", options: { server, to }, leads: place(to, "entry"),
      text: "The old name stays as an alias: rules, profiles and clients that say it find the server by that." })} />
    <section class="panel spread" aria-label="Take it out">
      <p>Take the server out of the configuration.</p>
      <button type="button" class="danger" onClick=${() => setEdit({ title: `Remove ${server}?`, command: "remove",
        yes: "Remove", danger: true, options: { server }, leads: "#/",
        text: "Clients no longer have its tools." })}>Remove</button>
    </section>
    ${edit && html`<${Edit} ...${edit} onClose=${closed} />`}
  </div>`;
}

function Rename({ server, onRename }) {
  const [to, setTo] = useState(server);
  const submit = (event) => {
    event.preventDefault();
    onRename(to.trim());
  };
  return html`<form class="panel spread" aria-label="Name" onSubmit=${submit}>
    <${Field} label="Name">${(its) => html`<input ...${its} value=${to}
      onInput=${(event) => setTo(event.target.value)} />`}</${Field}>
    <button disabled=${!to.trim() || to.trim() === server}>Preview the new name</button>
  </form>`;
}

const kept = (name) => `\${keychain:${name}}`;
const references = (name) => [`\${${name}}`, `\${env:${name}}`];

// The value in the place of each reference to a variable, in all texts of an entry.
function filled(entry, values) {
  if (typeof entry === "string") return Object.entries(values).reduce((text, [name, value]) =>
    references(name).reduce((before, reference) => before.replaceAll(reference, () => value), text), entry);
  if (Array.isArray(entry)) return entry.map((each) => filled(each, values));
  if (typeof entry !== "object" || entry === null) return entry;
  return Object.fromEntries(Object.entries(entry).map(([key, each]) => [key, filled(each, values)]));
}

// A value for the keychain, kept at once, after which the server is tried again.
function Kept({ server, name }) {
  const [value, setValue] = useState("");
  return html`<div class="row"><${Field} label=${`${name}, in the keychain`}>${(its) => html`<input ...${its}
      type="password" value=${value} onInput=${(event) => setValue(event.target.value)} />`}</${Field}>
    <${Action} disabled=${!value} label=${`Keep ${name}`} done=${({ described }) => `Kept. Now: ${described}`}
      run=${() => post("/setup/secret", { server, name, value })}>Keep it</${Action}></div>`;
}

// Fields for the variables that are not set, and for what the keychain lacks; for anything else, what helps.
function Missing({ server, entry, card, onSet }) {
  const [values, setValues] = useState({});
  if (!card.missing?.length) return null;
  const all = written(entry);
  const settable = card.missing.filter((name) => references(name).some((each) => all.includes(each)));
  const command = /(?:; then: )?(mcpx .*)$/.exec(card.remedy ?? "")?.[1];
  const submit = (event) => {
    event.preventDefault();
    onSet(filled(entry, Object.fromEntries(Object.entries(values).filter(([, value]) => value !== ""))));
  };
  return html`<form class="panel stack" aria-label="What is missing" onSubmit=${submit}>
    <h2>What is missing</h2>
    ${card.missing.filter((name) => all.includes(kept(name))).map((name) => html`<${Kept} key=${name} server=${server}
      name=${name} />`)}
    ${settable.map((name) => html`<${Field} key=${name} label=${name}>${(its) => html`<input ...${its} type="password"
      value=${values[name] ?? ""} onInput=${(event) => setValues({ ...values, [name]: event.target.value })} />`}</${Field}>`)}
    ${settable.length > 0 && html`<div class="row">
      <button class="primary" disabled=${!settable.some((name) => values[name])}>Preview the change</button>
      <p class="muted small">The value is written into the configuration, which only you can read.</p></div>`}
    <p class="break">What helps as well: <span class="mono">${card.remedy}</span> ${command && html`<${Copy}
      text=${command} what="the command" />`}</p>
  </form>`;
}
