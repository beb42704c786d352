// A curve over time, with what it says in words: for screen readers, and under the pointer or the arrow keys.
import uPlot from "uplot";
import { html, useEffect, useRef, useState } from "../lib.mjs";
import { minute } from "./format.mjs";

const TEXT = "11px Inter, system-ui, sans-serif";
const WHOLE = Array.from({ length: 13 }, (_none, power) => [1, 2, 5].map((each) => each * 10 ** power)).flat();
const redraws = new Set();
new MutationObserver(() => redraws.forEach((each) => each())).observe(document.documentElement, {
  attributeFilter: ["data-theme"],
});
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => redraws.forEach((each) => each()));

// times: seconds since 1970, ascending. series: [{name, colour: 1 to 4, values (null for none), bars, fill}].
// format(value) makes text of a value; log: a logarithmic scale; whole: there are no halves.
// span: the seconds that are shown, up to `until`.
// words: what the curve says, in a sentence. The legend shows the values under the pointer, else the last ones.
export function Curve({ label, times, series, format, until, span, log, whole, words }) {
  const box = useRef(null);
  const legend = useRef(null);
  const plot = useRef(null);
  const shown = useRef(null);
  const [at, setAt] = useState(null);
  const [focused, setFocused] = useState(false); // then the values are read out, as the arrow keys move
  shown.current = { format, until, span, series };

  useEffect(() => {
    const place = box.current; // kept, for the browser tells of sizes also after the curve is gone
    const empty = [[], ...series.map(() => [])];
    const own = new uPlot(options(place, legend.current, shown, { log, whole }, setAt), empty, place);
    plot.current = own;
    const resized = new ResizeObserver(() => own.setSize(size(place)));
    resized.observe(place);
    const redraw = () => own.redraw(false);
    redraws.add(redraw);
    document.fonts?.ready.then(redraw);
    return () => {
      redraws.delete(redraw);
      resized.disconnect();
      own.destroy();
    };
  }, [log, series.length]);
  useEffect(() => {
    plot.current.setData([times, ...series.map((each) => each.values)]);
  }, [times, until, span, log, series.length]);

  const index = at === null || at >= times.length ? times.length - 1 : at;
  return html`<div class="curve">
    <div class="curve-plot" ref=${box} role="img" tabindex="0" aria-label=${`${label}. ${words}`}
      onKeyDown=${(event) => moved(event, plot.current, times.length)} onFocus=${() => setFocused(true)}
        onBlur=${() => left(plot.current, setFocused)}></div>
    <ul class="curve-legend" ref=${legend} aria-live=${focused && at !== null ? "polite" : undefined}>
      ${series.map((each) => html`<li key=${each.name}>
        <i class=${`colour-${each.colour}`} aria-hidden="true"></i>${each.name} <span
          class="strong">${format(each.values[index])}</span>
      </li>`)}
      <li>${at === null ? "" : minute(times[index] * 1000)}</li>
    </ul>
  </div>`;
}

// The arrow keys move the cursor, as the pointer does.
function moved(event, plot, length) {
  const steps = { ArrowLeft: -1, ArrowRight: 1, PageUp: -30, PageDown: 30, Home: -length, End: length }[event.key];
  if (!steps || !length) return;
  event.preventDefault();
  const to = Math.min(length - 1, Math.max(0, (plot.cursor.idx ?? length) + steps));
  plot.setCursor({ left: plot.valToPos(plot.data[0][to], "x"), top: 10 });
}

function left(plot, setFocused) {
  setFocused(false);
  plot.setCursor({ left: -10, top: -10 });
}

// The plot is as large as the page has it (.curve-plot).
const size = (box) => ({ width: box.clientWidth || 300, height: box.clientHeight || 132 });

function options(box, legend, shown, { log, whole }, setAt) {
  const colours = () => [...legend.querySelectorAll("i")].map((each) => getComputedStyle(each).color);
  const decadesOnly = log ? { filter: decadesOf } : {};
  const faint = (amount) => mixed(getComputedStyle(box).color, amount);
  const axis = { font: TEXT, stroke: () => faint(0.72), ticks: { show: false } };
  return {
    ...size(box),
    padding: [10, 18, 0, 0],
    legend: { show: false },
    cursor: { y: false, drag: { x: false, y: false }, points: { size: 6 }, sync: { key: "hour", setSeries: false } },
    hooks: { setCursor: [(plot) => setAt(plot.cursor.idx ?? null)] },
    scales: {
      x: { time: true, range: () => [shown.current.until - shown.current.span, shown.current.until] },
      y: { distr: log ? 3 : 1, range: log ? decades : fromZero },
    },
    axes: [
      {
        ...axis,
        size: 24,
        gap: 4,
        space: 46,
        grid: { show: false },
        values: (_plot, all) => all.map((each) => minute(each * 1000)),
      },
      {
        ...axis,
        size: widest,
        gap: 8,
        space: 26,
        grid: { width: 1, stroke: () => faint(0.1), ...decadesOnly },
        values: (_plot, all) => all.map((each) => (each === null ? "" : shown.current.format(each))),
        ...decadesOnly,
        ...(whole && { incrs: WHOLE }),
      },
    ],
    series: [
      {},
      ...shown.current.series.map((each, index) => ({
        width: each.bars ? 0 : 1.6,
        stroke: () => colours()[index],
        fill: each.fill || each.bars ? () => mixed(colours()[index], each.bars ? 0.9 : 0.14) : undefined,
        paths: each.bars ? uPlot.paths.bars({ size: [0.9, 8], align: -1 }) : undefined,
        points: {
          show: !each.bars,
          size: 4,
          width: 0,
          fill: () => colours()[index],
          filter: (plot) => lonely(plot.data[index + 1]),
        },
      })),
    ],
  };
}

// The values that have no neighbour, and so are on no line.
function lonely(values) {
  const has = (index) => values[index] !== null && values[index] !== undefined;
  return values.reduce((found, _value, index) => {
    if (has(index) && !has(index - 1) && !has(index + 1)) found.push(index);
    return found;
  }, []);
}

function fromZero(_plot, _least, most) {
  return [0, most > 0 ? most * 1.12 : 1];
}

function decades(_plot, least, most) {
  const down = 10 ** Math.floor(Math.log10(least > 0 ? least : 1));
  const up = 10 ** Math.ceil(Math.log10(most > 0 ? most : 100));
  return [down, up > down ? up : down * 10];
}

// Of a logarithmic axis the decades are named, the lines between them are left out.
function decadesOf(_plot, values) {
  return values.map((each) => (Number.isInteger(Math.round(Math.log10(each) * 1e6) / 1e6) ? each : null));
}

// The width of an axis: that of its longest label.
function widest(plot, labels) {
  if (!labels) return 30;
  plot.ctx.save();
  plot.ctx.font = TEXT;
  const most = Math.max(...labels.map((each) => plot.ctx.measureText(each ?? "").width));
  plot.ctx.restore();
  return Math.ceil(most) + 10;
}

// A colour of the page, as transparent as that.
function mixed(colour, amount) {
  const parts = colour.match(/[\d.]+/g)?.slice(0, 3) ?? [128, 128, 128];
  return `rgb(${parts.join(" ")} / ${amount})`;
}
