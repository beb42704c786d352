// The servers that want somebody: failed, waiting to be tried again, or waiting for a person; and for a while
// those that failed and are well again. Each row has what mends it.
import { html } from "../../lib.mjs";
import { counted, duration } from "../../widgets/format.mjs";
import { useNow } from "../../widgets/clock.mjs";
import { Badge, State } from "../../widgets/badge.mjs";
import { Since } from "./daemon.mjs";
import { Cures } from "../server/actions.mjs";

const SHOWN = 4; // the others on demand
const RECENT_MS = 60_000; // that a server stays in the list which has failed and is well again

export const isFault = (card) => isBroken(card) || card.changes > 0 || isRecent(card);
const isBroken = (card) => card.tone === "bad" || card.tone === "ask";
const isRecent = (card) => Date.now() - (card.failedAt ?? 0) < RECENT_MS;
export const address = (name) => `#/servers/${encodeURIComponent(name)}`;

// What is wrong with a server, in a line.
export function remark(card) {
  return `${card.name}: ${cause(card)}`;
}

function cause(card) {
  if (isBroken(card)) return card.last_error ?? card.described;
  return isRecent(card) && card.last_error ? card.last_error : changed(card);
}

const changed = (card) => `${counted(card.changes, "change waits", "changes wait")} for approval`;

export function Faults({ servers }) {
  useNow(); // some leave the list with time
  const faults = servers.filter(isFault);
  if (!faults.length) return null;
  const worst = [...faults].sort((one, other) => rank(one) - rank(other));
  return html`<section class="panel faults" aria-labelledby="faults-title">
    <h2 id="faults-title" class="hidden">Faults</h2>
    <ul>${worst.slice(0, SHOWN).map((card) => html`<${Fault} key=${card.name} card=${card} />`)}</ul>
    ${worst.length > SHOWN && html`<details class="more"><summary
      class="small muted">and ${counted(worst.length - SHOWN, "more server")}</summary>
      <ul>${worst.slice(SHOWN).map((card) => html`<${Fault} key=${card.name} card=${card} />`)}</ul>
    </details>`}
  </section>`;
}

// What is new stands first, then what is worst; the last are servers without a fault.
export function rank(card) {
  if (!isFault(card)) return 3;
  if (isRecent(card)) return Date.now() - card.failedAt - RECENT_MS;
  return isBroken(card) ? ["bad", "ask"].indexOf(card.tone) : 2;
}

function Fault({ card }) {
  const recovered = !isBroken(card) && isRecent(card);
  const waits = !isBroken(card) && !recovered;
  return html`<li class=${`fault tone-${waits ? "ask" : recovered ? "idle" : card.tone}`}>
    ${waits ? html`<${Badge} tone="ask">to approve</${Badge}>` : html`<${State} card=${card} />`}
    <a class="strong cut" title=${card.name} href=${address(card.name)}>${card.name}</a>
    <span class="cause cut" title=${card.last_error}>${cause(card)}</span>
    ${recovered && html`<span class="small muted number">failed <${Since} seconds=${0} seen=${card.failedAt} /> ago</span>`}
    ${card.next_attempt_in_s != null && html`<${Retry} card=${card} />`}
    <${Cures} card=${card} broken=${isBroken(card)} />
  </li>`;
}

function Retry({ card }) {
  const left = card.next_attempt_in_s - (useNow() - card.seen) / 1000;
  return html`<span
    class="small muted number">${left > 0.5 ? `next attempt in ${duration(Math.ceil(left))}` : "next attempt now"}</span>`;
}
