// How numbers are written: three significant digits, thousands grouped, always with their unit.

const grouped = new Intl.NumberFormat("en-US", { maximumSignificantDigits: 3 });
const whole = new Intl.NumberFormat("en-US", { maximumFractionDigits: 0 });

/** A number; whole ones from 1,000 up are not rounded. */
export function number(value: number): string {
  if (!Number.isFinite(value)) return "none";
  return Math.abs(value) >= 1000 ? whole.format(value) : grouped.format(value);
}

/** A count of things, in words: `1 socket`, `2,000 sockets`. */
export function plural(count: number, one: string, many = `${one}s`): string {
  return `${number(count)} ${count === 1 ? one : many}`;
}

/** A share of 1 in percent. */
export function percent(share: number): string {
  return `${grouped.format(share * 100)} %`;
}

/** A length of time given in ms, in the unit that reads best. */
export function duration(ms: number): string {
  if (!Number.isFinite(ms)) return "unknown";
  const size = Math.abs(ms);
  if (size === 0) return "0 ms";
  if (size < 0.001) return `${grouped.format(ms * 1e6)} ns`;
  if (size < 1) return `${grouped.format(ms * 1000)} µs`;
  if (size < 1000) return `${grouped.format(ms)} ms`;
  return `${number(ms / 1000)} s`;
}

/** A moment in s since the start. */
export function moment(seconds: number): string {
  if (!Number.isFinite(seconds)) return "unknown";
  return `${seconds.toFixed(Math.abs(seconds) < 1000 ? 3 : 1)} s`;
}

const STEPS: [number, string][] = [
  [1e12, "T"],
  [1e9, "G"],
  [1e6, "M"],
  [1e4, "k"],
];

/** A number short enough for an axis. */
export function short(value: number): string {
  for (const [step, letter] of STEPS) {
    const size = step === 1e4 ? 1e3 : step;
    if (Math.abs(value) >= step) return `${grouped.format(value / size)} ${letter}`;
  }
  return number(value);
}

/** A value with its unit; times are told in the unit that reads best. */
export function withUnit(value: number, unit: string): string {
  if (!Number.isFinite(value)) return "none";
  if (unit === "ms") return duration(value);
  if (unit === "s") return duration(value * 1000);
  if (unit === "µs" || unit === "us") return duration(value / 1000);
  const text = Math.abs(value) >= 1e6 ? short(value) : number(value);
  return unit === "" ? text : `${text} ${unit}`;
}

/** A moment of the world's clock, in UTC. */
export function clock(unixMs: number): string {
  const date = new Date(unixMs);
  if (Number.isNaN(date.getTime())) return "unknown";
  return `${date.toISOString().slice(0, 19).replace("T", " ")} UTC`;
}

/** From when to when, by the reader's clock and with his zone. */
export function localWindow(unixMs: number, lengthS: number): string {
  const [from, to] = [new Date(unixMs), new Date(unixMs + lengthS * 1000)];
  if (Number.isNaN(from.getTime()) || Number.isNaN(to.getTime())) return "unknown";
  const two = (n: number) => String(n).padStart(2, "0");
  const day = (d: Date) => `${d.getFullYear()}-${two(d.getMonth() + 1)}-${two(d.getDate())}`;
  const time = (d: Date) => `${two(d.getHours())}:${two(d.getMinutes())}:${two(d.getSeconds())}`;
  const ends = day(from) === day(to) ? time(to) : `${day(to)} ${time(to)}`;
  const minutes = -from.getTimezoneOffset();
  const [hours, rest] = [Math.floor(Math.abs(minutes) / 60), Math.abs(minutes) % 60];
  const zone = `UTC${minutes === 0 ? "" : `${minutes < 0 ? "−" : "+"}${hours}${rest ? `:${two(rest)}` : ""}`}`;
  return `${day(from)} ${time(from)} to ${ends} ${zone} (${duration(lengthS * 1000)})`;
}

/** A text cut to `length` characters, with the cut to be seen. */
export function cut(text: string, length: number): string {
  const characters = Array.from(text);
  return characters.length <= length ? text : `${characters.slice(0, length - 1).join("")}…`;
}
