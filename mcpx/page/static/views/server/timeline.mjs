// The lifecycle of a server: a strip of its states, and what happened, the last first.
import { html } from "../../lib.mjs";
import { Badge } from "../../widgets/badge.mjs";
import { useNow } from "../../widgets/clock.mjs";
import { clock, date, duration } from "../../widgets/format.mjs";
import { Empty } from "../../widgets/notice.mjs";

const EVENTS = {
  started: { word: "starting", tone: "busy" },
  ready: { word: "ready", tone: "good" },
  interrupted: { word: "connection lost", tone: "busy" },
  died: { word: "died", tone: "bad" },
  waiting: { word: "waiting", tone: "bad" },
  parked: { word: "parked", tone: "bad" },
  asleep: { word: "asleep", tone: "idle" },
  stopped: { word: "stopped", tone: "off" },
  needs_sign_in: { word: "needs sign-in", tone: "ask" },
  needs_setup: { word: "needs setup", tone: "ask" },
  invalid: { word: "invalid", tone: "bad" },
  disabled: { word: "disabled", tone: "off" },
};
const SHORTEST = 0.004; // of the strip, so that what was short is still seen

// entries: the oldest first
export function Timeline({ entries }) {
  const now = useNow();
  if (!entries?.length) return html`<div class="panel"><${Empty}>Nothing has happened to it yet.</${Empty}></div>`;
  const spans = entries.map((entry, index) => ({ ...entry, until: entries[index + 1]?.at ?? now }));
  return html`<section class="panel stack" aria-label="Lifecycle">
    <${Strip} spans=${spans} />
    <ol class="timeline">${spans.toReversed().map((entry, index) => html`<${Entry}
      key=${`${entry.at}-${entries.length - index}`} entry=${entry} isLast=${index === 0} />`)}</ol>
  </section>`;
}

function Strip({ spans }) {
  const whole = Math.max(1, spans.at(-1).until - spans[0].at);
  return html`<div aria-hidden="true">
    <div class="strip">${spans.map((span, index) => html`<span key=${index} class=${`tone-${EVENTS[span.event]?.tone}`}
      title=${EVENTS[span.event]?.word}
      style=${{ flexGrow: Math.max(SHORTEST, (span.until - span.at) / whole) }}></span>`)}</div>
    <div class="spread small muted"><span>${clock(spans[0].at)}</span><span>now</span></div>
  </div>`;
}

function Entry({ entry, isLast }) {
  const { word, tone } = EVENTS[entry.event] ?? { word: entry.event, tone: "idle" };
  const seconds = (entry.until - entry.at) / 1000;
  const lasted = entry.event === "died" || seconds < 1 ? "" : `${isLast ? "for" : "lasted"} ${duration(seconds)}`;
  const about = [
    entry.took_s !== undefined && `after ${entry.took_s.toFixed(2)} s`,
    entry.retry_in_s !== undefined && `next attempt in ${entry.retry_in_s} s`,
    entry.pid && `pid ${entry.pid}`,
    lasted,
  ].filter(Boolean);
  return html`<li class=${`tone-${tone}`}>
    <div class="row"><${Badge} tone=${tone}>${word}</${Badge}><time class="small muted"
      dateTime=${new Date(entry.at).toISOString()} title=${date(entry.at)}>${clock(entry.at)}</time>
      <span class="small muted">${about.join(", ")}</span></div>
    ${entry.cause && html`<p class="break small">${entry.cause}</p>`}
  </li>`;
}
