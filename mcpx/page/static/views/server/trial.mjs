// Trying something of a server: the request, its cancellation, and the questions that a person is asked first.
import { html, useEffect, useRef, useState } from "../../lib.mjs";
import { post } from "../../api.mjs";
import { Dialog } from "../../widgets/dialog.mjs";
import { Form } from "./form.mjs";

const MAX_REPEATS = 10; // for a server that only wants to be asked again
const PAUSE_MS = 250;

// {running, result, failure, asked, run(body), cancel(), answer(answers), clear()}; path: of the request
export function useTrial(path) {
  const [state, setState] = useState({ running: false });
  const current = useRef(null);
  useEffect(() => () => current.current?.abort(), []);

  async function run(body, repeats = 0) {
    current.current?.abort();
    const mine = (current.current = new AbortController());
    setState({ running: true });
    let next;
    try {
      const answer = await post(path, body, mine.signal);
      next = answer.asked ? { asked: answer, body } : { result: answer };
    } catch (failure) {
      next = { failure };
    }
    if (current.current !== mine) return;
    if (next.asked && !Object.keys(next.asked.asked).length) {
      if (repeats < MAX_REPEATS) return void setTimeout(() => current.current === mine && run({ ...body, answers: {},
        state: next.asked.state }, repeats + 1), PAUSE_MS);
      next = { failure: new Error("The server wants to be asked again and again, without a result.") };
    }
    setState({ running: false, ...next });
  }

  function stop(message) {
    current.current?.abort();
    current.current = null;
    setState({ running: false, failure: message && new Error(message) });
  }

  return {
    ...state,
    run: (body) => run(body),
    cancel: () => stop("You have cancelled it; it may have taken effect."),
    answer: (answers) => run({ ...state.body, answers, state: state.asked.state }),
    clear: () => stop(),
  };
}

const listed = (value) => (Array.isArray(value) ? value : []);

// The questions of a trial, in a dialog; nothing while there are none.
export function Questions({ trial }) {
  const [values, setValues] = useState({});
  const questions = Object.entries(trial.asked?.asked ?? {});
  useEffect(() => setValues({}), [trial.asked]);
  if (!questions.length) return null;
  const answers = (action) => Object.fromEntries(questions.map(([key]) => [key, action === "accept" ? { action,
    content: values[key] ?? {} } : { action }]));
  const isGiven = (key) => (name) => Object.hasOwn(values[key] ?? {}, name);
  const isReady = questions.every(([key, each]) => listed(each.schema.required).every(isGiven(key)));
  const foot = html`
    <button type="button" onClick=${() => trial.answer(answers("decline"))}>Decline</button>
    <button type="button" class="primary" disabled=${!isReady}
      onClick=${() => trial.answer(answers("accept"))}>Answer</button>
  `;
  return html`<${Dialog} title="You are asked" onClose=${trial.clear} foot=${foot}>
    <div class="stack">${questions.map(([key, each]) => html`<div key=${key} class="stack">
      <p class="break">${each.message}</p>
      <${Form} schema=${each.schema} value=${values[key] ?? {}} onChange=${(value) => setValues({ ...values,
        [key]: value })} />
    </div>`)}</div>
  </${Dialog}>`;
}

// How a call failed: what `exec` says, and whether it may have taken effect.
export function CallFailure({ failure }) {
  const { code, outcome } = failure.answer ?? {};
  return html`<div class="notice tone-bad" role="alert">
    <span class="dot" aria-hidden="true"></span>
    <div class="grow"><p class="break">${failure.message}</p>
      ${code && html`<p class="small muted">code: <span class="mono">${code}</span>, outcome: <span
        class="mono">${outcome}</span></p>`}</div>
  </div>`;
}
