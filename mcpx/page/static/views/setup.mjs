// Setup: the configuration with its mistakes, doctor, and what changes files, each with a preview and a way back.
import { html } from "../lib.mjs";
import { Notice } from "../widgets/notice.mjs";
import { Tabs } from "../widgets/tabs.mjs";
import { Configuration } from "./setup/configuration.mjs";
import { Add } from "./setup/add.mjs";
import { Doctor } from "./setup/doctor.mjs";
import { Import } from "./setup/import.mjs";
import { Install } from "./setup/install.mjs";
import { Changes } from "./setup/changes.mjs";

const PARTS = [
  { path: "", name: "Configuration", view: Configuration },
  { path: "add", name: "Add a server", view: Add },
  { path: "doctor", name: "Doctor", view: Doctor },
  { path: "import", name: "Import", view: Import },
  { path: "install", name: "Install", view: Install },
  { path: "changes", name: "Undo", view: Changes },
];

const href = (path) => (path ? `#/setup/${path}` : "#/setup");

export function Setup({ rest }) {
  const part = PARTS.find((each) => each.path === (rest[0] ?? ""));
  return html`<div class="stack">
    <h1>Setup</h1>
    <${Tabs} label="Parts of the setup" current=${part && href(part.path)} tabs=${PARTS.map(({ path, name }) => ({ href: href(path), name }))} />
    ${part ? html`<${part.view} />` : html`<${Notice} tone="off">There is no such part.</${Notice}>`}
  </div>`;
}
