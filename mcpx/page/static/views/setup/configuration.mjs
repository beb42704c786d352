// The configuration file: whether it is in force, what is wrong or odd with it, and its text without secrets.
import { html, useEffect, useRef } from "../../lib.mjs";
import { useAnswer, useTopic } from "../../api.mjs";
import { Badge } from "../../widgets/badge.mjs";
import { Copy } from "../../widgets/copy.mjs";
import { count, counted } from "../../widgets/format.mjs";
import { Empty, Failed, Loading, Notice, Outdated } from "../../widgets/notice.mjs";

export const LEVELS = {
  error: { tone: "bad", word: "mistake" },
  warning: { tone: "ask", word: "warning" },
  note: { tone: "busy", word: "note" },
  wrong: { tone: "bad", word: "wrong" },
  ok: { tone: "good", word: "ok" },
};
const RANK = ["error", "warning", "note"];
const line = (number) => `line-${number}`;

export function Configuration() {
  const news = useTopic("setup");
  const { answer, failure, again } = useAnswer("/setup");
  const before = useRef(null);
  const version = news && `${news.version} ${news.problem}`;
  useEffect(() => {
    if (before.current && before.current !== version) again();
    before.current = version;
  }, [version]);
  if (!answer) return failure ? html`<${Failed} failure=${failure} again=${again} />` : html`<${Loading} />`;
  return html`
    <${Outdated} state=${news} />
    <${Standing} answer=${answer} again=${again} />
    <${Findings} answer=${answer} />
    <${FileText} answer=${answer} />
  `;
}

function Standing({ answer, again }) {
  const of = (level) => answer.findings.filter((each) => each.level === level).length;
  const [mistakes, warnings] = [of("error"), of("warning")];
  const found = [mistakes ? counted(mistakes, "mistake") : "no mistakes", warnings && counted(warnings, "warning")];
  return html`<section class="panel stack tight" aria-label="The configuration">
    <div class="spread">
      <div class="row"><h2 class="mono wrap">${answer.path}</h2><${Copy} text=${answer.path} what="the path" /></div>
      <div class="row">
        <${Badge} tone=${answer.problem ? "bad" : "good"}>${answer.problem ? "not in use" : "in use"}</${Badge}>
        <button class="small" onClick=${again}>Refresh</button>
      </div>
    </div>
    <p class="muted">${answer.usable ? `${counted(answer.servers, "server")}, ` : ""}${found.filter(Boolean).join(", ")}. Each server is changed under <em>Entry</em> of its own view; <a href="#/setup/add">add a server</a> adds one, <a href="#/setup/import">Import</a> those of your clients. Everything else is changed in your editor.</p>
    ${answer.problem && html`<${Notice} tone="bad" live="alert" title="The file as it is cannot be used. MCPX still uses what it read before.">
      <span class="break">${answer.problem}</span>
    </${Notice}>`}
  </section>`;
}

function Findings({ answer }) {
  return html`<section class="panel" aria-labelledby="setup-findings">
    <div class="panel-head"><h2 id="setup-findings">Mistakes and notes</h2></div>
    ${answer.findings.length
      ? html`<ul class="stack findings">${[...answer.findings].sort((one, other) => RANK.indexOf(one.level) - RANK.indexOf(other.level)).map((each, index) => html`<${Finding} key=${index} finding=${each} />`)}</ul>`
      : html`<${Empty}>Nothing is wrong with it.</${Empty}>`}
    ${answer.more_findings > 0 && html`<p class="muted small">And ${count(answer.more_findings)} more: mcpx check names all.</p>`}
  </section>`;
}

function Finding({ finding }) {
  const { tone, word } = LEVELS[finding.level];
  return html`<li class="finding">
    <span><${Badge} tone=${tone}>${word}</${Badge}></span>
    <span class="row">
      ${finding.line ? html`<button class="link mono small" onClick=${() => goTo(finding.line)}>line ${finding.line}, column ${finding.column}</button>` : html`<span class="muted small">the whole file</span>`}
      ${finding.server && html`<a class="small wrap" href=${`#/servers/${encodeURIComponent(finding.server)}/entry`}>${finding.server}</a>`}
    </span>
    <div class="stack tight">
      <p class="wrap">${finding.text}</p>
      ${finding.excerpt && html`<${Excerpt} text=${finding.excerpt} />`}
    </div>
  </li>`;
}

// A line of a file with a mark beneath.
export function Excerpt({ text }) {
  return html`<div class="code"><pre tabindex="0" role="group" aria-label="Where it is">${text}</pre></div>`;
}

function goTo(number) {
  const found = document.getElementById(line(number));
  found?.scrollIntoView({ block: "center" });
  found?.focus({ preventScroll: true });
}

function FileText({ answer }) {
  if (answer.text === null) return html`<${Notice} tone="off" title="The file cannot be shown.">It is not there, cannot be read, or is very large.</${Notice}>`;
  const levels = new Map(answer.findings.filter((each) => each.line).reverse().map((each) => [each.line, each.level]));
  const lines = answer.text.split("\n");
  return html`<section class="panel" aria-labelledby="setup-text">
    <div class="panel-head"><h2 id="setup-text">The file</h2><span class="muted small">What may be a secret is shown as ***</span></div>
    <div class="code">
      <pre class="numbered" tabindex="0" role="group" aria-labelledby="setup-text"><${Lines} lines=${lines} levels=${levels} /></pre>
    </div>
    ${answer.left_out > 0 && html`<p class="muted small">${counted(answer.left_out, "more character")} are not shown.</p>`}
  </section>`;
}

function Lines({ lines, levels }) {
  return lines.map((text, index) => {
    const level = levels.get(index + 1);
    const tone = level ? ` tone-${LEVELS[level].tone} found` : "";
    return html`<span key=${index} id=${line(index + 1)} class=${`line${tone}`} tabindex=${level ? -1 : undefined}>${text}${"\n"}</span>`;
  });
}
