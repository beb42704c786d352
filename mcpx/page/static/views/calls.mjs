import { html } from "../lib.mjs";

export function Calls() {
  return html`<h1>Calls</h1>`;
}
