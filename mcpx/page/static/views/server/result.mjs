// What came of a call: content blocks, as the server gave them, and what a model is shown of them.
//
// Everything is shown as text, but pictures of a few types, as data. Nothing of a server's becomes a link.
import { html, useState } from "../../lib.mjs";
import { Code } from "../../widgets/copy.mjs";
import { bytes, count, ms } from "../../widgets/format.mjs";
import { Badge } from "../../widgets/badge.mjs";
import { laidOut, read } from "../../widgets/json.mjs";

const PICTURES = ["image/png", "image/jpeg", "image/gif", "image/webp", "image/avif", "image/bmp"];
const EXTENSIONS = { "audio/wav": "wav", "audio/mpeg": "mp3", "application/pdf": "pdf", "application/json": "json",
  "text/csv": "csv" };
const MAX_FORMATTED = 200_000; // characters of JSON

// result: as POST /call answers
export function Result({ result }) {
  const [shown, setShown] = useState("server");
  const { model } = result;
  const saved = model.tokens_direct > model.tokens ? `, ${count(model.tokens_direct)} as it came` : "";
  const choices = [
    ["server", "As the server gave it"],
    ["model", "As a model sees it"],
    ...(result.structured === undefined ? [] : [["structured", "Structured"]]),
  ];
  const at = choices.some(([key]) => key === shown) ? shown : "server";
  return html`<section class="stack tight" aria-label="Result">
    <div class="spread">
      <div class="row">
        <${Badge} tone=${result.is_error ? "bad" : "good"}>${result.is_error ? "the tool reports an error"
          : "answered"}</${Badge}>
        <span class="muted small">${ms(result.took_ms)}, ${count(model.tokens)} tokens for a model${saved}</span>
      </div>
      <div class="row" role="group" aria-label="Which form of the result">
        ${choices.map(([key, name]) => html`<button key=${key} type="button" class="chip" aria-pressed=${at === key}
          onClick=${() => setShown(key)}>${name}</button>`)}
      </div>
    </div>
    ${at === "server" && html`<${Blocks} blocks=${result.content} />`}
    ${at === "model" && html`<${Long} block=${model} what="what a model sees" plain />`}
    ${at === "structured" && html`<${Code} text=${laidOut(result.structured)}
      what="structured content" />`}
    ${result.structured_cut && html`<p
      class="muted small">Its structured content has ${bytes(result.structured_cut)}, too many to be shown.</p>`}
  </section>`;
}

export function Blocks({ blocks }) {
  if (!blocks.length) return html`<p class="empty">Nothing came: the result has no content.</p>`;
  return html`<div class="stack tight">${blocks.map((block, index) => html`<${Block} key=${index}
    block=${block} />`)}</div>`;
}

function Block({ block }) {
  if (block.type === "more") return html`<p
    class="muted small">And ${count(block.blocks)} more blocks that are not shown.</p>`;
  const about = [block.title ?? block.name, block.uri, block.mimeType].filter(Boolean);
  const head = about.length > 0 && html`<div class="small muted wrap"><span
    class="mono">${about.join("  ")}</span></div>`;
  if (block.text !== undefined) return html`<div>${head}<${Long} block=${block} what=${block.uri ?? "text"} /></div>`;
  if (block.data === undefined && block.bytes === undefined) return html`<${Linked} block=${block} />`;
  if (block.data === undefined) return html`<div
    class="sunk small">${head}${bytes(block.bytes)}, too large to be shown here.</div>`;
  const type = (block.mimeType ?? "").split(";")[0].trim().toLowerCase();
  return html`<div class="stack tight">
    ${head}
    ${PICTURES.includes(type) && html`<${Picture} block=${block} type=${type} />`}
    <div class="row small"><span class="muted">${block.type}, ${bytes(block.bytes)}</span>
      <button type="button" class="small" onClick=${() => save(block, type)}>Save</button></div>
  </div>`;
}

function Picture({ block, type }) {
  const [broken, setBroken] = useState(() => decoded(block.data) === null); // a browser calls such an address a fault
  if (broken) return html`<p class="muted small">This is no picture that can be shown.</p>`;
  return html`<div class="picture"><img src=${`data:${type};base64,${block.data}`}
    alt=${block.title ?? block.name ?? "Picture in the result"} onError=${() => setBroken(true)} /></div>`;
}

// A link to a resource, or a block of a kind that is not known: its words.
function Linked({ block }) {
  const { type, ...rest } = block;
  return html`<div class="sunk small">
    <div class="strong">${type === "resource_link" ? "Link to a resource" : type}</div>
    ${Object.entries(rest).map(([name, value]) => html`<div key=${name} class="wrap"><span
      class="muted">${name}</span> <span class="mono">${String(value)}</span></div>`)}
  </div>`;
}

// A text, and what was cut of it; JSON is laid out, unless it is to stay as it is.
function Long({ block, what, plain }) {
  const lines = plain ? null : formatted(block);
  const [raw, setRaw] = useState(false);
  return html`<div>
    <${Code} text=${lines && !raw ? lines : block.text} what=${what} wraps />
    ${lines && html`<button type="button" class="quiet small" aria-pressed=${raw} onClick=${() => setRaw(!raw)}>${raw
      ? "Lay the JSON out" : "Show it as it came"}</button>`}
    ${block.cut && html`<p class="muted small">${count(block.cut)} more characters are not shown.</p>`}
  </div>`;
}

function formatted({ text, cut }) {
  if (cut || text.length > MAX_FORMATTED || !/^\s*[[{]/.test(text)) return null;
  try {
    const lines = laidOut(read(text));
    return lines === text ? null : lines;
  } catch {
    return null;
  }
}

// Puts the bytes into a file of the person's; the browser only takes them as a download.
function save(block, type) {
  const bytes = decoded(block.data);
  const content = bytes === null ? block.data : Uint8Array.from(bytes, (each) => each.charCodeAt(0));
  const address = URL.createObjectURL(new Blob([content], { type: "application/octet-stream" }));
  const link = document.createElement("a");
  link.href = address;
  link.download = fileName(block, type);
  link.click();
  setTimeout(() => URL.revokeObjectURL(address), 10_000);
}

// The bytes that base64 stands for, a character each; null for what is none.
function decoded(data) {
  try {
    return atob(data);
  } catch {
    return null;
  }
}

function fileName(block, type) {
  const last = (block.name ?? block.uri ?? "").split(/[/\\]/).pop().replace(/[^\w.-]/g, "_").replace(/^\.+/,
    "").slice(0, 80);
  const extension = EXTENSIONS[type] ?? (type.startsWith("image/") ? type.slice(6).replace(/\W.*/, "") : "bin");
  return /\.\w+$/.test(last) ? last : `${last || "result"}.${extension}`;
}
