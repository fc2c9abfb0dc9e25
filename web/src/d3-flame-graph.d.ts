// What of d3-flame-graph the page uses: it ships no types.
declare module "d3-flame-graph" {
  import type { Selection } from "d3-selection";
  import type { Node } from "./page";

  /** A frame of the graph. */
  export interface Frame {
    data: Node;
    parent: Frame | null;
    children?: Frame[];
    depth: number;
    highlight?: boolean;
    x0: number;
    x1: number;
  }

  /** A flame graph that is drawn by calling it with a selection. */
  export interface FlameGraph {
    (selection: Selection<HTMLElement, Node, null, undefined>): void;
    width(width: number): FlameGraph;
    cellHeight(height: number): FlameGraph;
    minFrameSize(pixels: number): FlameGraph;
    transitionDuration(ms: number): FlameGraph;
    inverted(inverted: boolean): FlameGraph;
    label(label: (frame: Frame) => string): FlameGraph;
    getName(name: (frame: Frame) => string): FlameGraph;
    onClick(click: (frame: Frame) => void): FlameGraph;
    setColorMapper(mapper: (frame: Frame) => string): FlameGraph;
    setSearchMatch(match: (frame: Frame, term: string) => boolean): FlameGraph;
    setSearchHandler(handler: (found: Frame[], sum: number, total: number) => void): FlameGraph;
    tooltip(tip: FlameTip): FlameGraph;
    search(term: string): void;
    clear(): void;
    zoomTo(frame: Frame): void;
    resetZoom(): void;
    update(): void;
    destroy(): void;
  }

  /** What shows what the pointer is on. */
  export interface FlameTip {
    (svg: unknown): void;
    show(event: MouseEvent, frame: Frame): void;
    hide(): void;
  }

  export default function flamegraph(): FlameGraph;
}
