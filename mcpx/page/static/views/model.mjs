// What the model sees: for each client the exact texts that its model is given, and what its search finds.
import { html } from "../lib.mjs";
import { useTopic } from "../api.mjs";
import { Badge } from "../widgets/badge.mjs";
import { useNow } from "../widgets/clock.mjs";
import { count, counted, duration, saved, share } from "../widgets/format.mjs";
import { Empty, Loading, Notice, Outdated } from "../widgets/notice.mjs";
import { Tabs } from "../widgets/tabs.mjs";
import { Given } from "./model-given.mjs";
import { Ranking } from "./model-search.mjs";

const SEARCH = "search";
const ANYBODY = "as-other";

export function Model({ rest }) {
  const known = useTopic("model");
  const [chosen, tab] = rest;
  if (!known) return html`<h1>What the model sees</h1><${Loading} />`;
  if (!known.clients) return html`<h1>What the model sees</h1><${Outdated} state=${known} />`;
  const id = chosen || known.clients[0]?.id || ANYBODY;
  const client = known.clients.find((each) => each.id === id);
  const other = known.others.find((each) => each.id === id);
  const [given, search] = [`#/model/${id}`, `#/model/${id}/${SEARCH}`];
  return html`<div class="stack">
    <div class="head">
      <h1>What the model sees</h1>
      <span class="muted">${counted(known.clients.length + known.left_out, "client")} attached</span>
    </div>
    <${Outdated} state=${known} />
    <${Clients} known=${known} id=${id} tab=${tab} />
    ${client || other
      ? html`<${Tabs} label="What is shown of the client" current=${tab === SEARCH ? search : given}
            tabs=${[{ href: given, name: "What it is given" }, { href: search, name: "What a search finds" }]} />
          ${tab === SEARCH
            ? html`<${Ranking} key=${id} id=${id} isTransparent=${Boolean(client?.endpoint.server)} />`
            : html`<${Given} key=${id} id=${id} client=${client} />`}`
      : html`<${Notice} tone="off" title="This client has left.">Choose another one above.</${Notice}>`}
  </div>`;
}

function Clients({ known, id, tab }) {
  const now = useNow();
  const href = (each) => `#/model/${each}${tab === SEARCH ? `/${SEARCH}` : ""}`;
  const other = known.others.some((each) => each.id === id) ? id : "";
  return html`<section class="panel stack tight" aria-labelledby="model-clients">
    <div class="spread">
      <h2 id="model-clients">Clients</h2>
      <label class="row small">As it would be for
        <select value=${other} onChange=${(event) => event.target.value && (location.hash = href(event.target.value))}>
          <option value="">choose a client</option>
          ${known.others.map((each) => html`<option key=${each.id} value=${each.id}>${each.title}</option>`)}
        </select>
      </label>
    </div>
    ${known.clients.length
      ? html`<ul class="grid model-clients">
          ${known.clients.map((each) => html`<${Client} key=${each.id} client=${each} href=${href(each.id)} isChosen=${each.id === id} now=${now} />`)}
        </ul>`
      : html`<${Empty}>No client is attached. What is below is what one would be given.</${Empty}>`}
    ${known.left_out > 0 && html`<p class="muted small">And ${count(known.left_out)} more.</p>`}
  </section>`;
}

function Client({ client, href, isChosen, now }) {
  const part = saved(client.direct, client.tokens);
  return html`<li><a class="card model-client" href=${href} aria-current=${isChosen ? "true" : undefined}>
    <span class="spread">
      <span class="strong wrap">${client.title || client.name || "A client without a name"}</span>
      <span class="muted small">${client.version}</span>
    </span>
    <span class="row small muted">
      <span class="wrap">${endpointOf(client.endpoint)}</span>
      <span>${client.transport}${client.token ? `, token ${client.token}` : ""}</span>
      <span>for ${duration((now - client.since) / 1000)}</span>
    </span>
    <span class="spread small">
      <span><span class="strong">${count(client.tokens)}</span> tokens${client.direct > 0 && html` <span class="muted">for ${count(client.direct)}</span>`}</span>
      ${part !== null && part > 0 && html`<${Badge} tone="good" dot=${false}>${share(part)} of the menu saved</${Badge}>`}
    </span>
  </a></li>`;
}

// Where a client came in, as a person would say it.
function endpointOf(endpoint) {
  if (endpoint.server) return `${endpoint.server} as it is`;
  const servers = endpoint.only ? `only ${endpoint.only.join(", ")}` : endpoint.profile ? `profile ${endpoint.profile}` : "every server";
  const ways = { three: ", three tools", all: ", every tool by name", both: ", both ways" };
  return `${servers}${ways[endpoint.expose] ?? ""}`;
}
