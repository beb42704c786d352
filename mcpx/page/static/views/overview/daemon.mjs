// The daemon in a line and its gain in figures; and the clients that are connected.
import { html } from "../../lib.mjs";
import { bytes, count, counted, duration, saved, share, short } from "../../widgets/format.mjs";
import { useNow } from "../../widgets/clock.mjs";

const SHOWN = 12;

export function Daemon({ daemon, servers }) {
  const of = (state) => servers.filter((card) => card.state === state).length;
  const asleep = of("asleep");
  const facts = [
    `${of("ready")} of ${counted(servers.length, "server")} ready${asleep ? `, ${asleep} asleep` : ""}`,
    `up ${duration(daemon.uptime_s)}`,
    daemon.memory_bytes != null && `memory ${bytes(daemon.memory_bytes)}`,
    daemon.cpu_share != null && `CPU ${share(daemon.cpu_share)}`,
    `version ${daemon.version}`,
    `pid ${daemon.pid}`,
    daemon.http?.url && daemon.http.url,
  ].filter(Boolean);
  return html`<div class="spread daemon">
    <div class="head">
      <h1>Overview</h1>
      <p class="daemon-facts muted">${facts.map((fact) => html`<span key=${fact.split(" ")[0]}
        class="number wrap">${fact}</span>`)}</p>
    </div>
    <${Gain} tokens=${daemon.tokens?.all_time} />
  </div>`;
}

// What MCPX has saved since it is used.
function Gain({ tokens }) {
  const part = saved(tokens?.direct, tokens?.spent);
  if (part === null || part <= 0) return null;
  return html`<p class="gain" title=${`${count(tokens.direct)} tokens without MCPX, ${count(tokens.spent)} with it`}>
    <span class="strong toned tone-good number">${short(tokens.direct - tokens.spent)} tokens saved</span>
    <span class="muted number">${share(part)} saved, all time</span>
  </p>`;
}

// seen: when this was heard of
export function Clients({ clients, seen }) {
  return html`<section class="panel clients" aria-labelledby="clients-title">
    <div class="panel-head"><h2 id="clients-title">Clients</h2><span
      class="muted small number">${clients.length}</span></div>
    ${clients.length === 0 && html`<p
      class="muted">No client is connected. <a href="#/setup/install">Install</a> puts MCPX into yours.</p>`}
    <ul class="client-list">${clients.slice(0, SHOWN).map((client, index) => html`<${Client} key=${index}
      client=${client} seen=${seen} />`)}</ul>
    ${clients.length > SHOWN && html`<p class="small muted">and ${clients.length - SHOWN} more</p>`}
  </section>`;
}

function Client({ client, seen }) {
  const parts = [client.transport, client.profile && `profile ${client.profile}`, client.endpoint].filter(Boolean);
  return html`<li class="client">
    <div class="grow">
      <p class="cut" title=${client.name}><span class="strong">${client.title ?? client.name}</span> <span
        class="muted">${client.version}</span></p>
      <p class="small muted cut">${parts.join(" · ")}</p>
    </div>
    <div class="number small">
      <p>${counted(client.calls, "call")}</p>
      <p class="muted"><${Since} seconds=${client.since_s} seen=${seen} /></p>
    </div>
  </li>`;
}

// A duration that goes on since it was heard of.
export function Since({ seconds, seen }) {
  const now = useNow();
  return duration(seconds + (seen ? (now - seen) / 1000 : 0));
}
