// The colours of charts, from the page's style, so that light, dark and print are decided in one place.

/** Colours that those who see few colours can tell apart; how many `--c0` … there are. */
export const PALETTE = 8;

/** A colour of the style by its name. */
export function colour(name: string): string {
  return getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();
}

/** The i-th colour to tell things apart with, beginning again when they run out. */
export function series(i: number): string {
  return colour(`c${i % PALETTE}`);
}

/** A colour `#rrggbb` as numbers 0..255. */
export function rgb(hex: string): [number, number, number] {
  const value = Number.parseInt(hex.slice(1), 16);
  return [(value >> 16) & 255, (value >> 8) & 255, value & 255];
}

/** Where `share` (0..1) of the way from one colour `#rrggbb` to another is. */
export function between(from: string, to: string, share: number): string {
  const [a, b] = [rgb(from), rgb(to)];
  const mixed = a.map((value, i) => Math.round(value + ((b[i] ?? 0) - value) * share));
  return `rgb(${mixed.join(",")})`;
}
