// The servers as cards, or where there are many as a table, with a filter by state and name.
import { html, memo, useMemo, useState } from "../../lib.mjs";
import { bytes, count, counted, ms, saved, share, short } from "../../widgets/format.mjs";
import { Badge, State } from "../../widgets/badge.mjs";
import { Figure } from "../../widgets/figure.mjs";
import { Empty } from "../../widgets/notice.mjs";
import { Search } from "../../widgets/search.mjs";
import { Since } from "./daemon.mjs";
import { address, rank } from "./faults.mjs";
import { ServerTable } from "./table.mjs";

const TABLE_FROM = 15; // servers

const ORDERS = {
  faults: { name: "faults first", compare: (one, other) => rank(one) - rank(other) },
  given: { name: "as configured", compare: () => 0 },
  calls: { name: "most calls first", compare: (one, other) => other.calls - one.calls },
  name: { name: "by name", compare: (one, other) => one.name.localeCompare(other.name) },
};

export function Servers({ servers }) {
  const [text, setText] = useState("");
  const [state, setState] = useState(null);
  const [order, setOrder] = useState("faults");
  const states = useMemo(() => counts(servers), [servers]);
  const wanted = text.trim().toLowerCase();
  const shown = servers
    .filter((card) => (!state || card.state === state || !states.has(state)))
    .filter((card) => card.name.toLowerCase().includes(wanted))
    .sort(ORDERS[order].compare);
  return html`<section class="stack servers" aria-labelledby="servers-title">
    <div class="spread">
      <div class="row">
        <h2 id="servers-title">Servers <span class="muted number">${servers.length}</span></h2>
        ${states.size > 1 && html`<div class="row chips" role="group" aria-label="Show by state">
          ${[...states].map(([name, { tone, number }]) => html`<button key=${name} type="button"
            class=${`chip tone-${tone}`} aria-pressed=${state === name}
            onClick=${() => setState(state === name ? null : name)}><span class="dot toned"
              aria-hidden="true"></span>${name} <span class="count">${number}</span></button>`)}
        </div>`}
      </div>
      <div class="row controls">
        <a class="button" href="#/setup/add">Add a server</a>
        <select aria-label="Order of the servers" value=${order} onChange=${(event) => setOrder(event.target.value)}>
          ${Object.entries(ORDERS).map(([key, { name }]) => html`<option key=${key} value=${key}>${name}</option>`)}
        </select>
        <${Search} label="Filter servers" value=${text} onInput=${setText} />
      </div>
    </div>
    ${shown.length === 0 && html`<div class="panel"><${Nothing} some=${servers.length > 0} /></div>`}
    ${servers.length >= TABLE_FROM
      ? shown.length > 0 && html`<${ServerTable} servers=${shown} />`
      : html`<ul class="grid">${shown.map((card) => html`<${Card} key=${card.name} card=${card} />`)}</ul>`}
  </section>`;
}

function Nothing({ some }) {
  if (some) return html`<${Empty}>No server matches.</${Empty}>`;
  return html`<div class="stack tight">
    <${Empty}>No server is configured yet.</${Empty}>
    <p class="row"><a class="button" href="#/setup/import">Import the servers of your AI clients</a></p>
    <p class="muted">Or <a href="#/setup/add">add a server</a> here, or in a terminal: <code>mcpx add NAME -- COMMAND</code> for a
      program, <code>mcpx add NAME URL</code> for an address. It appears here at once.</p>
  </div>`;
}

// The states that there are, with how many servers are in each; in the order of the servers.
function counts(servers) {
  const found = new Map();
  for (const { state, tone } of servers) found.set(state, { tone, number: (found.get(state)?.number ?? 0) + 1 });
  return found;
}

const Card = memo(({ card }) => {
  const part = saved(card.tokens_direct, card.tokens_spent);
  const broken = card.tone === "bad" || card.tone === "ask";
  const recovered = card.tone === "good" || card.tone === "busy" || card.tone === "idle";
  const idle = card.state === "asleep" || card.tone === "off";
  return html`<li class=${`card server tone-${card.tone}${broken ? " broken" : ""}${idle ? " idle" : ""}`}>
    <div class="server-head">
      <h3 class="cut"><a href=${address(card.name)} title=${card.name}>${card.name}</a></h3>
      ${card.changes > 0 && html`<${Badge} tone="ask" dot=${false}
        title="changed since it was approved">${counted(card.changes, "change")}</${Badge}>`}
      <${State} card=${card} />
    </div>
    <p class="server-facts small muted"><${Facts} card=${card} /></p>
    <dl class="server-figures">
      <${Figure} label="Calls" value=${short(card.calls)} title=${counted(card.calls, "call")}
        beside=${html`<span class=${card.failed > 0 ? "tone-bad toned" : undefined}>${short(card.failed)} failed</span>${
          card.refused > 0 && `, ${short(card.refused)} refused`}`} />
      <${Figure} label="p50" value=${ms(card.p50_ms)} beside=${`p95 ${ms(card.p95_ms)}`} />
      <${Figure} label="Memory" value=${bytes(card.memory_bytes)}
        beside=${`CPU ${share(card.cpu_share)}`} />
      <${Figure} label="Saved" value=${part === null ? "–" : share(part)}
        beside=${part !== null && `${short(card.tokens_direct - card.tokens_spent)} tok`}
        title=${`${count(card.tokens_direct)} tokens without MCPX, ${count(card.tokens_spent)} with it`} />
    </dl>
    ${card.last_error && html`<p class=${`server-error small ${broken ? "clamp" : "cut muted"}`}
      title=${card.last_error}>${recovered && "Last: "}${card.last_error}</p>`}
  </li>`;
});

function Facts({ card }) {
  const running = card.running > 0 && `${count(card.running)} running`;
  const queued = card.queued > 0 && `${count(card.queued)} waiting`;
  const busy = [running, queued].filter(Boolean);
  const parts = [
    card.uptime_s != null && html`up <${Since} seconds=${card.uptime_s} seen=${card.seen} />`,
    counted(card.tools, "tool"),
    counted(card.restarts, "restart"),
    card.node ? `on ${card.node}` : card.peer ? `of ${card.peer}` : card.transport,
  ].filter(Boolean);
  return html`
    ${busy.length > 0 && html`<span class="tone-busy toned strong number">${busy.join(", ")}</span>`}
    ${parts.map((part, index) => html`<span key=${index} class="number">${part}</span>`)}
  `;
}
