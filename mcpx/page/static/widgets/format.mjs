// Numbers, sizes and times as words. Pure; each gives text, and "–" for what is not known.
export const NONE = "–";
const grouped = new Intl.NumberFormat("en", { maximumFractionDigits: 0 });
const clockTime = new Intl.DateTimeFormat("en-GB", { hour: "2-digit", minute: "2-digit", second: "2-digit" });
const shortTime = new Intl.DateTimeFormat("en-GB", { hour: "2-digit", minute: "2-digit" });
const dayAndTime = new Intl.DateTimeFormat("en-GB", { dateStyle: "medium", timeStyle: "medium" });
const MINUTE = 60;
const HOUR = 60 * MINUTE;
const DAY = 24 * HOUR;

const known = (value) => typeof value === "number" && Number.isFinite(value);
const trimmed = (value, digits) => minus(value.toFixed(digits).replace(/\.0+$/, ""));
const minus = (text) => text.replace("-", "−");

// 12,345
export const count = (value) => (known(value) ? minus(grouped.format(value)) : NONE);

// 950, 12.3k, 4.1M
export function short(value) {
  if (!known(value)) return NONE;
  const size = Math.abs(value);
  if (size < 10_000) return count(value);
  for (const [unit, letter] of [[1e12, "T"], [1e9, "B"], [1e6, "M"], [1e3, "k"]]) {
    if (size >= unit * 0.9995) return `${trimmed(value / unit, size < 100 * unit ? 1 : 0)}${letter}`;
  }
  return count(value);
}

// 0.42 ms, 12 ms, 1.3 s
export function ms(value) {
  if (!known(value)) return NONE;
  if (value < 1) return `${trimmed(value, 2)} ms`;
  if (value < 99.95) return `${trimmed(value, 1)} ms`;
  if (value < 999.5) return `${value.toFixed(0)} ms`;
  return value < 60_000 ? `${trimmed(value / 1000, 1)} s` : duration(value / 1000);
}

// 48 MB: in powers of 1024, as the memory of processes is counted
export function bytes(value) {
  if (!known(value)) return NONE;
  const units = ["B", "KB", "MB", "GB", "TB"];
  let at = 0;
  while (value >= 999.5 && at < units.length - 1) {
    value /= 1024;
    at += 1;
  }
  return `${trimmed(value, at && value < 9.95 ? 1 : 0)} ${units[at]}`;
}

// 0.031 as 3.1 %; what is too small for that as < 0.1 %, and a loss of more than all as < −100 %
export function share(value) {
  if (!known(value)) return NONE;
  const percent = value * 100;
  if (percent > 0 && percent < 0.05) return "< 0.1 %";
  if (percent < -100) return "< −100 %";
  return `${trimmed(percent, Math.abs(percent) < 9.95 ? 1 : 0)} %`;
}

// seconds as 3 d 4 h, 4 h 12 min, 5 min, 12 s
export function duration(seconds) {
  if (!known(seconds)) return NONE;
  const whole = Math.max(0, Math.floor(seconds));
  const pair = (large, its, small, unit) => {
    const rest = Math.floor((whole % its) / unit);
    return `${Math.floor(whole / its)} ${large}${rest ? ` ${rest} ${small}` : ""}`;
  };
  if (whole >= DAY) return pair("d", DAY, "h", HOUR);
  if (whole >= HOUR) return pair("h", HOUR, "min", MINUTE);
  return whole >= MINUTE ? `${Math.floor(whole / MINUTE)} min` : `${whole} s`;
}

// 14:03:22, 14:03, and a date with its time; of milliseconds since 1970
export const clock = (at) => (known(at) ? clockTime.format(at) : NONE);
export const minute = (at) => (known(at) ? shortTime.format(at) : NONE);
export const date = (at) => (known(at) ? dayAndTime.format(at) : NONE);

// "1 call", "2 calls"
export const counted = (value, one, many = `${one}s`) => `${count(value)} ${value === 1 ? one : many}`;

// The part of the tokens that was saved, below 0 where MCPX cost more; null where there is nothing to compare.
export const saved = (direct, spent) => (known(direct) && known(spent) && direct > 0 ? 1 - spent / direct : null);
