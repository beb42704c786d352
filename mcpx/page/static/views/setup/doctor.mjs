// Doctor: what is wrong with the whole installation, and what to type, as `mcpx doctor` says it.
import { html, useEffect, useState } from "../../lib.mjs";
import { post } from "../../api.mjs";
import { Badge } from "../../widgets/badge.mjs";
import { useNow } from "../../widgets/clock.mjs";
import { Copy } from "../../widgets/copy.mjs";
import { clock, counted, duration } from "../../widgets/format.mjs";
import { Failed, Loading, Notice } from "../../widgets/notice.mjs";
import { Excerpt, LEVELS } from "./configuration.mjs";

const last = { state: {}, tell: null }; // kept while other views are looked at, for it takes its time

export function Doctor() {
  const [state, setState] = useState(last.state);
  useEffect(() => {
    last.tell = setState;
    return () => void (last.tell = null);
  }, []);
  const busy = state.since ? "true" : undefined;
  return html`
    <section class="panel stack tight" aria-labelledby="setup-doctor">
      <h2 id="setup-doctor">Doctor</h2>
      <p class="muted">Looks at versions, the configuration, servers, clients, the daemon and this computer.</p>
      <div class="row">
        <button class="primary" aria-disabled=${busy} onClick=${() => busy || examine(true)}>Check everything</button>
        <button aria-disabled=${busy} onClick=${() => busy || examine(false)}>Check without starting</button>
        <span class="muted small">The first starts each server, and each client's entry, once; the second starts nothing.</span>
      </div>
      ${state.since && html`<${Running} since=${state.since} />`}
    </section>
    ${state.failure && html`<${Failed} failure=${state.failure} />`}
    ${state.report && html`<${Report} report=${state.report} at=${state.at} starts=${state.starts} />`}
  `;
}

function examine(starts) {
  tell({ ...last.state, since: Date.now(), failure: null });
  post("/setup/doctor", { starts }).then(
    (report) => tell({ report, at: Date.now(), starts }),
    (failure) => tell({ failure }),
  );
}

function tell(state) {
  last.state = state;
  last.tell?.(state);
}

function Running({ since }) {
  const now = useNow();
  return html`<${Loading}>Checking… ${duration((now - since) / 1000)}</${Loading}>`;
}

function Report({ report, at, starts }) {
  const sections = new Map();
  for (const each of report.findings) sections.set(each.section, [...(sections.get(each.section) ?? []), each]);
  const notes = report.notes ? `, ${counted(report.notes, "note")}` : "";
  const verdict = report.wrong ? `${counted(report.wrong, "thing is", "things are")} wrong${notes}` : `All is well${notes}`;
  return html`
    <${Notice} tone=${report.wrong ? "bad" : "good"} live="status" title=${`${verdict}.`}>
      <span class="muted">At ${clock(at)}${starts ? "" : "; nothing was started"}.</span>
    </${Notice}>
    ${[...sections].map(([title, findings]) => html`<section key=${title} class="panel" aria-labelledby=${`doctor-${title}`}>
      <div class="panel-head"><h2 id=${`doctor-${title}`} class="capital">${title}</h2></div>
      <ul class="stack findings">${findings.map((each, index) => html`<${Finding} key=${index} finding=${each} />`)}</ul>
    </section>`)}
  `;
}

function Finding({ finding }) {
  const { tone, word } = LEVELS[finding.level];
  return html`<li class="finding">
    <span><${Badge} tone=${tone}>${word}</${Badge}></span>
    <span class="strong wrap">${finding.subject}</span>
    <div class="stack tight">
      <p class="wrap">${finding.text}</p>
      ${finding.details?.excerpt && html`<${Excerpt} text=${finding.details.excerpt} />`}
      ${finding.advice && html`<${Advice} advice=${finding.advice} command=${finding.command ?? ""} />`}
      ${finding.fix && html`<p class="muted small wrap"><code>mcpx doctor --fix</code> can do it: ${finding.fix}</p>`}
    </div>
  </li>`;
}

// A sentence, or a command that runs as it stands: that can be copied. A sentence may end with one.
function Advice({ advice, command }) {
  const words = advice.slice(0, advice.length - command.length);
  return html`<div class="row"><span class="muted">To do:</span>${words && html` <span class="wrap">${words}</span>`}
    ${command && html`<code class="wrap">${command}</code><${Copy} text=${command} what="the command" />`}</div>`;
}
