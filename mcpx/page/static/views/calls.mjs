// The calls as they run: a list that can be filtered and stopped, and one call whole beside it.
import { html, useEffect, useMemo, useRef, useState } from "../lib.mjs";
import { useTopic } from "../api.mjs";
import { count, counted } from "../widgets/format.mjs";
import { Dialog } from "../widgets/dialog.mjs";
import { Empty, Loading, Outdated } from "../widgets/notice.mjs";
import { Search } from "../widgets/search.mjs";
import { Detail } from "./calls-detail.mjs";
import { Row, what, who } from "./calls-row.mjs";

const KEPT = 200; // that have ended
const SLOW_MS = 1000; // calls that took as long are not pushed out by quicker ones
const KINDS = {
  running: { name: "running", tone: "busy", holds: (call) => call.end === null },
  failed: { name: "failed", tone: "bad", holds: (call) => call.end === "failed" },
  refused: { name: "refused", tone: "ask", holds: (call) => call.end === "refused" },
  cut: { name: "cut", tone: "ask", holds: (call) => call.cut },
};
const NARROW = matchMedia("(max-width: 1099px)");

const endedAt = (call) => call.id / 1000 + (call.ms ?? 0);

// What runs, the longest first, then the last that have ended, the latest first; news are new calls, and calls
// that have changed. Every call that runs stays; of the others, half of the places are for slow ones.
export function known(before, news) {
  const calls = new Map(news.whole || !before?.list ? [] : before.list.map((call) => [call.id, call]));
  for (const call of news.calls) calls.set(call.id, call);
  const running = new Set(news.running);
  const runs = [...calls.values()].filter((call) => call.end === null && running.has(call.id));
  const ended = [...calls.values()].filter((call) => call.end !== null);
  ended.sort((one, other) => endedAt(other) - endedAt(one));
  const slow = new Set(ended.filter((call) => call.ms >= SLOW_MS).slice(0, KEPT / 2));
  const quick = new Set(ended.filter((call) => !slow.has(call)).slice(0, KEPT - slow.size));
  return {
    list: [...runs.sort((one, other) => one.id - other.id), ...ended.filter((call) => slow.has(call) || quick.has(call))],
    running: news.running.length + news.more_running,
    hidden: news.more_running,
    skipped: (before?.skipped ?? 0) + (news.skipped ?? 0),
  };
}

export function Calls({ rest }) {
  const state = useTopic("calls", known);
  const [frozen, setFrozen] = useState(null); // the list as it was when it was stopped
  const [text, setText] = useState("");
  const [kind, setKind] = useState(null);
  const chosen = rest[0] || null;
  const all = frozen ?? state?.list;
  const shown = useMemo(() => matching(all ?? [], text, kind), [all, text, kind]);
  if (!state) return html`<h1>Calls</h1><${Loading} />`;
  if (!state.list) return html`<h1>Calls</h1><${Outdated} state=${state} />`;
  const waiting = frozen ? state.list.filter((call) => !frozen.some((each) => each.id === call.id)).length : 0;
  const number = (key, each) => (key === "running" && !frozen ? state.running : all.filter(each.holds).length);
  return html`<div class="stack">
    <div class="spread">
      <div class="row">
        <h1>Calls</h1>
        <div class="row chips" role="group" aria-label="Show only">
          ${Object.entries(KINDS).map(([key, each]) => html`<button key=${key} type="button"
            class=${`chip tone-${each.tone}`} aria-pressed=${kind === key}
            onClick=${() => setKind(kind === key ? null : key)}><span class="dot toned"
              aria-hidden="true"></span>${each.name} <span
              class="count">${number(key, each)}</span></button>`)}
        </div>
      </div>
      <div class="row controls">
        <button type="button" aria-pressed=${frozen !== null} onClick=${() => setFrozen(frozen ? null : state.list)}>
          ${frozen ? `Go on${waiting ? ` (${waiting === KEPT ? `${KEPT} or more` : waiting} new)` : ""}` : "Pause"}
        </button>
        <${Search} label="Filter calls" placeholder="Client, server, tool or code" value=${text} onInput=${setText} />
      </div>
    </div>
    <${Outdated} state=${state} />
    ${state.hidden > 0 && html`<p class="small muted number">
      ${counted(state.hidden, "more call runs", "more calls run")}; those that began first are listed.
    </p>`}
    ${state.skipped > 0 && html`<p class="small muted number">
      ${counted(state.skipped, "quick call")} came faster than a list can show; the figures of the overview count them all.
    </p>`}
    <div class=${`calls${chosen ? " with-detail" : ""}`}
      onKeyDown=${(event) => event.key === "Escape" && chosen && leave()}>
      <div class="panel"><${List} shown=${shown} all=${all} chosen=${chosen} /></div>
      ${chosen && html`<${Beside} key=${chosen} id=${chosen}
        call=${state.list.find((each) => String(each.id) === chosen)} />`}
    </div>
  </div>`;
}

function matching(all, text, kind) {
  const words = text.toLowerCase().split(/\s+/).filter(Boolean);
  const holds = kind ? KINDS[kind].holds : () => true;
  const searched = (call) =>
    [who(call), call.server, call.tool, call.code, call.outcome].join(" ").toLowerCase();
  return all.filter((call) => holds(call) && words.every((word) => searched(call).includes(word)));
}

function List({ shown, all, chosen }) {
  if (!all.length) return html`<${Empty}>No call yet. What clients call stands here, the moment they do.</${Empty}>`;
  if (!shown.length) return html`<${Empty}>None of the last ${count(all.length)} calls matches.</${Empty}>`;
  return html`<table class="table call-table" role="table">
    <caption class="hidden">The calls that run, then the last that have ended, the latest first</caption>
    <thead role="rowgroup"><tr role="row">
      <th role="columnheader" scope="col" class="at">Time</th>
      <th role="columnheader" scope="col" class="who">Client</th>
      <th role="columnheader" scope="col" class="what">Server and tool</th>
      <th role="columnheader" scope="col" class="outcome">Outcome</th>
      <th role="columnheader" scope="col" class="took number">Duration</th>
      <th role="columnheader" scope="col" class="tokens number">Tokens in, out</th>
      <th role="columnheader" scope="col" class="gain-cell number">Saved</th>
    </tr></thead>
    <tbody role="rowgroup">${shown.map((call) => html`<${Row} key=${call.id} call=${call}
      chosen=${String(call.id) === chosen} />`)}</tbody>
  </table>`;
}

// Back to the list, and in it to the call that was looked at.
function leave() {
  document.querySelector(".call-table a[aria-current]")?.focus();
  location.hash = "#/calls";
}

// One call whole: beside the list, or above it where there is no room. The focus goes along.
function Beside({ id, call }) {
  const [narrow, setNarrow] = useState(NARROW.matches);
  const own = useRef(null);
  useEffect(() => {
    const changed = () => setNarrow(NARROW.matches);
    NARROW.addEventListener("change", changed);
    return () => NARROW.removeEventListener("change", changed);
  }, []);
  useEffect(() => {
    if (document.activeElement.closest(".call-table")) own.current?.focus({ preventScroll: true });
  }, []);
  const title = call ? what(call) : "One call";
  if (narrow) return html`<${Dialog} title=${title} onClose=${leave}><${Detail} id=${id} call=${call} /></${Dialog}>`;
  return html`<aside class="panel" aria-label=${title} tabindex="-1" ref=${own}>
    <div class="panel-head"><h2 class="clamp" title=${title}>${title}</h2><button type="button" class="quiet small"
      onClick=${leave}>Close</button></div>
    <${Detail} id=${id} call=${call} />
  </aside>`;
}
