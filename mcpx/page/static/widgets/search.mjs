// A field to search or filter with.
import { html } from "../lib.mjs";

// onInput(text) is called with each change; onSubmit(text) with Enter
export function Search({ label, value, onInput, onSubmit, placeholder = label }) {
  return html`<span class="search">
    <svg viewBox="0 0 16 16" fill="none" stroke="currentColor" stroke-width="1.8" stroke-linecap="round"
      aria-hidden="true">
      <circle cx="7" cy="7" r="4.6" /><path d="m10.6 10.6 3.6 3.6" />
    </svg>
    <input type="search" aria-label=${label} placeholder=${placeholder} value=${value} autocomplete="off"
      spellcheck=${false}
      onInput=${(event) => onInput(event.target.value)}
      onKeyDown=${(event) => event.key === "Enter" && onSubmit?.(event.target.value)} />
  </span>`;
}
