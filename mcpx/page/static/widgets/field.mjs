// A field with its label, and below it a hint that is read out after the label.
import { html, useId } from "../lib.mjs";

// children: makes the control of the attributes that join it to the label and the hint
export function Field({ label, hint, children }) {
  const id = useId();
  const described = hint && `${id}-hint`;
  return html`<div class="field">
    <label for=${id}>${label}</label>
    ${children({ id, "aria-describedby": described, autocomplete: "off", spellcheck: false })}
    ${hint && html`<span class="hint" id=${described}>${hint}</span>`}
  </div>`;
}
