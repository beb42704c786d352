// A TypeScript type in lines: the daemon writes types on one line, as a model gets them. Pure.
//
// One that is longer than anybody reads, as a hostile server has them, stays on its line; and so does what is
// nested more deeply than that in any.
const WIDTH = 84;
const MAX_CHARS = 200_000;
const MAX_DEPTH = 32;
const OPEN = { "{": "}", "(": ")", "[": "]", "<": ">" };

// The same type, with the members of what is too long for a line on lines of their own.
export function laidOut(type) {
  if (type.length > MAX_CHARS) return type;
  const parts = splitTop(type, " where ");
  const [main, ...named] = parts.length > 1 ? [parts[0], ...splitTop(parts.slice(1).join(" where "), "; ")] : parts;
  const lines = [block(main, 0), ...named.map((each) => `type ${block(each, 0)}`)];
  return lines.join("\n\n");
}

function block(text, depth) {
  const indent = "  ".repeat(depth);
  const done = [];
  let rest = text;
  while (rest.length + indent.length > WIDTH && depth < MAX_DEPTH) {
    const at = firstBrace(rest);
    const end = at < 0 ? -1 : closing(rest, at);
    if (end < 0) break;
    const members = splitTop(rest.slice(at + 1, end), ", ").map((each) => `${indent}  ${block(each, depth + 1)}`);
    done.push(`${rest.slice(0, at)}{\n${members.join(",\n")}\n${indent}}`);
    rest = rest.slice(end + 1);
  }
  return done.join("") + rest;
}

function firstBrace(text) {
  for (let at = 0; at < text.length; at = next(text, at)) if (text[at] === "{") return at;
  return -1;
}

function closing(text, at) {
  let depth = 0;
  for (let here = at; here < text.length; here = next(text, here)) {
    if (text[here] === "{") depth += 1;
    if (text[here] === "}") depth -= 1;
    if (!depth) return here;
  }
  return -1;
}

// The parts between separators that stand in no brackets, texts or comments.
function splitTop(text, separator) {
  const parts = [];
  let depth = 0;
  let from = 0;
  for (let at = 0; at < text.length; at = next(text, at)) {
    if (text[at] in OPEN) depth += 1;
    else if (depth && Object.values(OPEN).includes(text[at])) depth -= 1;
    else if (!depth && text.startsWith(separator, at)) {
      parts.push(text.slice(from, at));
      from = at + separator.length;
      at = from - 1;
    }
  }
  return [...parts, text.slice(from)];
}

// The place behind what begins here: a text or a comment is passed over as a whole.
function next(text, at) {
  if (text[at] === "'") {
    let end = at + 1;
    while (end < text.length && text[end] !== "'") end += text[end] === "\\" ? 2 : 1;
    return end + 1;
  }
  if (text.startsWith("/*", at)) {
    const end = text.indexOf("*/", at + 2);
    return end < 0 ? text.length : end + 2;
  }
  return at + 1;
}
