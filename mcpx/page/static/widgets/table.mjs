// A table. Where it is narrow each row becomes a block of labelled values, if `stacks`, else the table scrolls.
import { html } from "../lib.mjs";

// columns: [{key, label, number, lead, cell(row)}]; `lead` is the cell that names the row. rowKey(row): its identity.
export function Table({ caption, columns, rows, rowKey, empty = "There is nothing here.", stacks = true }) {
  if (!rows.length) return html`<p class="empty">${empty}</p>`;
  return html`<div class="table-box" role="region" aria-label=${caption} tabindex=${stacks ? undefined : 0}>
    <table class=${`table${stacks ? " stacks" : ""}`} role="table">
      <caption class="hidden">${caption}</caption>
      <thead role="rowgroup"><tr role="row">
        ${columns.map((each) => html`<th key=${each.key} role="columnheader" scope="col"
          class=${each.number ? "number" : undefined}>${each.label}</th>`)}
      </tr></thead>
      <tbody role="rowgroup">
        ${rows.map((row) => html`<tr key=${rowKey(row)} role="row">
          ${columns.map((each) => html`<td key=${each.key} role="cell" data-label=${each.label}
            class=${[each.number && "number", each.lead && "lead"].filter(Boolean).join(" ")}
            >${each.cell ? each.cell(row) : row[each.key]}</td>`)}
        </tr>`)}
      </tbody>
    </table>
  </div>`;
}
