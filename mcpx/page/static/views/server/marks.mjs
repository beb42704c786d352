// Badges of a tool: a word for each thing that sets it apart.
import { html } from "../../lib.mjs";
import { Badge } from "../../widgets/badge.mjs";

export function Marks({ tool }) {
  return html`
    ${tool.change && html`<${Badge} tone="ask">${tool.change}</${Badge}>`}
    ${tool.hidden && html`<${Badge} tone="off" title=${`Hidden from clients: ${tool.hidden}`}>hidden</${Badge}>`}
    ${tool.asks && html`<${Badge} tone="busy" dot=${false}
      title=${`A person is asked first: ${tool.asks}`}>asks first</${Badge}>`}
    ${tool.read_only && html`<${Badge} tone="idle" dot=${false}>read-only</${Badge}>`}
    ${tool.annotations?.destructiveHint && !tool.read_only && html`<${Badge} tone="bad"
      dot=${false}>destructive</${Badge}>`}
  `;
}
