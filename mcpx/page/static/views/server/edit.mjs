// An edit of the configuration, as `mcpx add-json`, `rename`, `remove`, `enable` and `disable` make it: shown first,
// made when that is confirmed, and what the daemon made of it is said.
import { html, useState } from "../../lib.mjs";
import { Action } from "../../widgets/action.mjs";
import { Dialog } from "../../widgets/dialog.mjs";
import { Failed, Loading, Notice } from "../../widgets/notice.mjs";
import { Diff, useChange } from "../setup/change.mjs";

// command, options: as the daemon takes them. text: what it means; yes: the word of the button. onClose(made): with
// the report, or null if nothing was changed.
export function Edit({ title, command, options, text, yes, danger, onClose }) {
  const change = useChange(command, options, { once: true });
  const [made, setMade] = useState(null);
  const { preview, failure, waiting } = change;
  const close = () => onClose(made);
  const isNothing = preview && !preview.diff;
  const foot = !made && !isNothing && !failure && html`
    <button type="button" onClick=${close}>Cancel</button>
    <${Action} kind=${danger ? "danger" : "primary"} disabled=${waiting}
      run=${async () => setMade(await change.apply())}>${yes}</${Action}>`;
  return html`<${Dialog} title=${title} onClose=${close} foot=${foot} wide>
    <div class="stack">
      ${made ? html`<${Made} made=${made} />` : html`
        ${text && html`<p class="wrap">${text}</p>`}
        ${failure && html`<${Failed} failure=${failure} />`}
        ${!preview && !failure && html`<${Loading}>Looking at the file…</${Loading}>`}
        ${isNothing && html`<p class="muted">Nothing would change.</p>`}
        ${Object.entries(preview?.commands ?? {}).map(([name, all]) => html`<${Notice} key=${name} tone="ask"
          title=${`MCPX runs commands for ${name}:`}>${all.map((each) => html`<p key=${each} class="mono wrap">${each}</p>`)}</${Notice}>`)}
        ${(preview?.notes ?? []).map((said) => html`<${Notice} key=${said} tone="ask">${said}</${Notice}>`)}
        ${preview?.diff && html`<${Diff} text=${preview.diff} what="What changes in the configuration" />
          <p class="muted small">What may be a secret is shown as ***. It can be taken back.</p>`}
      `}
    </div>
  </${Dialog}>`;
}

// What the daemon has made of it, as it was when it had taken it in.
function Made({ made }) {
  if (!made.changed) return html`<${Notice} tone="ask" live="status" title="Nothing was changed." />`;
  const isTaken = made.gone || made.state !== undefined;
  const tone = made.gone || ["ready", "asleep", "disabled"].includes(made.state) ? "good" : "ask";
  return html`<${Notice} tone=${isTaken ? tone : "bad"} live="status"
    title=${made.gone ? "It is taken out." : `The file is written. Now: ${made.described ?? "unknown"}.`}>
    ${made.daemon && made.daemon !== "the daemon uses it now" && html`<p class="wrap">${made.daemon}</p>`}
    <p><a href="#/setup/changes">Undo</a> takes it back.</p>
  </${Notice}>`;
}
