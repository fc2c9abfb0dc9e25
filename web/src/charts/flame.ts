// A flame graph: drawn, searched, zoomed, and walked with the keyboard.
import flamegraph, { type FlameTip, type Frame } from "d3-flame-graph";
import { select } from "d3-selection";
import { percent, withUnit } from "../format";
import type { Flame, Node } from "../page";
import { between, colour } from "./colours";
import type { Plot } from "./live";
import { hideTip, showTip } from "./tip";

/** Frames narrower than this are not drawn, CSS pixels. */
const NARROW = 0.4;

/** Height of a function, CSS pixels. */
const CELL = 19;
/** Room that the library leaves for a title and that is not needed, CSS pixels. */
const TITLE = 2 * CELL;

/** A flame graph in the page. */
export interface Graph extends Plot {
  /** Marks the functions that have `term` in their name; tells the share of the whole they are in. */
  search(term: string): { share: number; functions: number } | null;
  /** Shows the whole again. */
  reset(): void;
  /** What a key does; returns whether it meant something. */
  key(key: string): boolean;
}

/** Draws `flame`; `at` is told the frame that is zoomed to or walked to. */
export function drawFlame(host: HTMLElement, flame: Flame, at: (text: string) => void): Graph {
  const differs = hasDelta(flame.root);
  const largest = differs ? largestDelta(flame.root) : 0;
  let term = "";
  let found: { share: number; functions: number } | null = null;
  let current: Frame | null = null;
  const total = Math.max(flame.root.value, Number.MIN_VALUE);
  const tell = (frame: Frame) => about(frame, total, flame.unit, differs);

  const tip: FlameTip = Object.assign(() => {}, {
    show: (event: MouseEvent, frame: Frame) => showTip(event, tell(frame)),
    hide: hideTip,
  });
  const graph = flamegraph()
    .width(host.clientWidth)
    .cellHeight(CELL)
    .minFrameSize(NARROW)
    .transitionDuration(0)
    // Callers on top: a single deep stack then leaves the broad ones in view.
    .inverted(true)
    .tooltip(tip)
    .label((frame) => tell(frame).join(", "))
    .getName((frame) => frame.data.name)
    .setColorMapper((frame) => fill(frame, differs, largest))
    .setSearchMatch((frame, text) => frame.data.name.toLowerCase().includes(text))
    .setSearchHandler((frames, sum, whole) => {
      const names = new Set(frames.map((frame) => frame.data.name));
      found = { share: whole > 0 ? sum / whole : 0, functions: names.size };
    })
    .onClick((frame) => walkTo(frame));
  // The library marks what is hidden in the data it is given, so it is given its own.
  const root = select<HTMLElement, Node>(host).datum(structuredClone(flame.root));
  graph(root as Parameters<typeof graph>[0]);
  const whole = root.datum() as unknown as Frame;
  fitSvg(host);

  function walkTo(frame: Frame): void {
    current = frame;
    select(host)
      .selectAll<SVGGElement, Frame>("g.frame")
      .classed("at", (other) => other === frame);
    at(tell(frame).join(", "));
  }
  function zoom(frame: Frame): void {
    graph.zoomTo(frame);
    walkTo(frame);
  }
  function step(key: string): Frame | null {
    if (!current) return whole;
    const siblings = current.parent?.children ?? [current];
    const visible = siblings.filter((frame) => frame.x1 > frame.x0);
    visible.sort((a, b) => a.x0 - b.x0);
    const place = visible.indexOf(current);
    if (key === "ArrowUp") return current.parent;
    if (key === "ArrowDown") return widest(current.children ?? []);
    return visible[place + (key === "ArrowRight" ? 1 : -1)] ?? null;
  }

  return {
    redraw: () => graph.update(),
    resize: (width) => {
      graph.width(width).update();
      fitSvg(host);
    },
    destroy: () => {
      hideTip();
      graph.destroy();
    },
    search: (text) => {
      term = text.trim().toLowerCase();
      found = null;
      if (term === "") graph.clear();
      else graph.search(term);
      return found;
    },
    reset: () => {
      graph.resetZoom();
      walkTo(whole);
    },
    key: (key) => {
      if (key.startsWith("Arrow")) {
        const to = step(key);
        if (to) walkTo(to);
      } else if (key === "Enter" && current) zoom(current);
      else if (key === "Escape" || key === "0") {
        graph.resetZoom();
        walkTo(whole);
      } else return false;
      return true;
    },
  };
}

/** Takes away the room the library leaves for a title, and lets the picture shrink on paper. */
function fitSvg(host: HTMLElement): void {
  const svg = host.querySelector("svg");
  if (!svg) return;
  const [width, height] = [svg.getAttribute("width"), Number(svg.getAttribute("height"))];
  svg.setAttribute("viewBox", `0 0 ${width} ${height - TITLE}`);
  svg.style.aspectRatio = `${width} / ${height - TITLE}`;
  svg.setAttribute("aria-hidden", "true");
}

function widest(frames: Frame[]): Frame | null {
  const wider = (a: Frame, b: Frame) => (b.x1 - b.x0 > a.x1 - a.x0 ? b : a);
  return frames.length > 0 ? frames.reduce(wider) : null;
}

/** What a frame is, line by line. */
function about(frame: Frame, total: number, unit: string, differs: boolean): string[] {
  const { name, value, delta } = frame.data;
  const lines = [name, `${withUnit(value, unit)}, ${percent(value / total)} of the whole`];
  if (differs && delta !== undefined) {
    const points = `${Math.abs(delta * 100).toFixed(2)} points`;
    lines.push(
      delta > 0 ? `grew by ${points}` : delta < 0 ? `shrank by ${points}` : "did not change",
    );
  }
  return lines;
}

function fill(frame: Frame, differs: boolean, largest: number): string {
  if (frame.highlight) return colour("flame-found");
  if (differs) {
    const share = (frame.data.delta ?? 0) / (largest || 1);
    const strong = Math.sqrt(Math.abs(share));
    return between(colour("flame-same"), colour(share > 0 ? "flame-grew" : "flame-shrank"), strong);
  }
  const kernel = frame.data.name.endsWith("_[k]");
  const kind = kernel ? "kernel" : "user";
  return between(colour(`flame-${kind}-0`), colour(`flame-${kind}-1`), hash(frame.data.name));
}

/** A number 0..1 that is the same for the same name. */
function hash(name: string): number {
  let value = 7;
  for (let i = 0; i < name.length; i++) value = (value * 31 + name.charCodeAt(i)) % 1009;
  return value / 1009;
}

function* nodes(root: Node): Generator<Node> {
  const stack = [root];
  for (let node = stack.pop(); node; node = stack.pop()) {
    yield node;
    for (const child of node.children ?? []) stack.push(child);
  }
}

/** Whether a graph compares two recordings. */
export function hasDelta(root: Node): boolean {
  for (const node of nodes(root)) if (node.delta !== undefined) return true;
  return false;
}

function largestDelta(root: Node): number {
  let most = 0;
  for (const node of nodes(root)) most = Math.max(most, Math.abs(node.delta ?? 0));
  return most;
}
