// A new server: a program or an address, or its entry as JSON, as `mcpx add` takes them.
import { html, useState } from "../../lib.mjs";
import { Field } from "../../widgets/field.mjs";
import { Edit } from "../server/edit.mjs";
import { place } from "../server/address.mjs";

const ADDRESS = /^https?:\/\//i;

// The words of a command line, as a shell takes them apart.
export function words(line) {
  const found = line.match(/(?:"(?:\\.|[^"\\])*"|'[^']*'|\\.|[^\s"'\\])+/g) ?? [];
  return found.map((word) => word.replace(/"((?:\\.|[^"\\])*)"|'([^']*)'|\\(.)/g, (_all, double, single, escaped) =>
    double?.replace(/\\(["\\$`])/g, "$1") ?? single ?? escaped));
}

// NAME=VALUE and NAME: VALUE, a line each; a NAME alone is the variable of that name.
function pairs(text, sign) {
  const lines = text.split("\n").map((each) => each.trim()).filter(Boolean);
  return Object.fromEntries(lines.map((line) => {
    const at = line.indexOf(sign);
    return at < 0 ? [line, `\${${line}}`] : [line.slice(0, at).trim(), line.slice(at + 1).trim()];
  }));
}

function entryOf(line, more) {
  if (ADDRESS.test(line.trim())) {
    const headers = pairs(more, ":");
    return { url: line.trim(), ...(Object.keys(headers).length && { headers }) };
  }
  const [command, ...args] = words(line);
  const env = pairs(more, "=");
  return { command, ...(args.length && { args }), ...(Object.keys(env).length && { env }) };
}

export function Add() {
  const [name, setName] = useState("");
  const [line, setLine] = useState("");
  const [more, setMore] = useState("");
  const [json, setJson] = useState(null); // its text, where that is what is given
  const [edit, setEdit] = useState(null);
  const isAddress = ADDRESS.test(line.trim());
  const given = json ?? JSON.stringify(entryOf(line, more));
  const submit = (event) => {
    event.preventDefault();
    setEdit({ server: name.trim(), entry: given });
  };
  const closed = (made) => {
    setEdit(null);
    if (made?.changed) location.hash = place(edit.server);
  };
  return html`<form class="panel stack" aria-label="Add a server" onSubmit=${submit}>
    <h2>Add a server</h2>
    <${Field} label="Name">${(its) => html`<input ...${its} value=${name}
      onInput=${(event) => setName(event.target.value)} />`}</${Field}>
    ${json === null
      ? html`
        <${Field} label="Command or address">${(its) => html`<input ...${its} class="mono" value=${line}
          placeholder="uvx mcp-server-time, or https://example.com/"
          onInput=${(event) => setLine(event.target.value)} />`}</${Field}>
        <${Field} label=${isAddress ? "Headers" : "Environment variables"}
          hint=${isAddress ? "One a line: NAME: VALUE" : "One a line: NAME=VALUE; NAME alone takes your own"}>
          ${(its) => html`<textarea ...${its} class="grows" rows="2" value=${more}
            onInput=${(event) => setMore(event.target.value)}></textarea>`}</${Field}>`
      : html`<${Field} label="Entry as JSON" hint="As it stands in the file of a client, or in a README">
          ${(its) => html`<textarea ...${its} class="grows" rows="8" value=${json}
            onInput=${(event) => setJson(event.target.value)}></textarea>`}</${Field}>`}
    <div class="row">
      <button class="primary" disabled=${!name.trim() || !(json ?? line).trim()}>Preview the change</button>
      <button type="button" class="quiet" onClick=${() => setJson(json === null ? (line.trim() ? JSON.stringify(entryOf(line,
        more), null, 2) : "") : null)}>${json === null ? "Give it as JSON" : "Give a command or address"}</button>
    </div>
    ${edit && html`<${Edit} title=${`Add ${edit.server}?`} command="add" options=${edit} yes="Add"
      text="The daemon starts it at once, and clients have its tools." onClose=${closed} />`}
  </form>`;
}
