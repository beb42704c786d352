// JSON as text, and back: integers of any size stay as they are, and what would be too long is not laid out.
const INDENT = 2;
const MAX_LAID_OUT = 2_000_000; // characters of space: what is nested deeply can have a thousand times its own

export function written(value, indent) {
  const mark = `${String(Math.random()).slice(2)}n`; // stands around the number of an integer, in place of which it is put
  const integers = [];
  const text = JSON.stringify(
    value,
    (_name, each) => (typeof each === "bigint" ? `${mark}${integers.push(each) - 1}${mark}` : each),
    indent,
  );
  if (!integers.length) return text ?? "null";
  return text.replace(new RegExp(`"${mark}(\\d+)${mark}"`, "g"), (_all, index) => String(integers[index]));
}

// The same in lines, or in one line where that would be too much.
export const laidOut = (value) => written(value, isRoomy(value) ? INDENT : undefined);

function isRoomy(value) {
  const inside = [[value, 1]];
  let space = 0;
  while (inside.length && space <= MAX_LAID_OUT) {
    const [each, depth] = inside.pop();
    if (typeof each !== "object" || each === null) continue;
    for (const item of Object.values(each)) {
      space += depth * INDENT;
      inside.push([item, depth + 1]);
    }
  }
  return space <= MAX_LAID_OUT;
}

export function read(text) {
  return JSON.parse(text, (_name, value, context) => {
    const isInexact = typeof value === "number" && Number.isInteger(value) && !Number.isSafeInteger(value);
    return isInexact && /^-?\d+$/.test(context?.source ?? "") ? BigInt(context.source) : value;
  });
}
