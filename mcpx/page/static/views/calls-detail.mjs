// One call whole: its figures, what was asked for, and for one that only reads, doing it again.
import { html, useState } from "../lib.mjs";
import { post, useAnswer } from "../api.mjs";
import { Action } from "../widgets/action.mjs";
import { Badge } from "../widgets/badge.mjs";
import { Code } from "../widgets/copy.mjs";
import { Figure, Figures } from "../widgets/figure.mjs";
import { laidOut } from "../widgets/json.mjs";
import { Failed, Loading } from "../widgets/notice.mjs";
import { bytes, count, date, ms, saved, share } from "../widgets/format.mjs";
import { outcome, what, who, whyNoTokens } from "./calls-row.mjs";
import { address } from "./overview/faults.mjs";

// call: as the list has it, while it does; the daemon is asked anew when it ends.
export function Detail({ id, call }) {
  const path = `/calls/${encodeURIComponent(id)}`;
  const { answer, failure, again } = useAnswer(call?.end === null ? `${path}?running` : path);
  const [repeated, setRepeated] = useState(null);
  const whole = answer || call ? { ...answer, ...call } : null;
  if (!whole) return failure ? html`<${Failed} failure=${failure} again=${again} />` : html`<${Loading} />`;
  const { tone, word } = outcome(whole);
  const { transport } = whole;
  const part = saved(whole.tokens_direct, whole.tokens_out);
  const repeat = async () => setRepeated(await post(`${path}/repeat`));
  return html`<div class="call-detail">
    <div class="row">
      <${Badge} tone=${tone}>${word}</${Badge}>
      ${whole.code && html`<code class="small">${whole.code}</code>`}
      ${whole.cut && html`<${Badge} tone="ask" dot=${false}>cut</${Badge}>`}
      ${whole.read_only && html`<${Badge} tone="idle" dot=${false}>reads only</${Badge}>`}
    </div>
    <${Figures} label="Figures of the call">
      <${Figure} label="Duration" value=${ms(whole.ms)} />
      <${Figure} label="Tokens in" value=${count(whole.tokens_in)} />
      <${Figure} label="Tokens out" value=${count(whole.tokens_out)}
        beside=${whole.tokens_direct > 0 && `${count(whole.tokens_direct)} directly`} />
      <${Figure} label="Saved" value=${part === null ? "–" : share(part)} tone=${part > 0 ? "good" : undefined} />
      <${Figure} label="Result" value=${bytes(whole.bytes_out)}
        beside=${whole.bytes_in > 0 && `${bytes(whole.bytes_in)} of arguments`} />
    </${Figures}>
    ${whole.end !== null && whole.tokens_out === null && html`<p class="small muted">${whyNoTokens(whole)}</p>`}
    <dl class="pairs">
      <dt>Server</dt><dd><a href=${address(whole.server)}>${whole.server}</a></dd>
      <dt>${whole.kind === "resource" ? "Resource" : "Tool"}</dt><dd class="mono">${what(whole)}</dd>
      <dt>Client</dt><dd>${who(whole)}${transport && transport !== whole.client && transport !== "page" && `, ${transport}`}</dd>
      ${whole.profile && html`<dt>Profile</dt><dd>${whole.profile}</dd>`}
      <dt>At</dt><dd><time>${date(whole.at)}</time></dd>
      ${whole.rule && html`<dt>Rule</dt><dd>${whole.rule}</dd>`}
      ${whole.approval && html`<dt>Approval</dt><dd>${whole.approval}</dd>`}
    </dl>
    ${failure ? html`<${Failed} failure=${failure} again=${again} />` : answer && html`<${Arguments}
      answer=${answer} />`}
    ${whole.repeatable && whole.end !== null && html`<${Action} run=${repeat}
      done="Done">Call it again</${Action}>`}
    ${repeated && html`<${Repeated} result=${repeated} />`}
  </div>`;
}

function Repeated({ result }) {
  return html`<section class="stack tight">
    <h3>What came this time${result.is_error && html` <${Badge} tone="bad">tool error</${Badge}>`}</h3>
    <${Code} wraps what="result" text=${result.text} />
  </section>`;
}

// With their values where the audit keeps those, else by name.
function Arguments({ answer }) {
  const { arguments: given, values_kept: kept } = answer;
  if (given == null) return html`<p class="small muted">What it was called with is not known.</p>`;
  if (kept) return html`<section class="stack tight"><h3>Arguments</h3><${Code} wraps what="arguments"
    text=${laidOut(given)} /></section>`;
  if (!given.length) return html`<p class="small muted">It was called without arguments.</p>`;
  return html`<section class="stack tight">
    <h3>Arguments</h3>
    <ul class="row">${given.map((name) => html`<li key=${name} class="chip"><code>${name}</code></li>`)}</ul>
    <p class="small muted">Their values are kept where the configuration says <code>"audit": "full"</code>.</p>
  </section>`;
}
