import { html } from "../lib.mjs";

export function Setup() {
  return html`<h1>Setup</h1>`;
}
