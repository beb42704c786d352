// Import: the servers of the clients' files in MCPX's configuration, as `mcpx import` does it.
import { html, useState } from "../../lib.mjs";
import { Badge } from "../../widgets/badge.mjs";
import { counted } from "../../widgets/format.mjs";
import { Empty, Notice } from "../../widgets/notice.mjs";
import { Change, Choice, Diff, useChange, useSeen } from "./change.mjs";

const STATES = {
  new: { tone: "good", word: "new" },
  present: { tone: "idle", word: "there already" },
  own: { tone: "idle", word: "MCPX itself" },
};

export function Import() {
  const [clients, setClients] = useState([]);
  const change = useChange("import", { clients });
  const { preview } = change;
  const names = useSeen(preview?.clients);
  const fresh = preview?.servers.filter((each) => each.state === "new") ?? [];
  return html`<${Change} change=${change} title="Import" label=${fresh.length ? `Write ${counted(fresh.length, "server")}` : null}
    text="Takes over the servers of your AI clients. Their files are not changed; Install does that."
    question=${`${counted(fresh.length, "server")} will be written to ${preview?.file}: ${fresh.map((each) => each.name).join(", ")}.`}
    done=${(made) => html`<${Done} made=${made} />`}>
    <${Choice} names=${names} chosen=${clients} onChoose=${setClients} />
    ${preview?.clients.length
      ? html`<ul class="stack tight">${preview.clients.map((each) => html`<${Client} key=${each.file} client=${each} servers=${preview.servers} />`)}</ul>`
      : html`<${Empty}>No file of a client was found.</${Empty}>`}
    ${preview?.diff && html`<${Diff} text=${preview.diff} what="What changes in the configuration" />`}
    ${!fresh.length && preview?.clients.length > 0 && html`<p class="muted">There is nothing to do.</p>`}
  </${Change}>`;
}

function Done({ made }) {
  const todo = made.servers.filter((each) => each.state === "added" && each.needs.length);
  return html`
    <p>${counted(made.servers.filter((each) => each.state === "added").length, "server")} written to <code>${made.file}</code>${made.daemon && `; ${made.daemon}`}.</p>
    ${todo.length > 0 && html`<ul class="dots">${todo.map((each) => html`<li key=${each.name}>To do for ${each.name}: ${each.needs.join("; ")}</li>`)}</ul>`}
    <p><a href="#/setup/install">Install</a> puts MCPX into your clients.</p>
  `;
}

function Client({ client, servers }) {
  const stateOf = (server) => STATES[server.as ? servers.find((each) => each.name === server.as)?.state : "own"] ?? STATES.present;
  return html`<li class="sunk stack tight">
    <div class="spread"><span class="strong">${client.title}</span><span class="mono muted small wrap">${client.file}</span></div>
    ${client.problem && html`<${Notice} tone="bad">${client.problem}</${Notice}>`}
    ${client.servers.map((each) => html`<div key=${each.name} class="stack import-entry">
      <div class="row"><span class="mono strong wrap">${each.name}</span><${Badge} tone=${stateOf(each).tone}>${stateOf(each).word}</${Badge}>
        ${each.as && each.as !== each.name && html`<span class="muted small">as ${each.as}</span>`}</div>
      <p class="mono small muted wrap">${commandOf(each.entry)}</p>
      ${[...each.notes, ...each.needs.map((need) => `To do: ${need}`)].map((said) => html`<p key=${said} class="small wrap">${said}</p>`)}
    </div>`)}
    ${client.left_out.map((each) => html`<p key=${each.name} class="small wrap"><span class="mono strong">${each.name}</span> is not taken over: ${each.reason}</p>`)}
    ${client.mcpx.map((name) => html`<p key=${name} class="small muted wrap"><span class="mono">${name}</span> is MCPX itself.</p>`)}
    ${client.notes.map((said) => html`<p key=${said} class="small wrap">${said}</p>`)}
    ${!client.problem && !client.servers.length && !client.left_out.length && !client.mcpx.length && html`<p class="muted small">No servers.</p>`}
  </li>`;
}

const commandOf = (entry) => entry.url ?? [entry.command, ...(entry.args ?? [])].filter(Boolean).join(" ");
