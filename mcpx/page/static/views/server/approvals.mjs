// What of a server waits for approval, with how it differs from what was approved; and approving it.
import { html, useMemo } from "../../lib.mjs";
import { post, useAnswer } from "../../api.mjs";
import { Action } from "../../widgets/action.mjs";
import { Badge } from "../../widgets/badge.mjs";
import { Empty, Failed, Loading } from "../../widgets/notice.mjs";

const WORDS = { changed: "has changed", new: "is new", server: "says something else of itself",
  pins: "was pinned, and that is lost" };

// version: of what waits, so that it is asked for anew
export function Approvals({ server, version }) {
  const { answer, failure, again } = useAnswer(`/approvals?server=${encodeURIComponent(server)}&version=${version}`);
  if (failure) return html`<div class="panel"><${Failed} failure=${failure} again=${again} /></div>`;
  if (!answer) return html`<div class="panel"><${Loading} /></div>`;
  const { changes = [], commands = [] } = answer.waiting[0] ?? {};
  const agreed = changes.map((each) => agreement(server, each));
  const approve = async (its) => {
    await post("/approve", { agreed: its });
    again();
  };
  if (!changes.length) return html`<div class="panel"><${Empty}>Nothing waits for approval.</${Empty}></div>`;
  return html`<div class="stack">
    <div class="spread">
      <p class="muted">Approve what you understand. A description is read by models as instructions.</p>
      ${changes.length > 1 && html`<${Action} kind="primary" run=${() => approve(agreed)}
        confirm=${{ title: `Approve ${changes.length} changes?`,
          text: "Everything on this page is used from then on.",
            yes: "Approve all" }}>Approve all ${changes.length}</${Action}>`}
    </div>
    ${commands.map((each) => html`<p key=${each} class="wrap">MCPX runs a command for this server:
      <code class="wrap">${each}</code></p>`)}
    ${changes.map((each, index) => html`<${Change} key=${`${each.kind} ${each.tool}`} change=${each}
      approve=${() => approve([agreed[index]])} />`)}
    ${answer.more && html`<p class="muted small">${answer.more} more are shown once these are approved.</p>`}
  </div>`;
}

const agreement = (server, { kind, tool, digest }) => ({ server, kind, tool: tool ?? null, digest: digest ?? null });

function Change({ change, approve }) {
  const name = change.tool ?? "The server";
  return html`<section class="panel stack tight" aria-label=${`${name} ${WORDS[change.kind] ?? ""}`}>
    <div class="spread">
      <h2><span class="mono wrap">${name}</span> <span class="muted">${WORDS[change.kind] ?? change.kind}</span></h2>
      <div class="row">
        <${Badge} tone=${change.blocked ? "ask" : "busy"}>${change.blocked ? "not used" : "in use"}</${Badge}>
        <${Action} kind="primary small" run=${approve} label=${`Approve ${name}`}>Approve</${Action}>
      </div>
    </div>
    <div class="difference">${change.difference.map((line, index) => html`<${Difference} key=${index} line=${line}
      isNew=${change.kind === "new"} />`)}</div>
  </section>`;
}

// One line, as `mcpx approve` prints it: `description: "old" -> "new"`; taken apart where that is certain.
function Difference({ line, isNew }) {
  const parts = useMemo(() => apart(line), [line]);
  if (!parts) return html`<p class="mono small wrap">${line}</p>`;
  return html`<dl>
    <dt class="mono small">${parts.name}</dt>
    ${parts.before !== undefined && html`<dd class="before"><span
      class="hidden">before: </span><del>${parts.before}</del></dd>`}
    <dd class="after"><span class="hidden">${isNew ? "" : "now: "}</span><ins>${parts.after}</ins></dd>
  </dl>`;
}

const ARROW = " -> ";
const MAX_TRIED = 32; // arrows; a text may hold any number of them, and each costs a reading of the line

function apart(line) {
  const colon = line.indexOf(": ");
  if (colon < 0) return null;
  const [name, rest] = [line.slice(0, colon), line.slice(colon + 2)];
  let tried = 0;
  for (let at = rest.indexOf(ARROW); at >= 0 && tried < MAX_TRIED; at = rest.indexOf(ARROW, at + 1), tried += 1) {
    const [before, after] = [value(rest.slice(0, at)), value(rest.slice(at + ARROW.length))];
    if (before !== null && after !== null) return { name, before, after };
  }
  const after = rest.includes(ARROW) ? null : value(rest);
  return after === null ? null : { name, after };
}

// A JSON value as it is shown: with its escapes, so that what cannot be seen is seen; null for what is no JSON.
function value(text) {
  try {
    JSON.parse(text);
    return text;
  } catch {
    return null;
  }
}
