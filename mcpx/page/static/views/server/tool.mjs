// One tool whole: what it does, what it takes, and a form to try it.
import { html, useMemo, useState } from "../../lib.mjs";
import { useAnswer } from "../../api.mjs";
import { Code } from "../../widgets/copy.mjs";
import { count } from "../../widgets/format.mjs";
import { laidOut as laidOutJson, read, written } from "../../widgets/json.mjs";
import { Failed, Loading, Notice } from "../../widgets/notice.mjs";
import { place, request } from "./address.mjs";
import { Form } from "./form.mjs";
import { Marks } from "./marks.mjs";
import { Result } from "./result.mjs";
import { filled } from "./schema.mjs";
import { CallFailure, Questions, useTrial } from "./trial.mjs";
import { laidOut } from "./typescript.mjs";

// version: of what the server offers, so that the tool is asked for anew when that has changed
export function Tool({ server, name, version }) {
  const { answer, failure, again } = useAnswer(`${request(server, "tools", name)}?version=${version ?? ""}`);
  const back = html`<a class="back" href=${place(server, "tools")}>All tools</a>`;
  if (!answer) return html`<div class="panel">${back}${failure ? html`<${Failed} failure=${failure} again=${again} />`
    : html`<${Loading} />`}</div>`;
  return html`<div class="stack">
    <section class="panel stack" aria-labelledby="tool-name">
      ${back}
      <${About} tool=${answer} server=${server} />
    </section>
    <section class="panel stack" aria-labelledby="tool-try">
      <${Try} server=${server} tool=${answer} />
    </section>
    <section class="panel stack" aria-labelledby="tool-takes">
      <${Schemas} tool=${answer} />
    </section>
  </div>`;
}

function About({ tool, server }) {
  const shown = tool.shown ?? tool.name;
  return html`
    <div class="head"><h2 id="tool-name" class="mono title">${shown}</h2><${Marks} tool=${tool} /></div>
    ${tool.title && tool.title !== tool.name && html`<p class="strong wrap">${tool.title}</p>`}
    <p class="break clip-long">${tool.description ?? html`<span class="muted">It has no description.</span>`}</p>
    ${tool.hidden && html`<${Notice} tone="off"
      title="Clients do not have it:">the rule <code>${tool.hidden}</code> hides it.</${Notice}>`}
    ${tool.change && html`<${Notice} tone="ask" title=${tool.change === "new" ? "It is new." : "It has changed."}>
      ${tool.refused ? "It does not run until it is approved. " : "The new form is already in use. "}
      <a href=${place(server, "approvals")}>See the difference</a>
    </${Notice}>`}
    ${tool.asks && html`<p class="small muted">A person is asked before it runs (${tool.asks}).</p>`}
    <p class="small muted">Listed as it is, it costs a client about ${count(tool.tokens)} tokens.</p>
  `;
}

function Try({ server, tool }) {
  const schema = tool.input_schema;
  const trial = useTrial("/call");
  const [value, setValue] = useState(() => filled(schema, schema));
  const [text, setText] = useState(null); // the JSON, while that is shown in place of the form
  const problems = trial.failure?.answer?.problems ?? [];
  const isForm = text === null;
  const mistake = useMemo(() => (isForm ? "" : mistakeIn(text)), [text]);

  function toForm() {
    if (mistake) return;
    setValue(read(text || "{}"));
    setText(null);
  }
  // as text: the daemon reads it, so that numbers of any size arrive as they were typed
  const run = () => trial.run({ server, tool: tool.name, arguments: isForm ? written(value) : text || "{}" });
  const submit = (event) => {
    event.preventDefault();
    if (!trial.running && !mistake) run();
  };
  return html`
    <div class="spread">
      <h2 id="tool-try">Try it</h2>
      <div class="row">
        ${tool.example && html`<button type="button" class="small" onClick=${() => (isForm ? setValue(tool.example)
          : setText(laidOutJson(tool.example)))}>Fill in an example</button>`}
        <span class="row" role="group" aria-label="How the arguments are given">
          <button type="button" class="chip" aria-pressed=${isForm} disabled=${!isForm && mistake !== ""}
            onClick=${() => !isForm && toForm()}>Form</button>
          <button type="button" class="chip" aria-pressed=${!isForm} onClick=${() => isForm
            && setText(laidOutJson(value))}>JSON</button>
        </span>
      </div>
    </div>
    <form class="stack" onSubmit=${submit} noValidate>
      ${isForm
        ? html`<${Form} schema=${schema} value=${value} onChange=${setValue} problems=${problems} />`
        : html`<${Editor} text=${text} onInput=${setText} mistake=${mistake} />`}
      <div class="row">
        <button type="submit" class="primary" disabled=${mistake !== ""} aria-disabled=${trial.running ? "true" : undefined}
          aria-busy=${trial.running}>${trial.running ? "Running…" : "Run"}</button>
        ${trial.running && html`<button type="button" onClick=${trial.cancel}>Cancel</button>`}
        <span class="muted small">${effect(tool)}</span>
      </div>
    </form>
    <${Questions} trial=${trial} />
    <div aria-live="polite">
      ${trial.failure && html`<${CallFailure} failure=${trial.failure} />`}
      ${trial.result && html`<${Result} result=${trial.result} />`}
    </div>
  `;
}

function effect(tool) {
  if (tool.read_only) return "It changes nothing, says its server.";
  return tool.annotations?.destructiveHint ? "It may destroy something, says its server." : "It may change something.";
}

function Editor({ text, onInput, mistake }) {
  return html`<div class="field">
    <label for="tool-json">Arguments as JSON</label>
    <textarea id="tool-json" class="grows" rows="8" spellcheck=${false} value=${text} aria-invalid=${mistake !== ""}
      aria-describedby="tool-json-problem"
      onInput=${(event) => onInput(event.target.value)}></textarea>
    <div id="tool-json-problem" class="error">${mistake}</div>
  </div>`;
}

function mistakeIn(text) {
  try {
    const value = read(text || "{}");
    return typeof value === "object" && value !== null && !Array.isArray(value) ? "" : "Arguments are an object: {…}";
  } catch (error) {
    return `Not JSON yet: ${error.message}`;
  }
}

// --- what it takes and gives

function Schemas({ tool }) {
  const [form, setForm] = useState("typescript");
  const input = useMemo(() => (form === "json" ? laidOutJson(tool.input_schema) : laidOut(tool.typescript)),
    [tool, form]);
  const output = useMemo(() => {
    if (!tool.output_schema) return null;
    return form === "json" ? laidOutJson(tool.output_schema) : laidOut(tool.output_typescript);
  }, [tool, form]);
  return html`
    <div class="spread">
      <h2 id="tool-takes">What it takes</h2>
      <span class="row" role="group" aria-label="Form of the schema">
        <button type="button" class="chip" aria-pressed=${form === "typescript"}
          onClick=${() => setForm("typescript")}>TypeScript</button>
        <button type="button" class="chip" aria-pressed=${form === "json"}
          onClick=${() => setForm("json")}>JSON Schema</button>
      </span>
    </div>
    <${Code} text=${input} what="input schema" wraps=${form === "typescript"} />
    ${output && html`<h3>What it gives</h3><${Code} text=${output} what="output schema"
      wraps=${form === "typescript"} />`}
  `;
}
