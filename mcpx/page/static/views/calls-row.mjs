// A call as a row of the list, and how its outcome is worded.
import { html, memo } from "../lib.mjs";
import { NONE, clock, duration, ms, saved, share, short } from "../widgets/format.mjs";
import { Badge } from "../widgets/badge.mjs";
import { useNow } from "../widgets/clock.mjs";

const OUTCOMES = {
  ok: { tone: "good", word: "ok" },
  cached: { tone: "good", word: "from the cache" },
  tool_error: { tone: "bad", word: "tool error" },
  failed: { tone: "bad", word: "failed" },
  unknown: { tone: "bad", word: "outcome unknown" },
  not_sent: { tone: "ask", word: "refused" },
  input_required: { tone: "ask", word: "wants input" },
  task: { tone: "busy", word: "continues as a task" },
};
const CANCELLED = { tone: "idle", word: "cancelled" };
const RUNNING = { tone: "busy", word: "running" };
const OWN = new Set(["page", "control", "library"]);
const FASTEST_MS = 0.1; // a bar of the duration is empty here
const SLOWEST_MS = 60_000; // and full here

export function outcome(call) {
  if (call.end === null) return RUNNING;
  if (call.end === "cancelled") return CANCELLED;
  return OUTCOMES[call.outcome] ?? { tone: "idle", word: call.outcome };
}
export const who = (call) => (call.transport === "page" ? "this page" : call.client);
export const what = (call) => (call.kind && call.kind !== "tool" ? `${call.kind} ${call.tool}` : call.tool);

export const Row = memo(({ call, chosen }) => {
  const { tone, word } = outcome(call);
  const part = saved(call.tokens_direct, call.tokens_out);
  return html`<tr role="row" class=${chosen ? "chosen" : undefined}>
    <td role="cell" class="at"><time>${clock(call.at)}</time></td>
    <td role="cell" class="who cut" title=${who(call)}>${who(call)}</td>
    <td role="cell" class="what cut"><span class="muted" title=${call.server}>${call.server}</span> <a
      href=${`#/calls/${encodeURIComponent(call.id)}`} aria-current=${chosen ? "true" : undefined}
      title=${call.tool}>${what(call)}</a></td>
    <td role="cell" class="outcome cut"><${Badge} tone=${tone}>${word}</${Badge}>${call.cut && html` <${Badge}
      tone="ask" dot=${false}>cut</${Badge}>`}${call.code && html` <span
      class="small muted code-name">${call.code}</span>`}</td>
    <td role="cell" class="took number"><${Took} call=${call} tone=${tone} /></td>
    <td role="cell" class="tokens number"><${Tokens} call=${call} /></td>
    <td role="cell" class="gain-cell number">${part === null ? NONE : share(part)}</td>
  </tr>`;
});

function Tokens({ call }) {
  if (call.end === null) return html`<span class="muted in">${short(call.tokens_in)} in</span>`;
  if (call.tokens_out === null) return html`<span class="muted" title=${whyNoTokens(call)}>${NONE}</span>`;
  return html`<span class="muted in">${short(call.tokens_in)} in, </span>${short(call.tokens_out)} out`;
}

// Tokens are estimated of what a model is given, while a page looks.
export const whyNoTokens = (call) =>
  OWN.has(call.transport) ? "No model was given this result." : "It began before this view was opened, so its tokens were not estimated.";

function Took({ call, tone }) {
  if (call.end === null) return html`<${Running} at=${call.at} />`;
  const full = Math.log(call.ms / FASTEST_MS) / Math.log(SLOWEST_MS / FASTEST_MS);
  const width = call.ms === null ? "0%" : `${Math.round(100 * Math.min(1, Math.max(0.02, full)))}%`;
  return html`<span class="took-box"><span class=${`bar tone-${tone === "good" ? "idle" : tone}`}
    aria-hidden="true"><span style=${{ width }}></span></span><span class="value">${ms(call.ms)}</span></span>`;
}

function Running({ at }) {
  const seconds = (useNow() - at) / 1000;
  return html`<span class="muted">${seconds < 1 ? "…" : duration(seconds)}</span>`;
}
