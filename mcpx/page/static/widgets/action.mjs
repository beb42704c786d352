// A button that does something with the daemon: it waits, says that it was done, and shows what went wrong.
// While it waits it is only said to be disabled (aria-disabled), for a button that is loses the focus.
import { html, useEffect, useRef, useState } from "../lib.mjs";
import { Confirm } from "./dialog.mjs";

const DONE_MS = 2500;

// run: an async function. done: the text after it (read out), or a function of its answer that gives the text. confirm: {title, text, yes} to be asked first.
// kind: a class of buttons ("primary", "danger", "quiet", "small"). onFailure: gets the Error, in place of showing it.
export function Action({ run, done, confirm, kind = "", disabled, onFailure, label, children }) {
  const [state, setState] = useState("idle"); // idle, asking, running, done
  const [failure, setFailure] = useState(null);
  const shown = useRef(true);
  const answer = useRef(undefined);
  useEffect(() => () => void (shown.current = false), []);
  useEffect(() => {
    const timer = state === "done" ? setTimeout(() => setState("idle"), DONE_MS) : 0;
    return () => clearTimeout(timer);
  }, [state]);

  async function start() {
    setFailure(null);
    setState("running");
    let problem = null;
    try {
      answer.current = await run();
    } catch (error) {
      problem = error;
    }
    if (problem && onFailure) onFailure(problem);
    if (!shown.current) return;
    setState(problem || !done ? "idle" : "done");
    if (problem && !onFailure) setFailure(problem);
  }

  const running = state === "running";
  return html`<span class="action">
    <button type="button" class=${kind} aria-label=${label} aria-busy=${running ? "true" : undefined}
      aria-disabled=${running ? "true" : undefined} disabled=${disabled}
      onClick=${() => running || (confirm ? setState("asking") : start())}>${children}</button>
    <span role="status" class="small muted">${state === "done" && (typeof done === "function" ? done(answer.current) : done)}</span>
    ${failure && html`<span role="alert" class="small tone-bad"><span
      class="toned wrap">${failure.message}</span></span>`}
    ${state === "asking" && html`<${Confirm} ...${confirm} onYes=${start} onNo=${() => setState("idle")} />`}
  </span>`;
}
