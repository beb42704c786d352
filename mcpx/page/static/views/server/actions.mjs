// What can be done with a server: restart, switch on and off, sign in and out; and what of it mends a fault.
import { html, useEffect, useState } from "../../lib.mjs";
import { post } from "../../api.mjs";
import { Action } from "../../widgets/action.mjs";
import { Copy } from "../../widgets/copy.mjs";
import { Dialog } from "../../widgets/dialog.mjs";
import { Failed, Loading, Notice } from "../../widgets/notice.mjs";
import { place, request } from "./address.mjs";
import { Edit } from "./edit.mjs";

const DISABLED =
  "It stays in the configuration, and is not started until it is enabled again." +
  " Clients do not have its tools meanwhile.";

const SIGNED_OUT = "What MCPX was given to get in is revoked where that is possible, and removed.";

// What an action left, as the daemon saw it afterwards.
const seen = ({ described }) => `Now: ${described}`;

const needsPerson = (card) => card.state === "needs setup" || card.state === "invalid"; // a restart alone is no help
const signsIn = (card) => card.sign_in?.command !== undefined;
const needsSignIn = (card) => signsIn(card) && (card.state === "needs sign-in" || Boolean(card.sign_in.problem));

// What mends a fault, in its row: only what can help in that state. card: of the server
export function Cures({ card, broken }) {
  const [signingIn, setSigningIn] = useState(false);
  const { name } = card;
  const fix = card.state === "invalid" ? "Correct it" : card.missing?.length === 1 ? `Set ${card.missing[0]}` : "Set what is missing";
  const again = needsPerson(card) ? "Try again" : "Restart";
  return html`<span class="row cures">
    ${needsSignIn(card) && html`<button type="button" class="small primary" aria-label=${`Sign in to ${name}`}
      onClick=${() => setSigningIn(true)}>Sign in</button>`}
    ${card.changes > 0 && html`<a class="button small" aria-label=${`See what is different in ${name}`}
      href=${place(name, "approvals")}>See what is different</a>`}
    ${needsPerson(card) && html`<a class="button small primary" aria-label=${`${fix}: ${name}`}
      href=${place(name, "entry")}>${fix}</a>`}
    ${broken && !needsSignIn(card) && html`<${Action} kind="small" label=${`${again}: ${name}`} done=${seen}
      run=${() => post(request(name, "restart"))}>${again}</${Action}>`}
    <a class="button small" aria-label=${`Log of ${name}`} href=${place(name, "log")}>Log</a>
    ${signingIn && html`<${SignIn} server=${name} onClose=${() => setSigningIn(false)} />`}
  </span>`;
}

// card: of the server
export function Actions({ server, card }) {
  const [signingIn, setSigningIn] = useState(false);
  const [edit, setEdit] = useState(null); // the properties of the dialog, while it is open
  const act = (what) => () => post(request(server, what));
  const isDisabled = card.state === "disabled";
  const isSignedOut = card.state === "needs sign-in";
  return html`<div class="row">
    ${needsSignIn(card) && html`<button type="button" class="primary"
      onClick=${() => setSigningIn(true)}>Sign in</button>`}
    ${signsIn(card) && !isSignedOut && html`<${Action} run=${act("sign-out")} done=${({ signed_out: was }) => was ? "Signed out" : "Nobody was signed in"} label=${`Sign out of ${server}`}
      confirm=${{ title: `Sign out of ${server}?`, text: SIGNED_OUT, yes: "Sign out" }}>Sign out</${Action}>`}
    ${!isDisabled && html`<${Action} run=${act("restart")} done=${seen}>${needsPerson(card) ? "Try again" : "Restart"}</${Action}>`}
    ${!card.peer && (isDisabled
      ? html`<button type="button" class="primary" onClick=${() => setEdit({ title: `Enable ${server}?`,
          command: "enable", yes: "Enable", text: "It is started at once." })}>Enable</button>`
      : html`<button type="button" class="danger" onClick=${() => setEdit({ title: `Disable ${server}?`,
          command: "disable", yes: "Disable", danger: true, text: DISABLED })}>Disable</button>`)}
    ${edit && html`<${Edit} ...${edit} options=${{ server }} onClose=${() => setEdit(null)} />`}
    ${signingIn && html`<${SignIn} server=${server} onClose=${() => setSigningIn(false)} />`}
  </div>`;
}

// Leads a person through a sign-in: the address to open, and what came of it.
function SignIn({ server, onClose }) {
  const [state, setState] = useState({});
  useEffect(() => {
    let shown = true;
    const set = (more) => shown && setState((before) => ({ ...before, ...more }));
    post(request(server, "sign-in"))
      .then((begun) => {
        set({ begun });
        return post(request(server, "signed-in"));
      })
      .then((done) => set({ done }))
      .catch((failure) => set({ failure }));
    return () => void (shown = false);
  }, []);
  const { begun, done, failure } = state;
  return html`<${Dialog} title=${`Sign in to ${server}`} onClose=${onClose}>
    <div class="stack">
      ${failure && html`<${Failed} failure=${failure} />`}
      ${!begun && !failure && html`<${Loading}>Asking the server where to sign in…</${Loading}>`}
      ${begun && !done && !failure && html`<${Waiting} server=${server} begun=${begun} />`}
      ${done && html`<${Notice} tone="good" live="status"
        title=${done.account ? `You are signed in as ${done.account}.` : "You are signed in."}>The server is ${done.described}.</${Notice}>`}
    </div>
  </${Dialog}>`;
}

function Waiting({ server, begun }) {
  const [address, setAddress] = useState("");
  const host = hostOf(begun.url);
  if (!host) return html`<${Notice} tone="bad"
    live="alert">The server gave an address that no browser should open.</${Notice}>`;
  return html`
    <p>Your browser opens a page of <strong
      class="wrap">${host}</strong>, and comes back here when you have signed in.</p>
    ${begun.note && html`<${Notice} tone="ask" title="Two hosts take part.">${begun.note}</${Notice}>`}
    <div class="row"><a class="button" href=${begun.url} target="_blank"
      rel="noopener noreferrer">Open the page to sign in</a><${Copy} text=${begun.url} what="the address" /></div>
    <${Loading}>Waiting for you…</${Loading}>
    <details><summary>This browser is on another computer than MCPX</summary>
      <div class="stack tight">
        <label class="field"><span class="label">The address that your browser ends at, though it shows an error</span>
          <input value=${address} autocomplete="off" spellcheck=${false}
            onInput=${(event) => setAddress(event.target.value)} /></label>
        <${Action} kind="small" disabled=${!address} run=${() => post(request(server, "sign-in-answer"), { address })}
          done="Sent">Continue with it</${Action}>
      </div>
    </details>
  `;
}

// The host of an address that a browser may open; null for any other.
function hostOf(address) {
  try {
    const { protocol, host } = new URL(address);
    return protocol === "https:" || protocol === "http:" ? host : null;
  } catch {
    return null;
  }
}
