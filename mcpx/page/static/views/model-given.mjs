// The texts that a client's model is given: instructions, and each tool, with their sizes and what is cut off.
import { html, useEffect, useRef, useState } from "../lib.mjs";
import { get, useAnswer } from "../api.mjs";
import { Badge } from "../widgets/badge.mjs";
import { Code, Copy } from "../widgets/copy.mjs";
import { Dialog } from "../widgets/dialog.mjs";
import { Figure, Figures } from "../widgets/figure.mjs";
import { count, counted, saved, share } from "../widgets/format.mjs";
import { Empty, Failed, Loading, Notice } from "../widgets/notice.mjs";
import { Search } from "../widgets/search.mjs";

const FEW = 8; // tools that are shown open

// client: as the topic knows it; none for one that is not attached
export function Given({ id, client }) {
  const { answer, failure, asking, again } = useAnswer(`/model/${encodeURIComponent(id)}`);
  const state = client && `${client.tokens} ${client.own_tools} ${client.native_tools}`;
  const before = useRef(state);
  useEffect(() => {
    if (before.current !== state) again();
    before.current = state;
  }, [state]);
  if (!answer && failure) return html`<${Failed} failure=${failure} again=${again} />`;
  if (!answer) return asking && html`<${Loading} />`;
  return html`
    <${Costs} answer=${answer} />
    <${Cuts} answer=${answer} />
    <section class="panel" aria-labelledby="model-instructions">
      <div class="panel-head"><h2 id="model-instructions">Instructions</h2><${Size} of=${answer.instructions} /></div>
      <${Text} of=${answer.instructions} what="the instructions" none="This client is given no instructions." />
    </section>
    <${Tools} id=${id} answer=${answer} />
  `;
}

function Costs({ answer }) {
  const { client, tools, left_out } = answer;
  const part = saved(client.direct, client.tokens);
  const own = tools.filter((tool) => !tool.server).length;
  return html`<section class="panel stack tight model-costs" aria-label="What it costs">
    <${Figures} label="What it costs before the first question">
      <${Figure} big label="Tokens, through MCPX" value=${count(client.tokens)} beside="instructions and tools, estimated" />
      <${Figure} big label="Tokens, connected directly" value=${count(client.direct)} beside="the tools of the same servers" />
      <${Figure} big label="Saved" tone=${part > 0 ? "good" : undefined} value=${part === null ? "–" : share(part)} />
      <${Figure} big label="Tools" value=${count(tools.length + left_out)}
        beside=${client.endpoint.server ? "as their server has them" : `${own} of MCPX, ${count(client.native_tools)} of servers`} />
    </${Figures}>
    ${part > 0 && html`<div class="bar" aria-hidden="true"><span style=${{ width: `${Math.max(0.5, (1 - part) * 100)}%` }}></span></div>`}
  </section>`;
}

// What is known of the client's limits, and what that comes to here.
function Cuts({ answer }) {
  const { client, limits, source, instructions, tools } = answer;
  const cut = tools.filter((tool) => tool.description.cut).length;
  const said = [
    instructions.cut && `${counted(count(instructions.cut.length), "character")} of the instructions`,
    cut && `the description of ${counted(cut, "tool")}`,
  ].filter(Boolean);
  if (!client.is_known) {
    return html`<${Notice} tone="idle" title="No limit of this client is known.">MCPX takes it to show everything.</${Notice}>`;
  }
  return html`<${Notice} tone=${said.length ? "ask" : "good"} title=${said.length ? `This client cuts off ${said.join(" and ")}.` : "This client shows all of it."}>
    <ul class="dots">${limits.map((each) => html`<li key=${each}>${each}</li>`)}</ul>
    ${limits.length > 0 && html`<p class="small muted wrap">Source: ${source}</p>`}
  </${Notice}>`;
}

function Tools({ id, answer }) {
  const [filter, setFilter] = useState("");
  const [order, setOrder] = useState("given");
  const [definition, setDefinition] = useState(null);
  const wanted = filter.toLowerCase();
  const fitting = answer.tools.filter((tool) => `${tool.name} ${tool.description.text}`.toLowerCase().includes(wanted));
  const shown = order === "size" ? fitting.sort((one, other) => other.tokens - one.tokens) : fitting;
  const most = Math.max(1, ...answer.tools.map((tool) => tool.tokens));
  return html`<section class="panel" aria-labelledby="model-tools">
    <div class="panel-head">
      <h2 id="model-tools">Tools</h2>
      ${answer.tools.length > FEW && html`<div class="row">
        <label class="row small">Order
          <select value=${order} onChange=${(event) => setOrder(event.target.value)}>
            <option value="given">as in the list</option>
            <option value="size">largest first</option>
          </select>
        </label>
        <${Search} label="Filter the tools" value=${filter} onInput=${setFilter} />
      </div>`}
    </div>
    ${shown.length
      ? html`<ul class="folds">
          ${shown.map((tool) => html`<${Tool} key=${tool.name} tool=${tool} most=${most} isOpen=${answer.tools.length <= FEW} onDefinition=${() => setDefinition(tool.name)} />`)}
        </ul>`
      : html`<${Empty}>${filter ? "No tool fits." : "This client is shown no tools."}</${Empty}>`}
    ${answer.left_out > 0 && html`<p class="muted small">And ${count(answer.left_out)} more tools.</p>`}
    ${definition && html`<${Definition} id=${id} name=${definition} onClose=${() => setDefinition(null)} />`}
  </section>`;
}

function Tool({ tool, most, isOpen, onDefinition }) {
  const [open, setOpen] = useState(isOpen);
  return html`<li><details class="fold" open=${open} onToggle=${(event) => setOpen(event.target.open)}>
    <summary>
      <span class="row">
        <span class="mono strong wrap">${tool.name}</span>
        ${tool.description.cut && html`<${Badge} tone="ask">cut</${Badge}>`}
        <span class="muted small wrap">${tool.server ?? tool.title}</span>
      </span>
      <span class="row">
        <span class="bar" aria-hidden="true"><span style=${{ width: `${(tool.tokens / most) * 100}%` }}></span></span>
        <span class="muted small number">${count(tool.tokens)} tokens</span>
      </span>
    </summary>
    ${open && html`<div class="stack tight fold-body">
      <div class="spread"><${Size} of=${tool.description} /><button class="small" onClick=${onDefinition}>Definition as it is sent</button></div>
      <${Text} of=${tool.description} what=${`the description of ${tool.name}`} none="It has no description." />
      ${tool.parameters.map((each) => html`<div key=${each.name} class="stack tight">
        <div class="spread"><h3>Parameter <code>${each.name}</code></h3><${Size} of=${each.description} /></div>
        <${Text} of=${each.description} what=${`the description of the parameter ${each.name} of ${tool.name}`} />
      </div>`)}
    </div>`}
  </details></li>`;
}

function Size({ of }) {
  const sizes = [`${counted(of.chars, "character")}`, of.bytes !== of.chars && `${count(of.bytes)} bytes`, `${counted(of.tokens, "token")}`];
  return html`<span class="muted small number">${sizes.filter(Boolean).join(" · ")}</span>`;
}

// A text as the model gets it, and behind a mark what its client cuts off.
function Text({ of, what, none }) {
  if (!of.chars) return html`<p class="muted">${none}</p>`;
  return html`<div class="code wraps">
    <pre tabindex="0" role="group" aria-label=${what}>${of.text}${of.cut &&
    html`<mark class="tone-bad"><span class="mark-head">Cut off by this client from here: ${counted(of.cut.length, "character")}</span>${of.cut}</mark>`}${of.left_out > 0 &&
    html`<span class="muted">${`\n… ${counted(of.left_out, "more character")}: see the definition`}</span>`}</pre>
    <${Copy} text=${of.text + of.cut} what=${what} />
  </div>`;
}

function Definition({ id, name, onClose }) {
  const [state, setState] = useState({});
  useEffect(() => {
    get(`/model/${encodeURIComponent(id)}/tools/${encodeURIComponent(name)}`).then(
      (answer) => setState({ answer }),
      (failure) => setState({ failure }),
    );
  }, [id, name]);
  const { answer, failure } = state;
  return html`<${Dialog} wide title=${name} onClose=${onClose}>
    ${failure && html`<${Failed} failure=${failure} />`}
    ${answer && html`<div class="stack tight">
      <p class="muted small">${count(answer.bytes)} bytes as it is sent; here with line breaks.</p>
      <${Code} text=${answer.text} what=${`the definition of ${name}`} wraps />
      ${answer.left_out > 0 && html`<p class="muted small">${counted(answer.left_out, "more character")}.</p>`}
    </div>`}
    ${!answer && !failure && html`<${Loading} />`}
  </${Dialog}>`;
}
