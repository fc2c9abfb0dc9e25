// What the socket explorer works on: samples unpacked, filtered, grouped by an attribute.
import { PALETTE } from "./charts/colours";
import type { Socket, Sockets } from "./page";

/** Sockets with their samples unpacked. */
export interface Samples {
  time: Float64Array;
  /** Per measure, as long as `time`. */
  values: Float64Array[];
}

/** A value of the attribute by which sockets are coloured. */
export interface Group {
  value: string;
  count: number;
  /** Name of its colour in the style. */
  colour: string;
}

/** Where a socket's samples are, kept within what there is. */
export function samplesOf(socket: Socket, length: number): [number, number] {
  const from = Math.min(socket.first, length);
  return [from, Math.min(from + socket.count, length)];
}

/** Numbers of the sockets that match every word: a part of the name or of an attribute, or `attribute=value`. */
export function filterSockets(all: Sockets, text: string): number[] {
  const words = text
    .toLowerCase()
    .split(/\s+/)
    .filter((word) => word !== "");
  const tests = words.map((word) => test(all.attributes, word));
  const found: number[] = [];
  all.sockets.forEach((socket, i) => {
    if (tests.every((matches) => matches(socket))) found.push(i);
  });
  return found;
}

function test(attributes: string[], word: string): (socket: Socket) => boolean {
  const equals = word.indexOf("=");
  const attribute = attributes.findIndex((name) => {
    return name.toLowerCase().replaceAll(" ", "") === word.slice(0, equals);
  });
  if (equals > 0 && attribute >= 0) {
    const value = word.slice(equals + 1);
    return (socket) => (socket.attributes[attribute] ?? "").toLowerCase() === value;
  }
  return (socket) =>
    socket.name.toLowerCase().includes(word) ||
    socket.attributes.some((value) => value.toLowerCase().includes(word));
}

/** The values of an attribute, the most frequent first; more than there are colours share a grey. */
export function groups(all: Sockets, attribute: number): Group[] {
  const counts = new Map<string, number>();
  for (const socket of all.sockets) {
    const value = socket.attributes[attribute] ?? "";
    counts.set(value, (counts.get(value) ?? 0) + 1);
  }
  const sorted = [...counts].sort(([a, n], [b, m]) => m - n || (a < b ? -1 : 1));
  return sorted.map(([value, count], i) => ({
    value,
    count,
    colour: i < PALETTE ? `c${i}` : "faint-ink",
  }));
}

/** The last value that a socket has of a measure; NaN when it has none. */
export function lastValue(socket: Socket, values: Float64Array): number {
  const [from, to] = samplesOf(socket, values.length);
  for (let i = to - 1; i >= from; i--) {
    const value = values[i] ?? Number.NaN;
    if (!Number.isNaN(value)) return value;
  }
  return Number.NaN;
}

/** What makes a socket bad, the worst of it first. */
const BAD = ["retransmitted", "rtt", "queue"];

/** Sockets from the worst to the best: outliers, then by what was retransmitted, round trips, queues. */
export function worst(all: Sockets, samples: Samples, shown: number[]): number[] {
  const measures = BAD.flatMap((word) => {
    return all.measures.flatMap((measure, m) => (measure.name.includes(word) ? [m] : []));
  });
  const most = (i: number, m: number) => {
    const [socket, values] = [all.sockets[i], samples.values[m]];
    if (!socket || !values) return Number.NEGATIVE_INFINITY;
    const [from, to] = samplesOf(socket, values.length);
    let top = Number.NEGATIVE_INFINITY;
    for (let at = from; at < to; at++) top = Math.max(top, values[at] || 0);
    return top;
  };
  const keys = new Map(
    shown.map((i) => [i, [Number(all.sockets[i]?.outlier), ...measures.map((m) => most(i, m))]]),
  );
  return [...shown].sort((a, b) => {
    const [left, right] = [keys.get(a) ?? [], keys.get(b) ?? []];
    const differs = left.findIndex((value, k) => value !== right[k]);
    return differs < 0 ? a - b : (right[differs] ?? 0) - (left[differs] ?? 0);
  });
}
