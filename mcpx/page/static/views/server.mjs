import { html } from "../lib.mjs";

export function Server({ name }) {
  return html`<h1>${name}</h1>`;
}
