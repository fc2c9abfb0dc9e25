// When charts are drawn: as they come into view, again when width or theme change, all for print.

/** Something that was drawn into an element. */
export interface Plot {
  /** Draws again: the colours are others. */
  redraw(): void;
  /** Draws for another width, CSS pixels. */
  resize(width: number): void;
  /** Takes it out of the page. */
  destroy(): void;
}

/** Draws into an element. */
export type Draw = (host: HTMLElement) => Plot;

/** What fits a printed page of A4 or Letter, CSS pixels. */
const PRINT_WIDTH = 680;

class Place {
  plot: Plot | null = null;
  private width = 0;

  constructor(
    readonly host: HTMLElement,
    private readonly draw: Draw,
  ) {}

  now(): void {
    if (this.host.dataset.drawn) return;
    this.width = this.host.clientWidth;
    this.host.dataset.drawn = "1";
    try {
      this.plot = this.draw(this.host);
    } catch (error) {
      console.error(error);
      this.host.textContent = `This cannot be drawn: ${error instanceof Error ? error.message : error}.`;
    }
  }

  fit(width: number): void {
    if (!this.plot || width === this.width || width === 0) return;
    this.width = width;
    this.plot.resize(width);
  }
}

const places = new Map<Element, Place>();

const seen = new IntersectionObserver(
  (entries) => {
    for (const entry of entries) if (entry.isIntersecting) places.get(entry.target)?.now();
  },
  { rootMargin: "400px" },
);

const sized = new ResizeObserver((entries) => {
  if (printing) return;
  for (const entry of entries) places.get(entry.target)?.fit(entry.target.clientWidth);
});

/** Draws into `host` when it comes into view; the function that is returned takes it away. */
export function place(host: HTMLElement, draw: Draw): () => void {
  const made = new Place(host, draw);
  places.set(host, made);
  seen.observe(host);
  sized.observe(host);
  return () => {
    seen.unobserve(host);
    sized.unobserve(host);
    places.delete(host);
    made.plot?.destroy();
    delete host.dataset.drawn;
  };
}

/** Draws everything again, in the colours of now. */
export function redrawAll(): void {
  for (const each of places.values()) each.plot?.redraw();
}

let printing = false;

/** Draws what was not drawn yet, light and as wide as paper, and opens what is closed; or goes back to the screen. */
export function forPrint(print: boolean): void {
  if (printing === print) return;
  printing = print;
  document.documentElement.classList.toggle("printing", print);
  for (const details of document.querySelectorAll("details")) {
    if (print && !details.open) details.dataset.shut = "1";
    if (print) details.open = true;
    else if (details.dataset.shut) {
      details.open = false;
      delete details.dataset.shut;
    }
  }
  for (const each of places.values()) {
    each.now();
    each.fit(print ? Math.min(PRINT_WIDTH, each.host.clientWidth) : each.host.clientWidth);
    each.plot?.redraw();
  }
}

/** Listens for printing, of the browser's menu as of a program. */
export function watchPrint(): void {
  window.addEventListener("beforeprint", () => forPrint(true));
  window.addEventListener("afterprint", () => forPrint(false));
  const media = window.matchMedia("print");
  media.addEventListener("change", () => forPrint(media.matches));
}
