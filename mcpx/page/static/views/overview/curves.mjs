// The last hour as a strip of curves: calls, latency, tokens direct against through MCPX, and failures.
import { html, useMemo, useState } from "../../lib.mjs";
import { useTopic } from "../../api.mjs";
import { Curve } from "../../widgets/curve.mjs";
import { count, counted, minute, ms, saved, share, short } from "../../widgets/format.mjs";
import { Outdated } from "../../widgets/notice.mjs";
import { Table } from "../../widgets/table.mjs";

const HOUR_S = 3600;
const SPANS_S = [300, 900, 1800, HOUR_S]; // the shortest that holds what is known is shown
const BARS = 121; // of a curve of counts, at most: an hour in steps of 30 s, and the running one
const ROW_S = 300; // of the table
const [CALLS, FAILED, REFUSED, P50, P95, DIRECT, SPENT] = [0, 1, 2, 3, 4, 5, 6];

// {step_s, until, points, open} of the news: whole first, then a point each time a step closes.
function known(before, news) {
  if (news.points) return news;
  const next = { ...before, until: news.until ?? before.until, open: news.open ?? null };
  if (news.point) next.points = [...before.points, news.point].slice(-HOUR_S / before.step_s);
  return next;
}

// The points as columns, with times; `until` is the end of the last closed step.
function columns({ step_s: step, until, points, open }) {
  const begun = points.findIndex((point) => point.some(Boolean)); // before that nothing happened
  const its = begun < 0 ? points.slice(-1) : points.slice(begun);
  const all = open ? [...its, open] : its;
  const last = until + (open ? step : 0);
  const column = (index) => all.map((point) => point[index]);
  return {
    times: all.map((_point, index) => last - (all.length - index) * step + step / 2),
    until: last,
    span: SPANS_S.find((span) => all.length * step <= span) ?? HOUR_S,
    calls: column(CALLS),
    failed: column(FAILED),
    refused: column(REFUSED),
    p50: column(P50),
    p95: column(P95),
    direct: running(column(DIRECT)),
    spent: running(column(SPENT)),
  };
}

// Counts of several steps as one, so that there are no more bars than can be told apart. The running one grows.
function bars({ times, until }, values, step) {
  const each = Math.ceil(times.length / BARS);
  const width = each * step;
  const sums = new Map();
  values.forEach((value, index) => {
    const at = (Math.floor(times[index] / width) + 0.5) * width;
    sums.set(at, (sums.get(at) ?? 0) + value);
  });
  return { times: [...sums.keys()], values: [...sums.values()], per: `in ${width} s`, until };
}

function running(values) {
  let sum = 0;
  return values.map((value) => (sum += value));
}
const total = (values) => values.reduce((sum, value) => sum + value, 0);
const last = (values) => values.findLast((value) => value !== null) ?? null;
const greatest = (values) => values.reduce((most, value) => Math.max(most ?? 0, value ?? 0), null);

export function Curves() {
  const [at, setAt] = useState(null); // the time that is pointed at, in all of them
  const history = useTopic("history", known);
  const data = useMemo(() => (history?.points ? columns(history) : null), [history]);
  if (!data && history) return html`<${Outdated} state=${history} />`;
  if (!data) return html`<section class="panel curves" aria-label="The last hour"
    aria-busy="true">${[0, 1, 2, 3].map((each) => html`<div key=${each} class="curve-panel"></div>`)}</section>`;
  const ago = data.span === HOUR_S ? "in the last hour" : `in the last ${data.span / 60} minutes`;
  const calls = total(data.calls);
  const failures = total(data.failed);
  const refusals = total(data.refused);
  const direct = data.direct.at(-1) ?? 0;
  const spent = data.spent.at(-1) ?? 0;
  const part = saved(direct, spent);
  const common = { times: data.times, until: data.until, span: data.span, at, setAt };
  const called = bars(data, data.calls, history.step_s);
  const failed = bars(data, data.failed, history.step_s);
  return html`<section aria-labelledby="hour-title" class="stack tight">
    <h2 id="hour-title" class="hidden">What happened ${ago}</h2>
    <${Outdated} state=${history} />
    <div class="panel curves">
      <${Panel} title="Calls" value=${short(calls)} beside=${ago}>
        <${Curve} ...${common} times=${called.times} label="Calls" format=${short}
          words=${`${counted(calls, "call")} ${ago}, at most ${count(greatest(called.values))} ${called.per}`}
          series=${[{ name: called.per, colour: 1, values: called.values, bars: true }]} />
      </${Panel}>
      <${Panel} title="Latency" value=${ms(last(data.p50))} beside="half of the calls are faster">
        <${Curve} ...${common} label="Latency" format=${ms} log words=${latency(data)}
          series=${[{ name: "p95", colour: 3, values: data.p95 }, { name: "p50", colour: 2, values: data.p50 }]} />
      </${Panel}>
      <${Panel} title="Tokens" value=${part === null ? "–" : `${share(Math.abs(part))}`}
        tone=${part > 0 ? "good" : undefined}
        beside=${part === null ? "nothing to compare yet" : part >= 0 ? `saved ${ago}` : `more than directly, ${ago}`}>
        <${Curve} ...${common} label="Tokens" format=${short}
          words=${`${count(direct)} tokens directly, ${count(spent)} through MCPX, ${ago}`}
          series=${[
            { name: "directly", colour: 3, values: data.direct, fill: true },
            { name: "through MCPX", colour: 1, values: data.spent, fill: true },
          ]} />
      </${Panel}>
      <${Panel} title="Failed" value=${count(failures)} tone=${failures ? "bad" : undefined}
        beside=${refusals ? `${ago}; ${count(refusals)} refused` : ago}>
        <${Curve} ...${common} times=${failed.times} label="Failed" format=${short}
          words=${failures ? `${counted(failures, "call")} failed ${ago}` : `No call failed ${ago}`}
          series=${[{ name: failed.per, colour: 4, values: failed.values, bars: true }]} />
      </${Panel}>
    </div>
    <details class="curves-table"><summary class="small muted">The same as a table</summary><${Rows} data=${data}
      history=${history} /></details>
  </section>`;
}

function latency(data) {
  if (last(data.p50) === null) return "No call was answered";
  const most = `at most ${ms(last(data.p50))} last, 95 of 100 at most ${ms(last(data.p95))}`;
  return `Half of the calls took ${most}; the worst was ${ms(greatest(data.p95))}`;
}

function Panel({ title, value, beside, tone, children }) {
  return html`<div class="curve-panel">
    <div class="curve-head">
      <h3>${title}</h3>
      <span class=${`curve-value number toned${tone ? ` tone-${tone}` : ""}`}>${value}</span>
      <span class="muted small cut" title=${beside}>${beside}</span>
    </div>
    ${children}
  </div>`;
}

// A row for each five minutes, the latest first.
function Rows({ data, history }) {
  const each = ROW_S / history.step_s;
  const rows = [];
  for (let end = data.times.length; end > 0; end -= each) {
    const from = Math.max(0, end - each);
    const part = (values) => values.slice(from, end);
    const grown = (values) => values[end - 1] - (from ? values[from - 1] : 0);
    rows.push({
      at: data.times[end - 1],
      calls: total(part(data.calls)),
      failed: total(part(data.failed)),
      refused: total(part(data.refused)),
      p50: last(part(data.p50)),
      p95: last(part(data.p95)),
      direct: grown(data.direct),
      spent: grown(data.spent),
    });
  }
  const number = (key, label, cell) => ({ key, label, number: true, cell });
  return html`<div class="panel"><${Table} caption="The last hour, in steps of five minutes" rowKey=${(row) => row.at}
    rows=${rows} columns=${[
    { key: "at", label: "until", lead: true, cell: (row) => minute(row.at * 1000) },
    number("calls", "calls", (row) => count(row.calls)),
    number("failed", "failed", (row) => count(row.failed)),
    number("refused", "refused", (row) => count(row.refused)),
    number("p50", "p50", (row) => ms(row.p50)),
    number("p95", "p95", (row) => ms(row.p95)),
    number("direct", "tokens directly", (row) => count(row.direct)),
    number("spent", "through MCPX", (row) => count(row.spent)),
  ]} /></div>`;
}
