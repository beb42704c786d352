import { html } from "../lib.mjs";

export function Model() {
  return html`<h1>Model</h1>`;
}
