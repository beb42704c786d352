// The page: its frame, and which view stands in it. The address says which: #/calls, #/servers/NAME.
import { html, render, useEffect, useRef, useState } from "./lib.mjs";
import { signOut, useConnection, useDaemon } from "./api.mjs";
import { Action } from "./widgets/action.mjs";
import { Contained } from "./widgets/contained.mjs";
import { Notice } from "./widgets/notice.mjs";
import { Theme } from "./widgets/theme.mjs";
import { Overview } from "./views/overview.mjs";
import { Server } from "./views/server.mjs";
import { Calls } from "./views/calls.mjs";
import { Model } from "./views/model.mjs";
import { Setup } from "./views/setup.mjs";

const VIEWS = [
  { path: "", name: "Overview", view: Overview },
  { path: "model", name: "What the model sees", view: Model },
  { path: "calls", name: "Calls", view: Calls },
  { path: "setup", name: "Setup", view: Setup },
];
const LINK = {
  connecting: { tone: "busy", word: "Connecting" },
  open: { tone: "good", word: "Live" },
  lost: { tone: "bad", word: "Reconnecting" },
  paused: { tone: "idle", word: "Paused" },
};

const place = () => location.hash.replace(/^#\/?/, "").split("/").map(decoded);

function decoded(part) {
  try {
    return decodeURIComponent(part);
  } catch {
    return part; // an address that somebody has typed
  }
}

function App() {
  const [[first, ...rest], setPlace] = useState(place());
  const connection = useConnection();
  const main = useRef(null);
  const known = VIEWS.find((each) => each.path === first);
  const title = first === "servers" ? rest[0] : (known?.name ?? "Nothing here");
  useEffect(() => {
    const moved = () => setPlace(place());
    addEventListener("hashchange", moved);
    return () => removeEventListener("hashchange", moved);
  }, []);
  useEffect(() => {
    document.title = `${title} · MCPX`;
  }, [title]);
  useArrival(main, first === "servers" ? `${first}/${rest[0]}` : first);
  if (connection === "ended") return html`<${SignedOut} />`;
  return html`
    <a class="skip" href="#main" onClick=${(event) => skip(event, main.current)}>Skip to the content</a>
    <header class="top">
      <a class="brand" href="#/" aria-label="MCPX, overview"><${Mark} />MCPX</a>
      <nav aria-label="Views">
        ${VIEWS.map(({ path, name }) => html`<a key=${path} href=${`#/${path}`}
          aria-current=${path === first ? "page" : undefined}>${name}</a>`)}
      </nav>
      <div class="row top-end">
        <span class=${`link-state tone-${LINK[connection].tone}`} role="status"><span class="dot toned"
          aria-hidden="true"></span>${LINK[connection].word}</span>
        <${Theme} />
        <${Action} kind="quiet" run=${signOut}>Sign out</${Action}>
      </div>
    </header>
    <main id="main" ref=${main} tabindex="-1">
      ${connection === "lost" && html`<${Lost} />`}
      ${connection === "paused" && html`<${Paused} />`}
      <${Updated} />
      <${Contained} where=${[first, ...rest].join("/")}>
        <${View} known=${known} first=${first} rest=${rest} />
      </${Contained}>
    </main>
  `;
}

function View({ known, first, rest }) {
  if (first === "servers" && rest[0]) return html`<${Server} key=${rest[0]} name=${rest[0]} tab=${rest[1]}
    rest=${rest.slice(2)} />`;
  if (known) return html`<${known.view} key=${known.path} rest=${rest} />`;
  return html`<h1>Nothing here</h1><p>There is no such view. <a href="#/">Overview</a></p>`;
}

// Puts the focus where a new view begins, so that keyboard and screen reader go on from there.
function useArrival(main, where) {
  const before = useRef(where);
  useEffect(() => {
    if (before.current === where) return;
    before.current = where;
    scrollTo(0, 0);
    main.current?.focus({ preventScroll: true });
  }, [where]);
}

function skip(event, main) {
  event.preventDefault(); // the address says which view it is
  main.focus();
}

function Lost() {
  return html`<div class="lost"><${Notice} tone="bad" live="alert" title="The daemon does not answer.">
    What you see is how it was. This page reconnects by itself when the daemon runs again. A client starts it when it
    needs it; <code>mcpx ui</code> does at once, and opens a new window where this one cannot reconnect.
  </${Notice}></div>`;
}

// The files of a page are those of the daemon that it was loaded from.
function Updated() {
  const { first, now } = useDaemon();
  if (!now || first.version === now.version) return null;
  return html`<div class="lost"><${Notice} tone="ask" live="status" title=${`MCPX is now version ${now.version}.`}>
    This page is still that of version ${first.version}.
    <button class="small" onClick=${() => location.reload()}>Reload</button>
  </${Notice}></div>`;
}

function Paused() {
  return html`<div class="lost"><${Notice} tone="idle" live="status" title="This window waits.">
    A browser keeps a few windows up to date at a time. This one continues when you turn to it.
  </${Notice}></div>`;
}

function SignedOut() {
  return html`<main class="signed-out" id="main">
    <${Mark} />
    <h1>Signed out</h1>
    <p>Open this page again with <code>mcpx ui</code></p>
  </main>`;
}

function Mark() {
  return html`<svg viewBox="0 0 16 16" aria-hidden="true">
    <rect width="16" height="16" rx="4" fill="#4f46e5" />
    <path d="M4 3.6h1.6L8 6.9l2.4-3.3H12v8.8h-1.8V6.6L8 9.5 5.8 6.6v5.8H4z" fill="#fff" />
  </svg>`;
}

// The header of index.html is painted before what takes longer; a window that nobody sees has no next frame.
const begin = () => render(html`<${App} />`, document.body);
if (document.hidden) begin();
else requestAnimationFrame(() => setTimeout(begin));
