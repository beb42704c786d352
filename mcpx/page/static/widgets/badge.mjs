// A word with a colour. `Badge` for any; `State` for the state of a server, as the daemon words it.
import { html } from "../lib.mjs";

// tone: good, busy, idle, bad, ask or off
export function Badge({ tone = "idle", dot = true, title, children }) {
  return html`<span class=${`badge tone-${tone}${dot ? "" : " plain"}`} title=${title}>
    ${dot && html`<span class="dot" aria-hidden="true"></span>`}<span class="cut">${children}</span>
  </span>`;
}

// card: anything with `state` and `tone`, such as a server's card
export function State({ card }) {
  return html`<${Badge} tone=${card.tone}>${card.state}</${Badge}>`;
}
