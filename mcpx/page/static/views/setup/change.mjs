// A change of files: previewed with each choice, made when it is confirmed, and taken back by undo.
import { html, useEffect, useRef, useState } from "../../lib.mjs";
import { post } from "../../api.mjs";
import { Action } from "../../widgets/action.mjs";
import { Failed, Loading, Notice } from "../../widgets/notice.mjs";

const WAY = html`It can be taken back: <a href="#/setup/changes">Undo</a>`;

// What `mcpx COMMAND` would do with these options: {preview, failure, waiting, apply, again}. `apply` makes exactly that;
// then what would come next is asked for, unless it is for `once`.
export function useChange(command, options, { once = false } = {}) {
  const [state, setState] = useState({ waiting: true });
  const [turn, setTurn] = useState(0);
  const latest = useRef(0);
  const asked = JSON.stringify(options);
  useEffect(() => {
    const own = ++latest.current;
    setState((before) => ({ ...before, waiting: true }));
    post(`/setup/${command}`, options).then(
      (preview) => own === latest.current && setState({ preview }),
      (failure) => own === latest.current && setState({ failure }),
    );
  }, [command, asked, turn]);
  const apply = async () => {
    const done = await post(`/setup/${command}`, { ...options, apply: true, seen: state.preview.seen });
    if (!once) setTurn((before) => before + 1);
    return done;
  };
  return { ...state, apply, again: () => setTurn((before) => before + 1) };
}

// The frame of a change. label: of the button, null where there is nothing to do; done(report): what to say after it.
// way: what to say of the way back.
export function Change({ change, title, text, label, question, done, way = WAY, children }) {
  const [made, setMade] = useState(null);
  const { preview, failure, waiting, again } = change;
  const run = async () => setMade(await change.apply());
  return html`
    <section class="panel stack" aria-label=${title}>
      <div class="stack tight"><h2>${title}</h2><p class="muted">${text}</p></div>
      ${failure && html`<${Failed} failure=${failure} again=${again} />`}
      ${!preview && !failure && html`<${Loading}>Looking at the files…</${Loading}>`}
      ${made && (made.changed
        ? html`<${Notice} tone="good" live="status" title="Done.">${done(made)}</${Notice}>`
        : html`<${Notice} tone="ask" live="status" title="Nothing was changed.">What is shown below is why.</${Notice}>`)}
      ${preview && children}
      ${preview && label && html`<div class="row">
        <${Action} kind="primary" disabled=${waiting} run=${run} confirm=${{ title, text: question, yes: label }}>${label}</${Action}>
        <p class="muted small">${way}</p>
      </div>`}
    </section>
  `;
}

// A choice among clients: none chosen means all.
export function Choice({ names, chosen, onChoose }) {
  if (names.length < 2) return null;
  const toggled = (name) => (chosen.includes(name) ? chosen.filter((each) => each !== name) : [...chosen, name]);
  return html`<fieldset class="row">
    <legend class="small muted">Of these clients (none ticked: all)</legend>
    ${names.map(({ name, title }) => html`<label key=${name} class="switch">
      <input type="checkbox" checked=${chosen.includes(name)} onChange=${() => onChoose(toggled(name))} />${title}
    </label>`)}
  </fieldset>`;
}

// The clients of the first preview, so that those that are not chosen stay in sight.
export function useSeen(clients) {
  const seen = useRef(new Map());
  for (const { client, title } of clients ?? []) seen.current.set(client, title);
  return [...seen.current].map(([name, title]) => ({ name, title }));
}

// A unified diff.
export function Diff({ text, what }) {
  const kinds = { "+": "added", "-": "removed", "@": "place" };
  return html`<div class="code"><pre tabindex="0" role="group" aria-label=${what}>${text.split("\n").map((each, index) =>
    html`<span key=${index} class=${index < 2 ? "place" : kinds[each[0]]}>${each}${"\n"}</span>`)}</pre></div>`;
}
