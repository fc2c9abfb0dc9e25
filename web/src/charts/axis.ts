// The one time axis that charts share: what part of the recording is shown, and the moment marked in it.

/** The least that can be shown, as a share of the whole. */
const CLOSEST = 1 / 5000;

/** The part of a recording that all its time lines show, s. */
export class Axis {
  min = 0;
  max: number;
  /** A moment the reader asked for; null when none. */
  pinned: number | null = null;
  private readonly listeners = new Set<() => void>();

  /** `length`: of the recording, s. */
  constructor(
    readonly length: number,
    readonly key: string,
  ) {
    this.max = length;
  }

  /** Calls back whenever what is shown changes, until the function that is returned is called. */
  listen(listener: () => void): () => void {
    this.listeners.add(listener);
    return () => this.listeners.delete(listener);
  }

  /** Shows from `min` to `max`, kept within the recording. */
  show(min: number, max: number): void {
    const width = Math.min(Math.max(max - min, this.length * CLOSEST), this.length);
    const from = Math.min(Math.max(min, 0), this.length - width);
    this.min = from;
    this.max = from + width;
    this.tell();
  }

  /** Shows everything. */
  reset(): void {
    this.pinned = null;
    this.show(0, this.length);
  }

  /** Moves by a share of what is shown. */
  pan(share: number): void {
    const by = (this.max - this.min) * share;
    this.show(this.min + by, this.max + by);
  }

  /** Shows `factor` times as much around the middle, or around the marked moment. */
  zoom(factor: number): void {
    const inside = this.pinned !== null && this.pinned >= this.min && this.pinned <= this.max;
    const centre = inside && this.pinned !== null ? this.pinned : (this.min + this.max) / 2;
    const half = ((this.max - this.min) * factor) / 2;
    this.show(centre - half, centre + half);
  }

  /** Marks a moment and brings it into view. */
  pin(at: number): void {
    this.pinned = at;
    if (at >= this.min && at <= this.max) this.tell();
    else this.show(at - (this.max - this.min) / 2, at + (this.max - this.min) / 2);
  }

  private tell(): void {
    for (const listener of this.listeners) listener();
  }
}

/** What keys do to the axis: returns whether the key meant something. */
export function axisKey(axis: Axis, key: string): boolean {
  const does: Record<string, () => void> = {
    "+": () => axis.zoom(0.5),
    "=": () => axis.zoom(0.5),
    "-": () => axis.zoom(2),
    ArrowLeft: () => axis.pan(-0.25),
    ArrowRight: () => axis.pan(0.25),
    "0": () => axis.reset(),
  };
  does[key]?.();
  return key in does;
}
