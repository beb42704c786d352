import { html } from "../lib.mjs";

export function Overview() {
  return html`<h1>Overview</h1>`;
}
