// The servers that want somebody: failed, waiting to be tried again, or waiting for a person.
import { html } from "../lib.mjs";
import { counted, duration } from "../widgets/format.mjs";
import { useNow } from "../widgets/clock.mjs";
import { Badge, State } from "../widgets/badge.mjs";

const SHOWN = 4; // the others on demand

export const isFault = (card) => card.tone === "bad" || card.tone === "ask" || card.changes > 0;
export const address = (name) => `#/servers/${encodeURIComponent(name)}`;

// What is wrong with a server, in a line.
export function remark(card) {
  if (card.tone !== "bad" && card.tone !== "ask") return `${card.name}: ${changed(card)}`;
  return `${card.name}: ${card.last_error ?? card.described}`;
}

const changed = (card) => `${counted(card.changes, "change waits", "changes wait")} for approval`;

export function Faults({ servers }) {
  const faults = servers.filter(isFault);
  if (!faults.length) return null;
  const worst = [...faults].sort((one, other) => rank(one) - rank(other));
  return html`<section class="panel faults" aria-labelledby="faults-title">
    <h2 id="faults-title" class="hidden">Faults</h2>
    <ul>${worst.slice(0, SHOWN).map((card) => html`<${Fault} key=${card.name} card=${card} />`)}</ul>
    ${worst.length > SHOWN && html`<details class="more"><summary class="small muted">and ${counted(worst.length - SHOWN, "more server")}</summary>
      <ul>${worst.slice(SHOWN).map((card) => html`<${Fault} key=${card.name} card=${card} />`)}</ul>
    </details>`}
  </section>`;
}

const rank = (card) => ["bad", "ask"].indexOf(card.tone) & 3;

function Fault({ card }) {
  const waits = card.tone !== "bad" && card.tone !== "ask";
  return html`<li class=${`fault tone-${waits ? "ask" : card.tone}`}>
    ${waits ? html`<${Badge} tone="ask">to approve</${Badge}>` : html`<${State} card=${card} />`}
    <a class="strong cut" title=${card.name} href=${address(card.name)}>${card.name}</a>
    <span class="cause cut" title=${card.last_error}>${waits ? changed(card) : (card.last_error ?? card.described)}</span>
    ${card.next_attempt_in_s != null && html`<${Retry} card=${card} />`}
  </li>`;
}

function Retry({ card }) {
  const left = card.next_attempt_in_s - (useNow() - card.seen) / 1000;
  return html`<span class="small muted number">${left > 0.5 ? `again in ${duration(Math.ceil(left))}` : "again now"}</span>`;
}
