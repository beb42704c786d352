// A button that copies text, and a block of code that has one.
import { html, useEffect, useState } from "../lib.mjs";

const SAID_MS = 2000;

// text: what is copied, or a function that gives it; what: names it for screen readers
export function Copy({ text, what = "text" }) {
  const [said, setSaid] = useState("");
  useEffect(() => {
    const timer = said ? setTimeout(() => setSaid(""), SAID_MS) : 0;
    return () => clearTimeout(timer);
  }, [said]);
  const copy = () =>
    navigator.clipboard.writeText(typeof text === "function" ? text() : text).then(
      () => setSaid("Copied"),
      () => setSaid("Not allowed"),
    );
  return html`<button type="button" class="small" aria-label=${`Copy ${what}`} onClick=${copy}>
    <span role="status">${said || "Copy"}</span>
  </button>`;
}

// A block of code, schema or result; `what` names it. It scrolls within itself, also by keyboard.
export function Code({ text, what = "code", wraps }) {
  return html`<div class=${`code${wraps ? " wraps" : ""}`}>
    <pre tabindex="0" role="group" aria-label=${what}>${text}</pre>
    <${Copy} text=${text} what=${what} />
  </div>`;
}
