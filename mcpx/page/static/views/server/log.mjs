// What a server says on standard error, live. The end stays in view, until somebody scrolls away from it.
import { html, memo, useEffect, useRef, useState } from "../../lib.mjs";
import { useTopic } from "../../api.mjs";
import { count } from "../../widgets/format.mjs";
import { Copy } from "../../widgets/copy.mjs";
import { Empty, Loading, Outdated } from "../../widgets/notice.mjs";
import { Search } from "../../widgets/search.mjs";

const MAX_LINES = 2000;
const NEAR_END = 40; // pixels
const TONES = [
  [/\b(error|critical|fatal|exception|traceback|panic)\b/i, "bad"],
  [/\bwarn(ing)?\b/i, "ask"],
];

// What is known of the log so far: lines with numbers that stay with them.
function known(before, news) {
  const kept = news.from_start ? [] : (before?.lines ?? []);
  let next = before?.next ?? 0;
  const left = news.skipped ? [{ key: next++, text: `${count(news.skipped)} lines came too fast to be shown`,
    note: true }] : [];
  const lines = news.lines.map((text) => ({ key: next++, text, tone: TONES.find(([words]) => words.test(text))?.[1] }));
  return { lines: [...kept, ...left, ...lines].slice(-MAX_LINES), next };
}

export function Log({ server }) {
  const state = useTopic(`log:${server}`, known);
  const [query, setQuery] = useState("");
  const [follows, setFollows] = useState(true);
  const box = useRef(null);
  const lines = state?.lines;
  useEffect(() => {
    if (follows && box.current) box.current.scrollTop = box.current.scrollHeight;
  }, [lines, follows, query]);
  const scrolled = () => {
    if (!box.current) return; // the last scroll of a log that is gone
    const { scrollHeight, scrollTop, clientHeight } = box.current;
    setFollows(scrollHeight - scrollTop - clientHeight < NEAR_END);
  };
  if (!state) return html`<div class="panel"><${Loading} /></div>`;
  const wanted = query.toLowerCase();
  const shown = wanted ? (lines ?? []).filter((line) => line.text.toLowerCase().includes(wanted)) : (lines ?? []);
  return html`<section class="panel stack tight" aria-label="Log">
    <div class="spread">
      <div class="grow log-search"><${Search} label="Filter the lines" value=${query} onInput=${setQuery} /></div>
      <div class="row">
        <label class="switch"><input type="checkbox" checked=${follows}
          onChange=${(event) => setFollows(event.target.checked)} />Follow the end</label>
        <${Copy} text=${() => shown.map((line) => line.text).join("\n")} what="the lines that are shown" />
      </div>
    </div>
    <${Outdated} state=${state} />
    <div class="log" ref=${box} role="log" aria-live="off" aria-label=${`What ${server} says on standard error`}
      tabindex="0" onScroll=${scrolled}>
      ${shown.map((line) => html`<${Line} key=${line.key} line=${line} />`)}
      ${!shown.length && html`<${Empty}>${wanted ? "No line has that."
        : "It has said nothing on standard error yet."}</${Empty}>`}
    </div>
  </section>`;
}

const Line = memo(({ line }) => html`<div class=${line.note ? "muted" : line.tone
  && `tone-${line.tone} toned`}>${line.text}</div>`);
