// Undo: what was changed, and the last change taken back, as `mcpx undo` does it.
import { html, useState } from "../../lib.mjs";
import { useAnswer } from "../../api.mjs";
import { Badge } from "../../widgets/badge.mjs";
import { date } from "../../widgets/format.mjs";
import { Empty, Notice } from "../../widgets/notice.mjs";
import { Table } from "../../widgets/table.mjs";
import { Change, useChange } from "./change.mjs";

const STATES = {
  done: { tone: "good", word: "applied" },
  begun: { tone: "bad", word: "was interrupted" },
  undone: { tone: "off", word: "undone" },
  "taken-back": { tone: "off", word: "was interrupted, and undone" },
};

export function Changes() {
  const [force, setForce] = useState(false);
  const change = useChange("undo", { force });
  const { preview } = change;
  const refused = preview?.refused ?? [];
  const can = preview?.undone && !refused.length;
  return html`
    <${Change} change=${change} title="Undo" label=${can ? `Take back ${preview.command}` : null}
      way="Copies of what is there now are kept."
      text="Undoes the last change that MCPX made to files. Do it again for the one before."
      question=${`These files become what they were: ${preview?.files?.map((each) => each.file).join(", ")}.`}
      done=${(made) => html`<p>${made.command} was taken back.</p>`}>
      ${preview?.undone
        ? html`<div class="sunk stack tight">
            <p class="strong wrap">${preview.command}</p>
            ${preview.files.map((each) => html`<p key=${each.file} class="small wrap"><span class="mono">${each.file}</span>: ${each.becomes}</p>`)}
            ${preview.notes.map((said) => html`<p key=${said} class="small wrap">${said}</p>`)}
          </div>`
        : html`<${Empty}>There is nothing to take back.</${Empty}>`}
      ${refused.map((said) => html`<${Notice} key=${said} tone="bad">${said}</${Notice}>`)}
      ${(refused.length > 0 || force) && html`<label class="switch">
        <input type="checkbox" checked=${force} onChange=${() => setForce(!force)} />Put the copies in their place all the same; what is there now is kept
      </label>`}
    </${Change}>
    <${History} of=${preview?.seen} />
  `;
}

function History({ of }) {
  const { answer } = useAnswer(`/setup?${of ?? ""}`);
  if (!answer) return null;
  const columns = [
    { key: "command", label: "Change", lead: true, cell: (row) => html`<span class="mono">${row.command}</span>` },
    { key: "at", label: "When", cell: (row) => date(Date.parse(row.at)) },
    { key: "state", label: "State", cell: (row) => html`<${Badge} tone=${(STATES[row.state] ?? STATES.done).tone}>${STATES[row.state]?.word ?? row.state}</${Badge}>` },
    { key: "files", label: "Files", cell: (row) => html`<span class="mono small wrap">${row.files.join(", ")}</span>` },
  ];
  return html`<section class="panel" aria-labelledby="setup-history">
    <div class="panel-head"><h2 id="setup-history">Changes so far</h2></div>
    <${Table} caption="Changes so far" columns=${columns} rows=${answer.changes} rowKey=${(row) => row.id} empty="Nothing was changed yet." />
  </section>`;
}
