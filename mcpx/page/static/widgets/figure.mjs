// Figures: a number with what it counts. `Figures` is the list (a <dl>), `Figure` one entry of it.
import { html } from "../lib.mjs";

export function Figures({ label, children }) {
  return html`<dl class="figures" aria-label=${label}>${children}</dl>`;
}

// value: text; beside: a second, smaller line; tone colours the value; big for the one that matters most
export function Figure({ label, value, beside, tone, big, title }) {
  return html`<div class=${`figure${big ? " big" : ""}${tone ? ` tone-${tone}` : ""}`} title=${title}>
    <dt>${label}</dt>
    <dd><span class=${tone && "toned"}>${unit(value)}</span>${beside && html`<span
      class="beside">${beside}</span>`}</dd>
  </div>`;
}

// "12 ms" with the unit set smaller
function unit(value) {
  const parts = typeof value === "string" ? /^([−-]?[\d.,]+)(\s?[a-zA-Z%]+)$/.exec(value) : null;
  return parts ? html`${parts[1]}<span class="unit">${parts[2]}</span>` : value;
}
