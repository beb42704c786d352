// A curve over time, as thin as a line of text or two, with what it says in words: for screen readers, and under the
// pointer or the arrow keys.
import { html, useState } from "../lib.mjs";
import { minute } from "./format.mjs";

const WIDTH = 1000; // of the drawing, which is as wide as its place
const HEIGHT = 100;
const HEADROOM = 1.08; // over the highest value

// times: seconds since 1970, ascending. series: [{name, colour: 1 to 4, values (null for none), bars, fill}].
// format(value) makes text of a value; log: a logarithmic scale. span: the seconds that are shown, up to `until`.
// words: what the curve says, in a sentence. at, setAt: the time that is pointed at in all curves, or null. The legend
// shows the values there, else the last ones.
export function Curve({ label, times, series, format, until, span, log, words, at, setAt }) {
  const [focused, setFocused] = useState(false); // then the values are read out, as the arrow keys move
  const index = at === null ? times.length - 1 : nearest(times, at);
  const x = (time) => ((time - until + span) / span) * WIDTH;
  const y = scale(series, log);
  const pointed = (event) => {
    const { left, width } = event.currentTarget.getBoundingClientRect();
    setAt(until - span + ((event.clientX - left) / width) * span);
  };
  const leave = () => {
    setFocused(false);
    setAt(null);
  };
  return html`<div class="curve">
    <div class="curve-plot" role="img" tabindex="0" aria-label=${`${label}. ${words}`} onPointerMove=${pointed}
      onPointerLeave=${() => setAt(null)} onFocus=${() => setFocused(true)} onBlur=${leave}
      onKeyDown=${(event) => moved(event, times, index, setAt)}>
      <svg viewBox=${`0 0 ${WIDTH} ${HEIGHT}`} preserveAspectRatio="none" aria-hidden="true">
        ${series.map((each) => html`<${Drawn} key=${each.name} series=${each} xs=${times.map(x)} y=${y} />`)}
        ${at !== null && index >= 0 && html`<path class="curve-at" d=${`M${x(times[index])} 0V${HEIGHT}`} />`}
      </svg>
    </div>
    <ul class="curve-legend" aria-live=${focused && at !== null ? "polite" : undefined}>
      ${series.map((each) => html`<li key=${each.name}>
        <i class=${`colour-${each.colour}`} aria-hidden="true"></i>${each.name} <span
          class="strong">${format(each.values[index])}</span>
      </li>`)}
      ${at !== null && index >= 0 && html`<li>${minute(times[index] * 1000)}</li>`}
    </ul>
  </div>`;
}

function Drawn({ series: { colour, values, bars, fill }, xs, y }) {
  if (bars) return html`<path class=${`curve-bars colour-${colour}`} d=${barsOf(xs, values, y)} />`;
  const runs = runsOf(xs, values, y);
  return html`
    ${fill && html`<path class=${`curve-fill colour-${colour}`} d=${runs.map((run) => `M${run[0][0]} ${HEIGHT}L${run.join("L")}L${run.at(-1)[0]} ${HEIGHT}Z`).join("")} />`}
    <path class=${`curve-line colour-${colour}`} d=${runs.map((run) => `M${run.join("L")}${run.length > 1 ? "" : "h0.01"}`).join("")} />
  `;
}

// The height of a value: from zero, or by its logarithm from the decade below the least.
function scale(series, log) {
  const values = series.flatMap((each) => each.values).filter((value) => value > 0);
  const rounded = (value) => Math.round(value * 10) / 10;
  if (!values.length) return () => HEIGHT;
  const most = values.reduce((one, other) => Math.max(one, other));
  if (!log) return (value) => rounded(HEIGHT * (1 - value / (most * HEADROOM)));
  const low = Math.floor(Math.log10(values.reduce((one, other) => Math.min(one, other))));
  const high = Math.max(Math.ceil(Math.log10(most)), low + 1);
  return (value) => rounded(HEIGHT * (1 - (value > 0 ? (Math.log10(value) - low) / (high - low) : 0)));
}

function barsOf(xs, values, y) {
  const width = Math.max(2, xs.length > 1 ? (xs[1] - xs[0]) * 0.8 : 8);
  const bar = (value, index) => `M${xs[index] - width / 2} ${HEIGHT}V${y(value)}h${width}V${HEIGHT}Z`;
  return values.map((value, index) => (value > 0 ? bar(value, index) : "")).join("");
}

// The points of a line, in runs without a gap.
function runsOf(xs, values, y) {
  const runs = [];
  values.forEach((value, index) => {
    if (value === null || value === undefined) return;
    if (!runs.length || (values[index - 1] ?? null) === null) runs.push([]);
    runs.at(-1).push([Math.round(xs[index] * 10) / 10, y(value)]);
  });
  return runs;
}

function nearest(times, at) {
  return times.reduce((best, time, index) => (Math.abs(time - at) < Math.abs(times[best] - at) ? index : best),
    times.length - 1);
}

// The arrow keys move along the curve, as the pointer does.
function moved(event, times, index, setAt) {
  const steps = { ArrowLeft: -1, ArrowRight: 1, PageUp: -30, PageDown: 30, Home: -times.length, End: times.length };
  if (!(event.key in steps) || !times.length) return;
  event.preventDefault();
  setAt(times[Math.min(times.length - 1, Math.max(0, index + steps[event.key]))]);
}
