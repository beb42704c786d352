// The controls of a form that fit on a line: a choice, a text, a number; and the one for JSON of any kind.
//
// Each is given the value and what its label says, and calls `onChange` with another value; undefined for none.
import { html, useEffect, useState } from "../../lib.mjs";
import { laidOut, read, written } from "../../widgets/json.mjs";
import { shown as inWords } from "./schema.mjs";

const LONG = 120; // characters, for which a text has a field that grows
const ANY = "";

export function Choice({ control, value, onChange, id, described, invalid, label, required }) {
  const choices = control.choices ?? [true, false].map((each) => ({ value: each, label: String(each) }));
  const all = control.nullable ? [...choices, { value: null, label: "null" }] : choices;
  const words = written(value);
  const at = value === undefined ? -1 : all.findIndex((each) => written(each.value) === words);
  const isOdd = value !== undefined && at < 0; // from the JSON
  const change = (chosen) => chosen !== "odd" && onChange(chosen === ANY ? undefined : all[Number(chosen)].value);
  return html`<select id=${id} aria-label=${label} aria-describedby=${described} aria-invalid=${invalid} value=${isOdd
    ? "odd" : at < 0 ? ANY : at}
    onChange=${(event) => change(event.target.value)}>
    <option value=${ANY}>${required ? "choose…" : "not given"}</option>
    ${isOdd && html`<option value="odd">${inWords(value).slice(0, 80)}</option>`}
    ${all.map((each, index) => html`<option key=${index} value=${index}>${each.label}</option>`)}
  </select>`;
}

const INPUT_TYPES = new Map([["date", "date"], ["password", "password"]]); // by format
const EXAMPLES = new Map([
  ["date-time", "2026-01-31T12:00:00Z"],
  ["time", "12:00:00Z"],
  ["email", "name@example.com"],
  ["uri", "https://example.com/"],
  ["duration", "PT1H"],
]);

export function Text({ schema, control, value, onChange, id, described, invalid, label, required }) {
  const shown = typeof value === "string" ? value : value === undefined || value === null ? "" : inWords(value);
  const change = (event) => onChange(event.target.value === "" && !required ? undefined : event.target.value);
  const shared = { id, value: shown, onInput: change, autocomplete: "off", spellcheck: false, "aria-label": label,
    "aria-describedby": described, "aria-invalid": invalid };
  const type = schema.writeOnly === true ? "password" : INPUT_TYPES.get(schema.format);
  const isShort = type || schema.format || schema.maxLength <= LONG;
  const field = isShort
    ? html`<input ...${shared} class=${type === "date" ? "narrow" : undefined} type=${type ?? "text"}
      placeholder=${EXAMPLES.get(schema.format)} />`
    : html`<textarea ...${shared} class="grows" rows="1"></textarea>`;
  return html`${field}${control.nullable && html`<${Null} value=${value} onChange=${onChange} />`}`;
}

export function Numeric({ control, value, onChange, id, described, invalid, label }) {
  const [text, change] = useText(value, onChange, number);
  return html`<input id=${id} class="narrow" type="text" inputmode="decimal" value=${text} autocomplete="off"
    aria-label=${label} aria-describedby=${described} aria-invalid=${invalid}
    placeholder=${example(control.schema)} onInput=${(event) => change(event.target.value)} />
    ${control.nullable && html`<${Null} value=${value} onChange=${onChange} />`}`;
}

const example = (schema) => (typeof schema.default === "number" ? String(schema.default) : undefined);

function Null({ value, onChange }) {
  return html`<label class="switch small"><input type="checkbox" checked=${value === null}
    onChange=${(event) => onChange(event.target.checked ? null : undefined)} />null</label>`;
}

export function Json({ value, onChange, id, described, invalid, label, name }) {
  const [text, change] = useText(value, onChange, parsed);
  return html`<textarea class="grows" id=${id} rows="2" spellcheck=${false} value=${text} aria-label=${label ?? (id
    ? undefined : name)} aria-describedby=${described} aria-invalid=${invalid}
    placeholder="JSON, or plain text" onInput=${(event) => change(event.target.value)}></textarea>`;
}

// The text of a field, and what to do when it changes; `meant` says which value a text means.
function useText(value, onChange, meant) {
  const words = (each) => (each === undefined ? "" : typeof each === "string" ? each : laidOut(each));
  const [text, setText] = useState(words(value));
  useEffect(() => {
    if (written(meant(text)) !== written(value)) setText(words(value));
  }, [value]);
  const change = (next) => {
    setText(next);
    onChange(meant(next));
  };
  return [text, change];
}

// undefined for nothing, a number, or the text as it is
function number(text) {
  const trimmed = text.trim();
  if (!trimmed) return undefined;
  return /^-?\d+(\.\d+)?([eE][+-]?\d+)?$/.test(trimmed) ? parsed(trimmed) : text;
}

function parsed(text) {
  if (!text.trim()) return undefined;
  try {
    return read(text);
  } catch {
    return text;
  }
}
