// What a JSON Schema says of one value, for a form: which control, which choices, which members. Pure.
//
// A form need not say everything: the daemon checks the arguments, as `exec` does. What is too odd for a control
// is `any`, a field for JSON. References are followed as far as they are used, so a schema may be recursive.
//
// A schema is a server's: anything may stand anywhere in it, and it may be made to keep a browser busy for ever.
// So what is asked here in one turn of the event loop (a form, as it is shown once) takes at most `MAX_WORK`
// steps. A schema that takes more, or cannot be made sense of at all, is `any` from then on (`isTooMuch`).
import { written } from "../../widgets/json.mjs";

const MAX_STEPS = 16; // references, and combinations in one another
const MAX_CHOICES = 500;
const MAX_WORK = 100_000;
const MAX_FILLED = 200; // members that a form begins with
const MAX_LABEL = 200; // characters of a title or a format
const COMBINED = ["properties", "patternProperties", "$defs", "definitions"];

const isObject = (value) => typeof value === "object" && value !== null && !Array.isArray(value);
const listed = (value) => (Array.isArray(value) ? value : []);

// --- what is asked, and how much it takes

const ANY = { kind: "any", schema: {}, nullable: false };
const tooMuch = new WeakSet(); // roots
let left = null; // of the work in this turn of the event loop

// Whether a schema takes too much for a form.
export const isTooMuch = (root) => tooMuch.has(root);

// The schema with what it refers to and what it combines in one object.
export const resolved = (schema, root) => answer(root, () => resolve(schema, root), {});

// How a value is put in: {kind, schema, nullable, ...}. `kind` is one of choice, alternatives, string, number,
// integer, boolean, array, object, map, any. A choice has `choices` [{value, label}], alternatives have `branches`.
export const control = (schema, root) => answer(root, () => controlOf(schema, root), ANY);

// The value that an item or a member begins with when somebody adds it.
export const blank = (schema, root) => answer(root, () => blankOf(schema, root), null);

// An object with the members that need no decision: constants that are required, and objects; of several forms
// the first, as the form shows it.
export const filled = (schema, root) => answer(root, () => fill(schema, root), {});

// The branch that a value is of, by its kind and its constants; -1 for none.
export const branchOf = (value, branches, root) => answer(root, () => branchAt(value, branches, root), -1);

// The kind of a value, for the one who puts it in: "integer, 1 to 100", "text", "list of text".
export const typeWords = (schema, root) => answer(root, () => wordsOf(schema, root), "JSON");

function answer(root, work, otherwise) {
  if (isTooMuch(root)) return otherwise;
  try {
    return work();
  } catch {
    tooMuch.add(root);
    return otherwise;
  }
}

function spend(work) {
  if (left === null) {
    left = MAX_WORK;
    queueMicrotask(() => (left = null));
  }
  left -= work;
  if (left < 0) throw new RangeError("this schema takes too much work");
}

// --- a schema

function resolve(schema, root, steps = MAX_STEPS) {
  if (!isObject(schema) || !steps) return {};
  spend(1);
  let found = schema;
  if (typeof schema.$ref === "string") {
    const { $ref, ...beside } = schema;
    found = merged(resolve(target($ref, root), root, steps - 1), beside);
  }
  const { allOf, ...own } = found;
  return listed(allOf).reduce((all, each) => merged(all, resolve(each, root, steps - 1)), own);
}

// What a reference leads to within the schema: `#`, or `#/$defs/Name`.
function target(reference, root) {
  if (!reference.startsWith("#")) return {};
  let at = root;
  for (const part of reference.slice(1).split("/").slice(1)) {
    let name = part;
    try {
      name = decodeURIComponent(part);
    } catch {
      // it is no escape, then
    }
    name = name.replaceAll("~1", "/").replaceAll("~0", "~");
    if (at === null || typeof at !== "object" || !Object.hasOwn(at, name)) return {};
    at = at[name];
  }
  return at;
}

function merged(one, other) {
  const both = { ...one, ...other };
  spend(sizeOf(one) + sizeOf(other));
  for (const name of COMBINED) spend(sizeOf(one[name]) + sizeOf(other[name]));
  for (const name of COMBINED) {
    if (isObject(one[name]) && isObject(other[name])) both[name] = { ...one[name], ...other[name] };
  }
  if (one.required && other.required) {
    both.required = [...new Set([...listed(one.required), ...listed(other.required)])];
  }
  if (one.allOf && other.allOf) both.allOf = [...listed(one.allOf), ...listed(other.allOf)];
  return both;
}

const sizeOf = (value) => (isObject(value) ? Object.keys(value).length : 0);

function controlOf(schema, root, steps = MAX_STEPS) {
  const found = resolve(schema, root);
  if (!steps) return { kind: "any", schema: found, nullable: false };
  if (Object.hasOwn(found, "const")) return { kind: "choice", schema: found, choices: [choice(found.const, found)] };
  const values = Array.isArray(found.enum) ? named(found) : null;
  if (values) return plainChoices(found, values);
  const branches = alternatives(found, root);
  if (branches) return combination(found, branches, root, steps);
  const types = Array.isArray(found.type) ? found.type : [found.type ?? implied(found)];
  const others = types.filter((each) => each !== "null");
  const nullable = others.length < types.length;
  if (others.length > 1) {
    return { kind: "alternatives", schema: found, nullable, branches: others.map((type) => ({ ...found, type })) };
  }
  return { kind: ofType(others[0] ?? "null", found), schema: found, nullable };
}

function ofType(type, schema) {
  if (type === "object" && isObject(schema.properties)) return "object";
  if (type === "object") return isObject(schema.additionalProperties) ? "map" : "any";
  return ["string", "number", "integer", "boolean", "array"].includes(type) ? type : "any";
}

function implied(schema) {
  if (isObject(schema.properties)) return "object";
  if (isObject(schema.items) || Array.isArray(schema.prefixItems)) return "array";
  if ("pattern" in schema || "maxLength" in schema || "minLength" in schema) return "string";
  return "minimum" in schema || "maximum" in schema ? "number" : "any";
}

const choice = (value, schema) => ({ value, label: label(schema.title) ?? shown(value).slice(0, MAX_LABEL) });
const label = (given) => (typeof given === "string" ? given.slice(0, MAX_LABEL) : undefined);

function named(schema) {
  const names = listed(schema.enumNames);
  spend(schema.enum.length);
  return schema.enum.map((value, index) => ({ value, label: label(names[index]) ?? shown(value).slice(0, MAX_LABEL) }));
}

function plainChoices(schema, values) {
  const choices = values.filter((each) => each.value !== null);
  if (choices.length > MAX_CHOICES) return { kind: "any", schema, nullable: choices.length < values.length };
  return { kind: "choice", schema, choices, nullable: choices.length < values.length };
}

// The branches of anyOf or oneOf, each with what holds for all of them; null for none that say more.
function alternatives(schema, root) {
  const word = ["anyOf", "oneOf"].find((each) => listed(schema[each]).length);
  if (!word) return null;
  const { [word]: given, ...base } = schema;
  const common = { ...base, title: undefined, description: undefined, default: undefined };
  const branches = given.map((each) => merged(common, resolve(each, root)));
  return given.every((each) => isObject(each) && onlyRequires(each)) ? null : branches;
}

const onlyRequires = (branch) => Object.keys(branch).every((name) => name === "required");

// Which members a schema wants at least one set of: of branches that only say what is required.
export function eitherRequired(schema) {
  const word = ["anyOf", "oneOf"].find((each) => listed(schema[each]).length);
  if (!word || !schema[word].every((each) => isObject(each) && onlyRequires(each))) return [];
  const names = (branch) => listed(branch.required).filter((name) => typeof name === "string");
  return schema[word].map((each) => names(each).join(" and ")).filter(Boolean);
}

function combination(schema, branches, root, steps) {
  const isNull = (each) => each.type === "null" || (Object.hasOwn(each, "const") && each.const === null);
  const others = branches.filter((each) => !isNull(each));
  const nullable = others.length < branches.length;
  const about = { title: schema.title, description: schema.description, default: schema.default };
  if (others.every((each) => Object.hasOwn(each, "const"))) {
    return { kind: "choice", schema, nullable, choices: others.map((each) => choice(each.const, each)) };
  }
  if (others.length === 1) {
    const inner = controlOf(others[0], root, steps - 1);
    const kept = Object.fromEntries(Object.entries(about).filter(([, value]) => value !== undefined));
    return { ...inner, schema: { ...inner.schema, ...kept }, nullable: nullable || inner.nullable };
  }
  return { kind: "alternatives", schema, nullable, branches: others };
}

// --- values

function blankOf(schema, root, steps = MAX_STEPS) {
  const { kind, schema: found, choices, branches } = controlOf(schema, root);
  if (found.default !== undefined && found.default !== null) return found.default;
  if (kind === "choice") return choices[0]?.value ?? null;
  if (kind === "alternatives") return steps ? blankOf(branches[0], root, steps - 1) : null;
  if (kind === "object") return fill(found, root);
  const least = typeof found.minimum === "number" ? found.minimum : 0;
  const plain = { string: "", boolean: false, array: [], map: {}, number: least, integer: least };
  return plain[kind] ?? (found.type === "object" ? {} : null);
}

function fill(schema, root, steps = MAX_STEPS, room = { left: MAX_FILLED }) {
  const found = resolve(schema, root);
  const members = [];
  for (const name of listed(found.required)) {
    if (!isObject(found.properties) || !Object.hasOwn(found.properties, name)) continue;
    const { kind, schema: inner, choices, branches } = controlOf(found.properties[name], root);
    const first = kind === "alternatives" ? controlOf(branches[0], root) : null;
    const held = kind === "object" ? inner : first?.kind === "object" ? first.schema : null;
    if (kind === "choice" && choices.length === 1) members.push([name, choices[0].value]);
    if (held && steps > 1 && room.left-- > 0) members.push([name, fill(held, root, steps - 1, room)]);
  }
  return Object.fromEntries(members);
}

function branchAt(value, branches, root, steps = MAX_STEPS) {
  return branches.findIndex((each) => fits(value, each, root, steps));
}

function fits(value, schema, root, steps) {
  const { kind, schema: found, choices, branches } = controlOf(schema, root);
  switch (kind) {
    case "choice": {
      const words = written(value);
      return choices.some((each) => written(each.value) === words);
    }
    case "alternatives":
      return steps > 0 && branchAt(value, branches, root, steps - 1) >= 0;
    case "object":
      return isObject(value) && hasConstants(value, found);
    case "map":
      return isObject(value);
    case "array":
      return Array.isArray(value);
    case "number":
      return typeof value === "number" || typeof value === "bigint";
    case "integer":
      return Number.isInteger(value) || typeof value === "bigint";
    case "any":
      return found.type === undefined || found.type === typeOf(value);
    default:
      return typeof value === kind;
  }
}

// Whether an object has the constants of a schema: those that it has to, and no other in their place.
function hasConstants(value, schema) {
  const required = new Set(listed(schema.required));
  return Object.entries(schema.properties).every(([name, each]) => {
    if (!isObject(each) || !Object.hasOwn(each, "const")) return true;
    return Object.hasOwn(value, name) ? value[name] === each.const : !required.has(name);
  });
}

const typeOf = (value) => (value === null ? "null" : Array.isArray(value) ? "array" : typeof value);

// --- words

// A value on one line.
export function shown(value) {
  return typeof value === "string" ? value : written(value);
}

function wordsOf(schema, root, steps = 4) {
  const { kind, schema: found, branches, nullable } = controlOf(schema, root);
  const inner = (each) => (steps ? wordsOf(each, root, steps - 1) : "value");
  const words = {
    string: label(found.format) || "text",
    choice: "choice",
    alternatives: () => [...new Set(branches.map(inner))].slice(0, 5).join(" or "),
    array: () => (isObject(found.items) ? `list of ${inner(found.items)}` : "list"),
    map: () => `names with ${inner(found.additionalProperties)}`,
    any: found.type === "object" ? "object" : "JSON",
  }[kind] ?? kind;
  const text = typeof words === "function" ? words() : words;
  return nullable ? `${text} or null` : text;
}

// What else holds for a value, in a few words each: "1 to 100", "at most 40 characters", "default 50".
export function limits(schema) {
  const number = (name) => (typeof schema[name] === "number" ? schema[name] : undefined);
  const said = [
    range(number("minimum"), number("maximum"), ""),
    number("exclusiveMinimum") !== undefined && `above ${number("exclusiveMinimum")}`,
    number("exclusiveMaximum") !== undefined && `below ${number("exclusiveMaximum")}`,
    number("multipleOf") !== undefined && `a multiple of ${number("multipleOf")}`,
    range(number("minLength"), number("maxLength"), " characters"),
    range(number("minItems"), number("maxItems"), " items"),
    schema.uniqueItems === true && "no item twice",
    typeof schema.pattern === "string" && `matches ${schema.pattern.slice(0, 120)}`,
    schema.default !== undefined && schema.default !== null && `default ${shown(schema.default).slice(0, 120)}`,
  ];
  return said.filter((each) => typeof each === "string" && each);
}

function range(least, most, unit) {
  if (least === undefined && most === undefined) return "";
  if (most === undefined) return least ? `at least ${least}${unit}` : "";
  return least === undefined ? `at most ${most}${unit}` : `${least} to ${most}${unit}`;
}

// The place of a member as the daemon's messages name it: `$.files[0].name`, `$['a b']`.
export function memberPath(path, name) {
  if (/^[a-zA-Z][a-zA-Z0-9_]*$/.test(name)) return `${path}.${name}`;
  return `${path}['${name.replaceAll("\\", "\\\\").replaceAll("'", "\\'")}']`;
}
