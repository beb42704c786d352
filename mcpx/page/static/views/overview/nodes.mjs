// The nodes of the cluster: whether each answers, what is on it, and what it has free.
import { html } from "../../lib.mjs";
import { bytes, counted } from "../../widgets/format.mjs";
import { Badge } from "../../widgets/badge.mjs";

const SHOWN = 24;
const TONES = { ready: "good", draining: "ask", starting: "busy", lost: "bad" };

// nodes: those that are not ready first, as the daemon orders them
export function Nodes({ nodes, cluster }) {
  const ready = nodes.filter((node) => node.state === "ready").length;
  return html`<section class="panel nodes" aria-labelledby="nodes-title">
    <div class="panel-head"><h2 id="nodes-title">Nodes</h2><span
      class="muted small number">${ready} of ${nodes.length} ready</span></div>
    ${cluster?.problem && html`<p class="small">Ray is not joined: ${cluster.problem}</p>`}
    ${cluster?.not_shared && html`<p class="small">Pins are not shared: ${cluster.not_shared}</p>`}
    ${cluster?.gateways.length > 1 && html`<p class="small muted">${counted(cluster.gateways.length, "gateway")}: ${
      cluster.gateways.map(gateway).join(" · ")}</p>`}
    <ul class="client-list">${nodes.slice(0, SHOWN).map((node) => html`<${Node} key=${node.name} node=${node} />`)}</ul>
    ${nodes.length > SHOWN && html`<p class="small muted">and ${nodes.length - SHOWN} more</p>`}
  </section>`;
}

function gateway({ host, pid, is_self, same_config, problem }) {
  const remarks = [is_self && "this one", !same_config && "another configuration", problem].filter(Boolean);
  return `${host} (pid ${pid})${remarks.length > 0 ? `, ${remarks.join(", ")}` : ""}`;
}

function Node({ node }) {
  const facts = [
    counted(node.servers, "server"),
    counted(node.sessions, "session"),
    node.memory_bytes > 0 && `${bytes(node.memory_bytes)} taken`,
    node.free_bytes != null && `${bytes(node.free_bytes)} free`,
    node.load != null && `load ${node.load}`,
  ].filter(Boolean);
  return html`<li class="client">
    <div class="grow">
      <p class="cut strong" title=${node.host}>${node.name}</p>
      <p class="small muted cut" title=${node.problem}>${node.problem ?? facts.join(" · ")}</p>
    </div>
    <${Badge} tone=${TONES[node.state] ?? "idle"}>${node.state}</${Badge}>
  </li>`;
}
