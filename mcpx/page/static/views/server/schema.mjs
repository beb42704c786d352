// What a JSON Schema says of one value, for a form: which control, which choices, which members. Pure.
//
// A form need not say everything: the daemon checks the arguments, as `exec` does. What is too odd for a control
// is `any`, a field for JSON. References are followed as far as they are used, so a schema may be recursive.

const MAX_STEPS = 16; // references, and combinations in one another
const MAX_CHOICES = 500;
const MAX_BRANCHES = 200;
const MAX_FILLED = 200; // values that a form begins with: a schema may want itself again and again
const COMBINED = ["properties", "patternProperties", "$defs", "definitions"];

const isObject = (value) => typeof value === "object" && value !== null && !Array.isArray(value);
const listed = (value) => (Array.isArray(value) ? value : []);

// The schema with what it refers to and what it combines in one object.
export function resolved(schema, root, steps = MAX_STEPS) {
  if (!isObject(schema) || !steps) return {};
  let found = schema;
  if (typeof schema.$ref === "string") {
    const { $ref, ...beside } = schema;
    found = merged(resolved(target($ref, root), root, steps - 1), beside);
  }
  const { allOf, ...own } = found;
  return listed(allOf).reduce((all, each) => merged(all, resolved(each, root, steps - 1)), own);
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
  for (const name of COMBINED) if (isObject(one[name]) && isObject(other[name])) both[name] = { ...one[name],
    ...other[name] };
  if (one.required && other.required) both.required = [...new Set([...listed(one.required),
    ...listed(other.required)])];
  if (one.allOf && other.allOf) both.allOf = [...listed(one.allOf), ...listed(other.allOf)];
  return both;
}

// How a value is put in: {kind, schema, nullable, ...}. `kind` is one of choice, alternatives, string, number,
// integer, boolean, array, object, map, any. A choice has `choices` [{value, label}], alternatives have `branches`.
export function control(schema, root, steps = MAX_STEPS) {
  const found = resolved(schema, root);
  if (!steps) return { kind: "any", schema: {} };
  if (Object.hasOwn(found, "const")) return { kind: "choice", schema: found, choices: [choice(found.const, found)] };
  const values = Array.isArray(found.enum) ? named(found) : null;
  if (values) return plainChoices(found, values);
  const branches = alternatives(found, root);
  if (branches) return combination(found, branches, root, steps);
  const types = Array.isArray(found.type) ? found.type : [found.type ?? implied(found)];
  const others = types.filter((each) => each !== "null");
  const nullable = others.length < types.length;
  if (others.length > 1) return { kind: "alternatives", schema: found, nullable,
    branches: others.map((type) => ({ ...found, type })) };
  return { kind: ofType(others[0] ?? "null", found), schema: found, nullable };
}

function ofType(type, schema) {
  if (type === "object") return isObject(schema.properties) ? "object" : isObject(schema.additionalProperties) ? "map"
    : "any";
  return ["string", "number", "integer", "boolean", "array"].includes(type) ? type : "any";
}

function implied(schema) {
  if (isObject(schema.properties)) return "object";
  if (isObject(schema.items) || Array.isArray(schema.prefixItems)) return "array";
  if ("pattern" in schema || "maxLength" in schema || "minLength" in schema) return "string";
  return "minimum" in schema || "maximum" in schema ? "number" : "any";
}

const choice = (value, schema) => ({ value, label: String(schema.title ?? shown(value)) });

function named(schema) {
  const names = listed(schema.enumNames);
  return schema.enum.map((value, index) => ({ value, label: typeof names[index] === "string" ? names[index]
    : shown(value) }));
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
  const own = { ...base, title: undefined, description: undefined, default: undefined };
  const branches = given.slice(0, MAX_BRANCHES).map((each) => merged(own, resolved(each, root)));
  return given.every((each) => isObject(each) && onlyRequires(each)) ? null : branches;
}

const onlyRequires = (branch) => Object.keys(branch).every((name) => name === "required");

// Which members a schema wants at least one set of: of branches that only say what is required.
export function eitherRequired(schema) {
  const word = ["anyOf", "oneOf"].find((each) => listed(schema[each]).length);
  if (!word || !schema[word].every((each) => isObject(each) && onlyRequires(each))) return [];
  return schema[word].map((each) => listed(each.required).join(" and ")).filter(Boolean);
}

function combination(schema, branches, root, steps) {
  const others = branches.filter((each) => each.type !== "null" && !(Object.hasOwn(each, "const")
    && each.const === null));
  const nullable = others.length < branches.length;
  const about = { title: schema.title, description: schema.description, default: schema.default };
  if (others.every((each) => Object.hasOwn(each, "const"))) {
    return { kind: "choice", schema, nullable, choices: others.map((each) => choice(each.const, each)) };
  }
  if (others.length === 1) {
    const inner = control(others[0], root, steps - 1);
    const kept = Object.fromEntries(Object.entries(about).filter(([, value]) => value !== undefined));
    return { ...inner, schema: { ...inner.schema, ...kept }, nullable: nullable || inner.nullable };
  }
  return { kind: "alternatives", schema, nullable, branches: others };
}

// --- values

// The value that an item or a member begins with when somebody adds it.
export function blank(schema, root, room = { left: MAX_FILLED }) {
  const { kind, schema: found, choices, branches } = control(schema, root);
  if (found.default !== undefined && found.default !== null) return found.default;
  if (kind === "choice") return choices[0]?.value ?? null;
  if (kind === "alternatives") return branches.length && room.left-- > 0 ? blank(branches[0], root, room) : null;
  if (kind === "object") return filled(found, root, room);
  const plain = { string: "", boolean: false, array: [], map: {}, number: least(found), integer: least(found) };
  return plain[kind] ?? (found.type === "object" ? {} : null);
}

const least = (schema) => (typeof schema.minimum === "number" ? schema.minimum : 0);

// An object with the members that need no decision: constants that are required, and objects; of several forms
// the first, as the form shows it. What there is no `room` for is left out.
export function filled(schema, root, room = { left: MAX_FILLED }) {
  const found = resolved(schema, root);
  const value = {};
  if (!isObject(found.properties)) return value;
  for (const name of listed(found.required)) {
    if (!Object.hasOwn(found.properties, name) || room.left-- <= 0) continue;
    const { kind, schema: inner, choices, branches } = control(found.properties[name], root);
    const first = kind === "alternatives" && branches.length ? control(branches[0], root) : null;
    if (kind === "choice" && choices.length === 1) put(value, name, choices[0].value);
    if (kind === "object") put(value, name, filled(inner, root, room));
    if (first?.kind === "object") put(value, name, filled(first.schema, root, room));
  }
  return value;
}

// Sets a member, whatever its name: `__proto__` would set something else.
export function put(value, name, to) {
  Object.defineProperty(value, name, { value: to, writable: true, enumerable: true, configurable: true });
}

// The branch that a value is of, by its kind and its constants; -1 for none.
export function branchOf(value, branches, root, steps = 4) {
  return branches.findIndex((each) => fits(value, each, root, steps));
}

function fits(value, schema, root, steps) {
  if (!steps) return true;
  const { kind, schema: found, choices, branches } = control(schema, root);
  switch (kind) {
    case "choice":
      return choices.some((each) => JSON.stringify(each.value) === JSON.stringify(value));
    case "alternatives":
      return branchOf(value, branches, root, steps - 1) >= 0;
    case "object": {
      if (!isObject(value)) return false;
      const constants = Object.entries(found.properties).filter(([, each]) => isObject(each) && Object.hasOwn(each,
        "const"));
      return constants.every(([name, each]) => !(name in value) || value[name] === each.const)
        && listed(found.required).every((name) => name in value || !constants.some(([other]) => other === name));
    }
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

const typeOf = (value) => (value === null ? "null" : Array.isArray(value) ? "array" : typeof value);

// --- words

// A value on one line.
export function shown(value) {
  return typeof value === "string" ? value : written(value);
}

// The kind of a value, for the one who puts it in: "integer, 1 to 100", "text", "list of text".
export function typeWords(schema, root, steps = 4) {
  const { kind, schema: found, branches, nullable } = control(schema, root);
  const inner = (each) => (steps ? typeWords(each, root, steps - 1) : "value");
  const words = {
    string: found.format ? String(found.format) : "text",
    choice: "choice",
    alternatives: () => [...new Set(branches.slice(0, 5).map(inner))].join(" or "),
    array: () => (isObject(found.items) ? `list of ${inner(found.items)}` : "list"),
    map: () => `names with ${inner(found.additionalProperties)}`,
    any: found.type === "object" ? "object" : "JSON",
  }[kind] ?? kind;
  const text = typeof words === "function" ? words() : words;
  return nullable ? `${text} or null` : text;
}

// What else holds for a value, in a few words each: "1 to 100", "at most 40 characters", "default 50".
export function limits(schema) {
  const said = [
    range(schema.minimum, schema.maximum, ""),
    schema.exclusiveMinimum !== undefined && `above ${schema.exclusiveMinimum}`,
    schema.exclusiveMaximum !== undefined && `below ${schema.exclusiveMaximum}`,
    schema.multipleOf !== undefined && `a multiple of ${schema.multipleOf}`,
    range(schema.minLength, schema.maxLength, " characters"),
    range(schema.minItems, schema.maxItems, " items"),
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

// --- JSON in which integers of any size stay as they are

export function written(value, indent) {
  const mark = `${Math.random()}:`; // stands before the number of an integer, in place of which it is put
  const integers = [];
  const text = JSON.stringify(
    value,
    (_name, each) => (typeof each === "bigint" ? `${mark}${integers.push(each) - 1}` : each),
    indent,
  );
  return integers.reduce((all, each, index) => all.replace(`"${mark}${index}"`, String(each)), text ?? "null");
}

export function read(text) {
  return JSON.parse(text, (_name, value, context) => {
    const isInexact = typeof value === "number" && Number.isInteger(value) && !Number.isSafeInteger(value);
    return isInexact && /^-?\d+$/.test(context?.source ?? "") ? BigInt(context.source) : value;
  });
}

// The place of a member as the daemon's messages name it: `$.files[0].name`, `$['a b']`.
export function memberPath(path, name) {
  return /^[a-zA-Z][a-zA-Z0-9_]*$/.test(name) ? `${path}.${name}` : `${path}['${name.replaceAll("\\",
    "\\\\").replaceAll("'", "\\'")}']`;
}
