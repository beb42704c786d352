// The servers as a table: a row of one line for each. What a narrow window has no room for is left out there.
import { html, memo } from "../../lib.mjs";
import { bytes, counted, ms, saved, share, short } from "../../widgets/format.mjs";
import { Badge, State } from "../../widgets/badge.mjs";
import { Since } from "./daemon.mjs";
import { address } from "./faults.mjs";

const number = (key, label, cell, wide = true) => ({ key, label, kind: `number${wide ? " wide" : ""}`, cell });
const COLUMNS = [
  { key: "name", label: "Server", kind: "lead", cell: (card) => html`<a href=${address(card.name)} title=${card.name}>${card.name}</a>` },
  { key: "state", label: "State", kind: "state", cell: (card) => html`<${State} card=${card} />${card.changes > 0 && html` <${Badge}
    tone="ask" dot=${false} title="changed since it was approved">${counted(card.changes, "change")}</${Badge}>`}` },
  number("uptime", "Up", (card) => (card.uptime_s == null ? "–" : html`<${Since} seconds=${card.uptime_s} seen=${card.seen} />`)),
  number("tools", "Tools", (card) => short(card.tools)),
  number("calls", "Calls", (card) => short(card.calls), false),
  number("failed", "Failed", (card) => html`<span class=${card.failed ? "tone-bad toned" : undefined}>${short(card.failed)}</span>`, false),
  number("p50", "p50", (card) => ms(card.p50_ms)),
  number("p95", "p95", (card) => ms(card.p95_ms)),
  number("memory", "Memory", (card) => bytes(card.memory_bytes)),
  number("saved", "Saved", (card) => share(saved(card.tokens_direct, card.tokens_spent))),
  { key: "error", label: "Last error", kind: "wide error muted", cell: (card) => html`<span title=${card.last_error}>${card.last_error ?? ""}</span>` },
];

export function ServerTable({ servers }) {
  return html`<div class="panel"><table class="table server-table" role="table">
    <caption class="hidden">Servers</caption>
    <thead role="rowgroup"><tr role="row">${COLUMNS.map(({ key, label, kind }) => html`<th key=${key} role="columnheader"
      scope="col" class=${kind}>${label}</th>`)}</tr></thead>
    <tbody role="rowgroup">${servers.map((card) => html`<${Row} key=${card.name} card=${card} />`)}</tbody>
  </table></div>`;
}

const Row = memo(({ card }) => html`<tr role="row">${COLUMNS.map(({ key, kind, cell }) => html`<td key=${key} role="cell"
  class=${kind}>${cell(card)}</td>`)}</tr>`);
