// What a server says of itself, in a line under its name; what it tells models, and what of it is left out, on demand.
import { html } from "../../lib.mjs";
import { counted } from "../../widgets/format.mjs";

// offers: what it offers, once that is known; card: of the server
export function About({ offers, card }) {
  const facts = [
    ["calls itself", [offers?.title, offers?.version_said].filter(Boolean).join(" ")],
    ["over", [card.transport, card.listens_at].filter(Boolean).join(", ")],
    ["on the node", card.node],
    ["protocol", offers?.protocol],
    ["signed in as", card.sign_in?.account],
    ["with", (card.sign_in?.scopes ?? []).join(" ")],
    ["token expires", card.sign_in?.expires_at],
    ["listed at", offers?.listed_at],
  ].filter(([, value]) => value);
  return html`<div class="stack tight" role="group" aria-label="About this server">
    <dl class="facts small">${facts.map(([label, value]) => html`<div key=${label}><dt class="muted">${label}</dt><dd
      class="clamp">${value}</dd></div>`)}</dl>
    ${offers?.instructions && html`<details><summary class="small muted">What it tells models</summary><p
      class="break sunk">${offers.instructions}</p></details>`}
    ${offers?.left_out && html`<details><summary class="small muted">${counted(offers.left_out.length, "thing")} that MCPX leaves out</summary>
      <ul class="stack tight sunk">${offers.left_out.map((each, index) => html`<li key=${index} class="wrap"><span
        class="mono">${[each.kind, each.name].filter(Boolean).join(" ")}</span> ${each.reason}${each.count
          ? ` (${each.count})` : ""}</li>`)}</ul></details>`}
  </div>`;
}
