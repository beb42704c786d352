// Install: MCPX in the files of the clients, as `mcpx install` does it.
import { html, useState } from "../../lib.mjs";
import { useAnswer } from "../../api.mjs";
import { Badge } from "../../widgets/badge.mjs";
import { counted } from "../../widgets/format.mjs";
import { Notice } from "../../widgets/notice.mjs";
import { Change, Choice, useChange, useSeen } from "./change.mjs";

const OUTCOMES = {
  added: { tone: "good", word: "will be added" },
  updated: { tone: "busy", word: "will be renewed" },
  present: { tone: "idle", word: "there already" },
  refused: { tone: "bad", word: "refused" },
};
const changes = (client) => client.outcome === "added" || client.outcome === "updated";

export function Install() {
  const [clients, setClients] = useState([]);
  const [adopt, setAdopt] = useState(false);
  const change = useChange("install", { clients, adopt });
  const { preview } = change;
  const names = useSeen(preview?.clients);
  const changed = preview?.clients.filter(changes) ?? [];
  const files = new Set(changed.map((each) => each.title));
  return html`<${Change} change=${change} title="Install" label=${changed.length ? `Put MCPX into ${counted(files.size, "client")}` : null}
    text="Puts MCPX into your AI clients. Everything else in their files stays, and copies are kept."
    question=${`These files will be changed: ${changed.map((each) => each.file).join(", ")}.`}
    done=${(made) => html`<p>Next: restart ${[...new Set(made.clients.filter((each) => each.changed).map((each) => each.title))].join(", ")}. Copies are in <code>${made.backup}</code>.</p>`}>
    <${Choice} names=${names} chosen=${clients} onChoose=${setClients} />
    <label class="switch">
      <input type="checkbox" checked=${adopt} onChange=${() => setAdopt(!adopt)} />Move the clients' own servers into MCPX's configuration (<code>--adopt</code>)
    </label>
    <ul class="stack tight">${preview?.clients.map((each) => html`<${Client} key=${each.file} client=${each} />`)}</ul>
    ${preview?.servers_added.length > 0 && html`<p class="wrap">The configuration gets: ${preview.servers_added.join(", ")}</p>`}
    ${!changed.length && html`<p class="muted">There is nothing to do.</p>`}
  </${Change}>
  ${!names.length && change.failure && html`<${Others} onChoose=${(name) => setClients([name])} />`}`;
}

// Any client that MCPX knows, where none was found: its file is made.
function Others({ onChoose }) {
  const { answer } = useAnswer("/setup");
  if (!answer) return null;
  return html`<section class="panel"><label class="row">
    Prepare the file of a client that is not installed yet
    <select onChange=${(event) => event.target.value && onChoose(event.target.value)}>
      <option value="">choose a client</option>
      ${answer.clients.map(({ name, title }) => html`<option key=${name} value=${name}>${title}</option>`)}
    </select>
  </label></section>`;
}

function Client({ client }) {
  const { tone, word } = OUTCOMES[client.outcome] ?? { tone: "idle", word: client.outcome };
  const adopted = Object.entries(client.adopted);
  return html`<li class="sunk stack tight">
    <div class="spread">
      <span class="row"><span class="strong">${client.title}</span><${Badge} tone=${tone}>${word}</${Badge}></span>
      <span class="mono muted small wrap">${client.file}</span>
    </div>
    ${client.problem && html`<${Notice} tone="bad">${client.problem}</${Notice}>`}
    ${client.runs && html`<p class="mono small wrap">runs: ${client.runs.join(" ")}</p>`}
    ${Object.entries(client.entries).map(([name, entry]) => html`<p key=${name} class="mono small wrap">${client.key.join(".")}.${name}: ${JSON.stringify(entry)}</p>`)}
    ${adopted.map(([name, ours]) => html`<p key=${name} class="small wrap"><span class="mono strong">${name}</span> moves to MCPX${ours === name ? "" : ` as ${ours}`}
      ${client.losses[name] && html`<span class="muted">: ${client.losses[name].join("; ")}</span>`}</p>`)}
    ${Object.entries(client.stays).map(([name, why]) => html`<p key=${name} class="small wrap"><span class="mono strong">${name}</span> stays: ${why}</p>`)}
    ${client.notes.map((said) => html`<p key=${said} class="small wrap">${said}</p>`)}
  </li>`;
}
