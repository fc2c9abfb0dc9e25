// Where a latency stands on an axis of classes: the scale of histogram and heat map is that of their bounds.
import { duration } from "../format";

/** The place of `ms` among classes with these upper bounds: 0 is the lower end of the first. */
export function placeOf(bounds: number[], ms: number): number {
  let i = bounds.findIndex((bound) => ms <= bound);
  if (i < 0) i = bounds.length - 1;
  const high = bounds[i] ?? 1;
  const low = i > 0 ? (bounds[i - 1] ?? 0) : 0;
  // Within a class, by the logarithm, as the bounds are; the first begins at 0 and has none.
  const share = low > 0 && high > low ? Math.log(ms / low) / Math.log(high / low) : ms / high;
  return i + Math.min(Math.max(share, 0), 1);
}

/** The powers of ten among the classes: their places and what is written there. */
export function decades(bounds: number[], room: number): { at: number; text: string }[] {
  const last = bounds.at(-1) ?? 0;
  const first = bounds.find((bound) => bound > 0) ?? 0;
  if (!(last > 0) || !(first > 0)) return [];
  const found: { at: number; text: string }[] = [];
  for (let power = Math.ceil(Math.log10(first)); 10 ** power <= last; power++) {
    found.push({ at: placeOf(bounds, 10 ** power), text: duration(10 ** power) });
  }
  const every = Math.max(1, Math.ceil(found.length / Math.max(room, 1)));
  return found.filter((_, i) => i % every === 0);
}

/** What a class holds, in words. */
export function classText(bounds: number[], i: number): string {
  const high = duration(bounds[i] ?? 0);
  return i === 0 ? `up to ${high}` : `${duration(bounds[i - 1] ?? 0)} to ${high}`;
}
