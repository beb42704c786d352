// The prompts of a server: their arguments, and the messages that come of them.
import { html, useState } from "../../lib.mjs";
import { Empty } from "../../widgets/notice.mjs";
import { Badge } from "../../widgets/badge.mjs";
import { place } from "./address.mjs";
import { Blocks } from "./result.mjs";
import { CallFailure, Questions, useTrial } from "./trial.mjs";

export function Prompts({ server, offers, selected }) {
  const prompt = offers.prompts.find((each) => each.name === selected);
  if (!offers.prompts.length && selected === undefined) return html`<div class="panel"><${Empty}>It offers no
    prompts.</${Empty}></div>`;
  return html`<div class=${`sides${selected === undefined ? "" : " chosen"}`}>
    <nav class="panel side-list" aria-label="Prompts">
      ${!offers.prompts.length && html`<${Empty}>It offers no prompts.</${Empty}>`}
      <ul>${offers.prompts.map((each) => html`<li key=${each.name}>
        <a class="entry" href=${place(server, "prompts", each.name)} aria-current=${each.name === selected ? "true"
          : undefined}>
          <span class="mono strong wrap">${each.shown ?? each.name}</span>
          ${(each.description ?? each.title) && html`<span
            class="muted small clamp">${each.description ?? each.title}</span>`}
        </a>
      </li>`)}</ul>
      ${offers.more?.prompts && html`<p class="muted small">${offers.more.prompts} more are not listed here.</p>`}
    </nav>
    <div class="side">${prompt
      ? html`<${Prompt} key=${prompt.name} server=${server} prompt=${prompt} />`
      : html`<div class="panel"><${Empty}>${selected === undefined ? "Choose a prompt to see what it says."
        : "There is no such prompt."}</${Empty}></div>`}
    </div>
  </div>`;
}

function Prompt({ server, prompt }) {
  const trial = useTrial("/prompt");
  const [values, setValues] = useState({});
  const submit = (event) => {
    event.preventDefault();
    const given = Object.fromEntries(Object.entries(values).filter(([, value]) => value !== ""));
    if (!trial.running) trial.run({ server, prompt: prompt.name, arguments: given });
  };
  return html`<section class="panel stack" aria-labelledby="prompt-name">
    <a class="back" href=${place(server, "prompts")}>All prompts</a>
    <h2 id="prompt-name" class="mono title">${prompt.shown ?? prompt.name}</h2>
    ${prompt.title && html`<p class="strong wrap">${prompt.title}</p>`}
    ${prompt.description && html`<p class="break">${prompt.description}</p>`}
    <form class="stack form" onSubmit=${submit}>
      ${prompt.arguments.map((each) => html`<div key=${each.name} class="field">
        <label for=${`prompt-${each.name}`}><span class="mono strong">${each.name}</span>${each.required && html` <span
          class="needed">required</span>`}</label>
        <textarea id=${`prompt-${each.name}`} class="grows" rows="1" spellcheck=${false}
          value=${values[each.name] ?? ""}
          onInput=${(event) => setValues({ ...values, [each.name]: event.target.value })}></textarea>
        ${each.description && html`<div class="hint">${each.description}</div>`}
      </div>`)}
      <div class="row"><button type="submit" class="primary" aria-disabled=${trial.running ? "true" : undefined}
        aria-busy=${trial.running}>${trial.running ? "Asking…" : "Get it"}</button></div>
    </form>
    <${Questions} trial=${trial} />
    <div aria-live="polite">
      ${trial.failure && html`<${CallFailure} failure=${trial.failure} />`}
      ${trial.result && html`<div class="stack tight">
        ${trial.result.description && html`<p class="muted">${trial.result.description}</p>`}
        ${trial.result.messages.map((each, index) => html`<div key=${index} class="stack tight"><div><${Badge}
          tone=${each.role === "user" ? "busy" : "idle"} dot=${false}>${each.role}</${Badge}></div><${Blocks}
            blocks=${each.content} /></div>`)}
        ${!trial.result.messages.length && html`<${Empty}>It gave no messages.</${Empty}>`}
      </div>`}
    </div>
  </section>`;
}
