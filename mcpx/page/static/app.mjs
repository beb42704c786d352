// The page: its frame, and which view stands in it. The address says which: #/calls, #/servers/NAME.
import { html, render, useEffect, useState } from "./lib.mjs";
import { signOut, useConnection } from "./api.mjs";
import { Overview } from "./views/overview.mjs";
import { Server } from "./views/server.mjs";
import { Calls } from "./views/calls.mjs";
import { Model } from "./views/model.mjs";
import { Setup } from "./views/setup.mjs";

const VIEWS = [
  { path: "", name: "Overview", view: Overview },
  { path: "calls", name: "Calls", view: Calls },
  { path: "model", name: "What the model sees", view: Model },
  { path: "setup", name: "Setup", view: Setup },
];

const place = () => location.hash.replace(/^#\/?/, "").split("/").map(decodeURIComponent);

function App() {
  const [[first, ...rest], setPlace] = useState(place());
  const connection = useConnection();
  useEffect(() => {
    const moved = () => setPlace(place());
    addEventListener("hashchange", moved);
    return () => removeEventListener("hashchange", moved);
  }, []);
  if (connection === "ended") return html`<main><h1>Signed out</h1><p>Open this page with: <code>mcpx ui</code></p></main>`;
  const known = VIEWS.find((each) => each.path === first);
  return html`
    <header>
      <a href="#/">MCPX</a>
      <nav aria-label="Views">
        ${VIEWS.map(({ path, name }) => html`<a href=${`#/${path}`} aria-current=${path === first ? "page" : undefined}>${name}</a>`)}
      </nav>
      <button onClick=${signOut}>Sign out</button>
    </header>
    <main id="main">
      ${connection === "lost" && html`<p role="alert">The daemon does not answer.</p>`}
      ${first === "servers" ? html`<${Server} key=${rest[0]} name=${rest[0]} tab=${rest[1]} rest=${rest.slice(2)} />` : known ? html`<${known.view} rest=${rest} />` : html`<p>There is no such view.</p>`}
    </main>
  `;
}

render(html`<${App} />`, document.body);
