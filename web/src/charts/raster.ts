// Draws many thousand lines and dots into pixels, and remembers in each pixel whose it is.

/** Nobody's pixel. */
export const NOBODY = -1;

/** A picture with, per pixel, the number of what was drawn there last. */
export class Raster {
  readonly image: ImageData;
  private readonly owner: Int32Array;

  /** In device pixels, filled with one colour. */
  constructor(
    readonly width: number,
    readonly height: number,
    [r, g, b]: [number, number, number],
  ) {
    this.image = new ImageData(width, height);
    const [filled] = new Uint32Array(Uint8Array.of(r, g, b, 255).buffer);
    new Uint32Array(this.image.data.buffer).fill(filled ?? 0);
    this.owner = new Int32Array(width * height).fill(NOBODY);
  }

  /** Who is nearest to a pixel, at most `reach` pixels away. */
  at(x: number, y: number, reach: number): number {
    let [best, nearest] = [NOBODY, (reach + 1) ** 2];
    for (let dy = -reach; dy <= reach; dy++) {
      for (let dx = -reach; dx <= reach; dx++) {
        const [px, py] = [Math.round(x) + dx, Math.round(y) + dy];
        if (px < 0 || py < 0 || px >= this.width || py >= this.height) continue;
        const who = this.owner[py * this.width + px] ?? NOBODY;
        const far = dx * dx + dy * dy;
        if (who !== NOBODY && far < nearest) [best, nearest] = [who, far];
      }
    }
    return best;
  }

  /** A round dot. */
  dot(x: number, y: number, radius: number, colour: Ink, who: number): void {
    if (!Number.isFinite(x + y)) return;
    for (let dy = Math.floor(-radius); dy <= radius; dy++) {
      for (let dx = Math.floor(-radius); dx <= radius; dx++) {
        const over = Math.hypot(dx, dy) - radius;
        if (over < 1)
          this.blend(Math.round(x) + dx, Math.round(y) + dy, colour, over > 0 ? 1 - over : 1, who);
      }
    }
  }

  /** A line, smooth at its edges unless the ink is rough; what lies outside is cut off. */
  line(
    x0: number,
    y0: number,
    x1: number,
    y1: number,
    colour: Ink,
    thick: number,
    who: number,
  ): void {
    const seen = clip(x0, y0, x1, y1, this.width - 1, this.height - 1);
    if (!seen) return;
    const [ax, ay, bx, by] = seen;
    const steep = Math.abs(by - ay) > Math.abs(bx - ax);
    // Along the longer side a pixel at a time, across it as many as the line is thick.
    let [from, to, other, end] = steep ? [ay, by, ax, bx] : [ax, bx, ay, by];
    if (from > to) [from, to, other, end] = [to, from, end, other];
    const slope = to > from ? (end - other) / (to - from) : 0;
    const first = Math.round(from);
    for (let along = first; along <= Math.round(to); along++) {
      const middle = other + slope * Math.min(Math.max(along - from, 0), to - from);
      const exact = middle - (thick - 1) / 2;
      const start = colour.rough ? Math.round(exact) : exact;
      const low = Math.floor(start);
      const part = start - low;
      for (let i = 0; i <= thick; i++) {
        const cover = i === 0 ? 1 - part : i === thick ? part : 1;
        if (cover < 0.02) continue;
        if (steep) this.blend(low + i, along, colour, cover, who);
        else this.blend(along, low + i, colour, cover, who);
      }
    }
  }

  private blend(x: number, y: number, { rgb, alpha }: Ink, cover: number, who: number): void {
    if (x < 0 || y < 0 || x >= this.width || y >= this.height) return;
    const pixel = y * this.width + x;
    const share = alpha * cover;
    const { data } = this.image;
    const red = pixel * 4;
    // Written out, for this is where the time of drawing goes.
    data[red] = (data[red] as number) + (rgb[0] - (data[red] as number)) * share;
    data[red + 1] = (data[red + 1] as number) + (rgb[1] - (data[red + 1] as number)) * share;
    data[red + 2] = (data[red + 2] as number) + (rgb[2] - (data[red + 2] as number)) * share;
    if (cover > 0.3) this.owner[pixel] = who;
  }
}

/** A colour and how much it covers, 0..1. */
export interface Ink {
  rgb: [number, number, number];
  alpha: number;
  /** Lines have hard edges: twice as fast. */
  rough?: boolean;
}

/** The part of a line that lies from 0 to `right` and 0 to `low`; null when none does. */
export function clip(
  x0: number,
  y0: number,
  x1: number,
  y1: number,
  right: number,
  low: number,
): [number, number, number, number] | null {
  if (!Number.isFinite(x0 + y0 + x1 + y1)) return null;
  let [from, to] = [0, 1];
  const [dx, dy] = [x1 - x0, y1 - y0];
  const sides: [number, number][] = [
    [-dx, x0],
    [dx, right - x0],
    [-dy, y0],
    [dy, low - y0],
  ];
  for (const [step, room] of sides) {
    if (step === 0 && room < 0) return null;
    if (step < 0) from = Math.max(from, room / step);
    if (step > 0) to = Math.min(to, room / step);
  }
  if (from > to) return null;
  return [x0 + from * dx, y0 + from * dy, x0 + to * dx, y0 + to * dy];
}
