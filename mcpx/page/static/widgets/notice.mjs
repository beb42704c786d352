// What stands in place of, or above, the content: a notice, nothing to see, waiting, a failure.
import { beginAnew } from "../api.mjs";
import { html } from "../lib.mjs";
import { date } from "./format.mjs";

// tone: as of a badge. `live` reads it out when it appears: "alert" at once, "status" in time.
export function Notice({ tone = "busy", title, live, children }) {
  return html`<div class=${`notice tone-${tone}`} role=${live}>
    <span class="dot" aria-hidden="true"></span>
    <div class="grow">${title && html`<span class="title">${title}</span> `}${children}</div>
  </div>`;
}

export function Empty({ children }) {
  return html`<p class="empty">${children}</p>`;
}

export function Loading({ children = "Asking the daemon…" }) {
  return html`<p class="loading" role="status"><span class="dot pulse" aria-hidden="true"></span>${children}</p>`;
}

// failure: an Error, as `get`, `post` and `useAnswer` give it; again: tries once more
export function Failed({ failure, again, title }) {
  return html`<${Notice} tone="bad" live="alert" title=${title}>
    <span class="break">${failure.message}</span>
    ${again && html` <button class="small" onClick=${again}>Try again</button>`}
  </${Notice}>`;
}

// state: of a topic, as `useTopic` gives it. Says that what is shown of it is no longer current, once that is so.
export function Outdated({ state }) {
  const title = state?.newsAt && `This is no longer current. The last news came at ${date(state.newsAt)}.`;
  return state?.failed && html`<${Failed} failure=${{ message: state.failed }} again=${beginAnew} title=${title} />`;
}
