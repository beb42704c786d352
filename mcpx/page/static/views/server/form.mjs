// A form for a JSON Schema: a control for each member, fields within fields for what holds others.
//
// The value that is put in is plain JSON, and what was not filled in is not in it. Text that is no number, in the
// field of one, is kept as text: the daemon says what is wrong with it, in the words that a model gets.
// `problems` are those words: [{path: "$.files[0].name", problem}]. Members may have any name, `__proto__` and
// `constructor` too; and of more fields than a person fills in the first are shown (`MAX_FIELDS`).
import { Component, html, useEffect, useId, useMemo, useState } from "../../lib.mjs";
import { Choice, Json, Numeric, Text } from "./controls.mjs";
import * as json from "./schema.mjs";

const MAX_DEPTH = 8; // of fields within fields; below there is a field for JSON
const MAX_ITEMS = 200; // of a list that are shown
const MAX_FIELDS = 500; // of a form
const MAX_LABEL = 200; // characters of the name of a branch
const MAX_ASKED = 3; // levels on which what is required and not filled in is shown at once
const MANY = 12; // members of an object, from which on the optional ones are folded away
const GROUPS = ["object", "map", "array", "alternatives"]; // kinds that hold other values

// schema: of an object; value: what is filled in; onChange(value). A schema that no form can be made of has none.
export class Form extends Component {
  static getDerivedStateFromError() {
    return { failed: true };
  }

  render(props, { failed }) {
    if (failed) return html`<p class="muted">No form can be made of this schema. Give the arguments as JSON.</p>`;
    return html`<div class="stack form"><${Whole} ...${props} /></div>`;
  }
}

function Whole({ schema, value, onChange, problems = [] }) {
  const root = json.resolved(schema, schema);
  const context = { root: schema, problems, room: { left: MAX_FIELDS } };
  const [isTooMuch, setTooMuch] = useState(false);
  useEffect(() => setTooMuch(json.isTooMuch(schema))); // which its fields may have found out just now
  if (isTooMuch) {
    return html`
      <p class="muted small">What it takes is too intricate for a form. Fill it in as JSON.</p>
      <${Json} value=${value} onChange=${onChange} name="Arguments" />
    `;
  }
  return html`<${Members} schema=${root} value=${value} onChange=${onChange} path="$" depth=${0} context=${context} />`;
}

// How many of so many fields there is room for; the same until the form is shown anew.
function useRoom(context, wanted) {
  return useMemo(() => {
    const most = Math.max(0, Math.min(wanted, context.room.left));
    context.room.left -= most;
    return most;
  }, [context, wanted]);
}

// --- objects

function Members({ schema, value, onChange, path, depth, context }) {
  const given = isObject(value) ? value : {};
  const properties = isObject(schema.properties) ? schema.properties : {};
  const required = new Set(Array.isArray(schema.required) ? schema.required : []);
  const all = Object.keys(properties);
  const names = firstOf(all, required, useRoom(context, all.length));
  const others = Object.keys(given).filter((name) => !Object.hasOwn(properties, name));
  const folds = names.length > MANY && required.size > 0;
  const either = json.eitherRequired(schema);
  const set = (name, to) => onChange(withMember(given, name, to));
  const member = (name) => html`<${Field} key=${name} name=${name} schema=${properties[name]}
    required=${required.has(name)}
    value=${own(given, name)} onChange=${(to) => set(name, to)} path=${json.memberPath(path, name)}
      missing=${`${path}.${name}`}
    depth=${depth + 1} context=${context} />`;
  if (!names.length && !others.length && !isObject(schema.additionalProperties)) {
    return schema.additionalProperties === false || depth === 0
      ? html`<p class="muted small">It ${schema.additionalProperties === false ? "takes" : "names"} no arguments.</p>`
      : html`<${Value} schema=${{}} value=${value} onChange=${onChange} path=${path} depth=${MAX_DEPTH}
        context=${context} />`;
  }
  return html`
    ${either.length > 0 && html`<p class="muted small">Wants ${either.join(", or ")}.</p>`}
    ${names.filter((name) => !folds || required.has(name)).map(member)}
    ${all.length > names.length && html`<p class="muted small">${all.length - names.length} more are for the JSON.</p>`}
    ${folds && html`<details class="folded"><summary>${names.length - required.size} more that may be left out</summary>
      <div class="stack">${names.filter((name) => !required.has(name)).map(member)}</div>
    </details>`}
    ${isObject(schema.additionalProperties)
      ? html`<${OpenMembers} schema=${schema.additionalProperties} value=${given} names=${others} onChange=${onChange}
        path=${path} depth=${depth} context=${context} />`
      : others.length > 0 && html`<p class="muted small">Only in the JSON: ${others.slice(0, 10).join(", ")}.</p>`}
  `;
}

// The first names, those that are required before the others.
function firstOf(names, required, most) {
  if (names.length <= most) return names;
  const [first, others] = [true, false].map((is) => names.filter((name) => required.has(name) === is));
  return [...first, ...others].slice(0, most);
}

const own = (value, name) => (Object.hasOwn(value, name) ? value[name] : undefined);

function withMember(value, name, to) {
  if (to !== undefined) return { ...value, [name]: to };
  const { [name]: _gone, ...next } = value;
  return next;
}

// Members of any name, each with a value of the same schema.
function OpenMembers({ schema, value, names, onChange, path, depth, context }) {
  const most = useRoom(context, Math.min(names.length, MAX_ITEMS));
  const [added, setAdded] = useState("");
  const id = useId();
  const add = () => {
    if (!added || Object.hasOwn(value, added)) return;
    onChange(withMember(value, added, json.blank(schema, context.root)));
    setAdded("");
  };
  return html`
    ${names.slice(0, most).map((name) => html`<div key=${name} class="item">
      <div class="grow"><${Field} name=${name} schema=${schema} required value=${own(value, name)}
        onChange=${(to) => onChange(withMember(value, name, to ?? null))}
        path=${json.memberPath(path, name)} depth=${depth + 1} context=${context} /></div>
      <button type="button" class="quiet small" aria-label=${`Remove ${name}`}
        onClick=${() => onChange(withMember(value, name, undefined))}>Remove</button>
    </div>`)}
    <div class="row">
      <label class="hidden" for=${id}>Name of another member</label>
      <input id=${id} class="adding" placeholder="name" value=${added} autocomplete="off" spellcheck=${false}
        onInput=${(event) => setAdded(event.target.value)} onKeyDown=${(event) => event.key === "Enter"
          && (event.preventDefault(), add())} />
      <button type="button" class="small" disabled=${!added} onClick=${add}>Add member</button>
    </div>
  `;
}

// --- one value with its name

// missing: the path by which a message says that it is missing
function Field({ name, schema, required, value, onChange, path, missing, depth, context }) {
  const id = useId();
  const control = json.control(schema, context.root);
  const found = control.schema;
  const problems = context.problems.filter((each) => each.path === path || each.path === missing);
  const kind = json.typeWords(schema, context.root);
  const words = [control.kind === "choice" || control.kind === "boolean" ? "" : kind,
    ...json.limits(found)].filter(Boolean).join(", ");
  const described = [found.description && `${id}-about`, problems.length && `${id}-problem`].filter(Boolean).join(" ");
  const title = typeof found.title === "string" && !alike(found.title, name) ? found.title : "";
  const isGroup = depth <= MAX_DEPTH && GROUPS.includes(control.kind);
  const label = html`<span class="mono strong">${name}</span>${title && html` <span>${title}</span>`}
    ${required ? html` <span class="needed">required</span>` : ""} <span class="kind">${words}</span>`;
  const about = html`
    ${found.description && html`<div class="hint clip" id=${`${id}-about`}>${text(found.description)}</div>`}
    ${problems.map((each) => html`<div key=${each.problem} class="error" id=${`${id}-problem`}>${each.problem}</div>`)}
  `;
  const inner = { schema, value, onChange, path, depth, context, required };
  if (!isGroup) {
    return html`<div class="field">
      <label for=${id}>${label}</label>
      <${Value} ...${inner} id=${id} described=${described || undefined} invalid=${problems.length > 0} />
      ${about}
    </div>`;
  }
  const isGiven = value !== undefined;
  return html`<fieldset class="field group" aria-describedby=${described || undefined}>
    <legend>${label}</legend>
    ${about}
    ${isGiven || (required && depth <= MAX_ASKED)
      ? html`<${Value} ...${inner} name=${name} />
        ${!required && html`<div><button type="button" class="quiet small"
          onClick=${() => onChange(undefined)}>Leave ${name} out</button></div>`}`
      : html`<div><button type="button" class="small" onClick=${() => onChange(json.blank(schema,
        context.root))}>Fill in ${name}</button></div>`}
  </fieldset>`;
}

// The control of a value, by its kind.
function Value(props) {
  const { schema, depth, context } = props;
  const control = depth > MAX_DEPTH ? { kind: "any", schema } : json.control(schema, context.root);
  const View = KINDS[control.kind] ?? Json;
  return html`<${View} ...${props} schema=${control.schema} control=${control} />`;
}

const KINDS = {
  alternatives: Alternatives,
  array: Items,
  boolean: Choice,
  choice: Choice,
  integer: Numeric,
  map: Group,
  number: Numeric,
  object: Group,
  string: Text,
};

function Group(props) {
  return html`<div class="stack inside"><${Members} ...${props} /></div>`;
}

// A value that may be of several forms.
function Alternatives({ control, value, onChange, path, depth, context, name = "the value" }) {
  const id = useId();
  const { branches, nullable } = control;
  const found = value === undefined ? -1 : json.branchOf(value, branches, context.root);
  const [chosen, setChosen] = useState(Math.max(0, found));
  const at = found >= 0 && !fitsAlso(value, branches[chosen], context.root) ? found : chosen;
  const choose = (index) => {
    if (index === branches.length) return onChange(null);
    setChosen(index);
    onChange(json.blank(branches[index], context.root));
  };
  const label = (each, index) => (typeof each.title === "string" && each.title.slice(0, MAX_LABEL)) || constants(each)
    || json.typeWords(each, context.root) || `form ${index + 1}`;
  return html`<div class="stack tight inside">
    <label class="hidden" for=${id}>Form of ${name}</label>
    <select id=${id} value=${value === null ? branches.length : at}
      onChange=${(event) => choose(Number(event.target.value))}>
      ${branches.map((each, index) => html`<option key=${index} value=${index}>${label(each, index)}</option>`)}
      ${nullable && html`<option value=${branches.length}>null</option>`}
    </select>
    ${value !== null && html`<${Value} key=${at} schema=${branches[at]} value=${value} onChange=${onChange} path=${path}
      depth=${depth + 1} context=${context}
      name=${name} label=${name} required />`}
  </div>`;
}

const fitsAlso = (value, branch, root) => json.branchOf(value, [branch], root) === 0;

// A branch is best named by the constants that set it apart from the others.
function constants(branch) {
  const members = Object.entries(branch.properties ?? {}).filter(([, each]) => isObject(each) && Object.hasOwn(each,
    "const"));
  return members.map(([name, each]) => `${name}: ${json.shown(each.const)}`).join(", ").slice(0, MAX_LABEL);
}

function Items({ schema, value, onChange, path, depth, context, name = "the list" }) {
  const items = Array.isArray(value) ? value : [];
  const prefix = Array.isArray(schema.prefixItems) ? schema.prefixItems : [];
  const of = (index) => prefix[index] ?? (isObject(schema.items) ? schema.items : {});
  const set = (index, to) => onChange(items.map((each, at) => (at === index ? (to ?? emptied(of(index), context.root))
    : each)));
  const shown = useRoom(context, Math.min(items.length, MAX_ITEMS));
  const isFull = typeof schema.maxItems === "number" && items.length >= schema.maxItems;
  return html`<div class="stack tight inside">
    ${items.slice(0, shown).map((item, index) => html`<div key=${index} class="item">
      <div class="grow"><${Item} schema=${of(index)} value=${item} onChange=${(to) => set(index, to)}
        path=${`${path}[${index}]`} depth=${depth + 1} context=${context}
        name=${`${name} ${index + 1}`} /></div>
      <button type="button" class="quiet small" aria-label=${`Remove ${name} ${index + 1}`}
        onClick=${() => onChange(items.filter((_each, at) => at !== index))}>Remove</button>
    </div>`)}
    ${items.length > shown && html`<p class="muted small">${items.length - shown} more are in the JSON.</p>`}
    <div><button type="button" class="small" disabled=${isFull} onClick=${() => onChange([...items,
      json.blank(of(items.length), context.root)])}>Add to ${name}</button></div>
  </div>`;
}

// What an item is whose field was emptied: an item has to be something.
const emptied = (schema, root) => (json.control(schema, root).kind === "string" ? "" : null);

function Item({ schema, value, onChange, path, depth, context, name }) {
  const id = useId();
  const problems = context.problems.filter((each) => each.path === path);
  return html`<div class="field">
    ${!GROUPS.includes(json.control(schema, context.root).kind) && html`<label class="hidden"
      for=${id}>${name}</label>`}
    <${Value} schema=${schema} value=${value} onChange=${onChange} path=${path} depth=${depth} context=${context}
      id=${id} name=${name} required
      described=${problems.length ? `${id}-problem` : undefined} invalid=${problems.length > 0} />
    ${problems.map((each) => html`<div key=${each.problem} class="error" id=${`${id}-problem`}>${each.problem}</div>`)}
  </div>`;
}

// --- words

const isObject = (value) => typeof value === "object" && value !== null && !Array.isArray(value);
const letters = (words) => words.toLowerCase().replace(/[^a-z0-9]/g, "");
const alike = (one, other) => letters(one) === letters(other);
const text = (value) => (typeof value === "string" ? value : "");
