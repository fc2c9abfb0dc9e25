// A chart over time, tied to the axis that all of a recording's charts share.
import uPlot from "uplot";
import { cut, moment } from "../format";
import type { Mark } from "../page";
import type { Axis } from "./axis";
import { axis, kept } from "./base";
import { colour } from "./colours";
import { drawLabels, roomFor } from "./labels";
import type { Plot } from "./live";

/** At most as many rows of marks' texts are above the chart that has them. */
const MARK_ROWS = 3;

/** What is special about one chart. */
export interface TimeSpec {
  axis: Axis;
  /** Height, CSS pixels. */
  height: number;
  /** Times, s, then a list of values per line. */
  data: uPlot.AlignedData;
  lines: uPlot.Series[];
  /** The range of y. */
  range: uPlot.Range.Function;
  /** How y is labelled. */
  y: uPlot.Axis;
  /** Moments to draw through the chart. */
  marks: Mark[];
  /** Rows for the marks' texts above this chart; 0: it has none. */
  rows: number;
  /** Draws what uPlot does not, below the marks. */
  draw?: (u: uPlot) => void;
  /** The pointer is at a moment, or left. */
  cursor?: (u: uPlot, at: number | null) => void;
}

/** How high the chart is with the texts of its marks, CSS pixels. */
export function fullHeight(height: number, rows: number): number {
  return height + (rows > 0 ? roomFor(rows) : 0);
}

/** Rows that so many marks take; one more is for the moment that the reader asks for. */
export function rowsFor(marks: number): number {
  return Math.min(MARK_ROWS, marks + 1);
}

/** Draws it. */
export function timePlot(host: HTMLElement, spec: TimeSpec): Plot {
  const shared = spec.axis;
  const told = () => {
    host.dataset.from = shared.min.toFixed(6);
    host.dataset.to = shared.max.toFixed(6);
  };
  const full = fullHeight(spec.height, spec.rows);
  const plot = new uPlot(
    {
      width: host.clientWidth,
      height: full,
      ...(spec.rows > 0 ? { padding: [roomFor(spec.rows), null, null, null] } : {}),
      legend: { show: false },
      cursor: {
        drag: { x: true, y: false, setScale: false },
        points: { size: 6, show: spec.lines.length > 0 && spec.lines.length <= 8 },
        y: false,
        sync: {
          key: shared.key,
          setSeries: false,
          // Only the moment is shared: a drag is told through the axis.
          filters: { pub: (type) => type === "mousemove" || type === "mouseleave" },
        },
        bind: {
          dblclick: () => () => {
            shared.reset();
            return null;
          },
        },
      },
      scales: {
        x: { time: false, range: () => [shared.min, shared.max] },
        y: { range: spec.range },
      },
      series: [{}, ...spec.lines],
      axes: [axis({ values: (_u, at) => at.map(seconds), size: 28, space: 70 }), axis(spec.y)],
      hooks: {
        setSelect: [
          (u) => {
            if (u.select.width < 4) return;
            const from = u.posToVal(u.select.left, "x");
            const to = u.posToVal(u.select.left + u.select.width, "x");
            u.setSelect({ left: 0, top: 0, width: 0, height: 0 }, false);
            shared.show(from, to);
          },
        ],
        setCursor: [
          (u) => {
            const left = u.cursor.left ?? -1;
            spec.cursor?.(u, left < 0 ? null : u.posToVal(left, "x"));
          },
        ],
        drawClear: [(u) => drawBands(u, spec.marks)],
        draw: [
          (u) => {
            u.ctx.save();
            u.ctx.beginPath();
            u.ctx.rect(u.bbox.left, u.bbox.top, u.bbox.width, u.bbox.height);
            u.ctx.clip();
            spec.draw?.(u);
            u.ctx.restore();
            drawMarks(u, spec);
          },
        ],
      },
    },
    spec.data,
    host,
  );
  told();
  const stop = shared.listen(() => {
    plot.setScale("x", { min: shared.min, max: shared.max });
    plot.redraw(true, true);
    told();
  });
  return kept(plot, full, stop);
}

/** A tick of the time axis. */
function seconds(at: number): string {
  return `${Number(at.toFixed(4))} s`;
}

/** The stretches in which findings hold, behind everything, each in its finding's colour. */
function drawBands(u: uPlot, marks: Mark[]): void {
  u.ctx.save();
  u.ctx.beginPath();
  u.ctx.rect(u.bbox.left, u.bbox.top, u.bbox.width, u.bbox.height);
  u.ctx.clip();
  u.ctx.globalAlpha = 0.1;
  for (const mark of marks) {
    const [from, to] = [u.valToPos(mark.at_s, "x", true), u.valToPos(mark.to_s, "x", true)];
    u.ctx.fillStyle = colour(`f${mark.finding % 6}`);
    u.ctx.fillRect(from, u.bbox.top, Math.max(to - from, uPlot.pxRatio), u.bbox.height);
  }
  u.ctx.restore();
}

function drawMarks(u: uPlot, spec: TimeSpec): void {
  const { axis: shared, marks } = spec;
  const named = new Set<number>();
  const moments = marks.flatMap((mark) => {
    const look = `f${mark.finding % 6}`;
    // Of several stretches of a finding the first has its name.
    const text = named.has(mark.finding) ? "" : cut(`${mark.finding + 1} ${mark.says}`, 60);
    named.add(mark.finding);
    return [
      { at: mark.at_s, text, look, dash: [4, 3] },
      { at: mark.to_s, text: "", look, dash: [1, 4] },
    ];
  });
  if (shared.pinned !== null) {
    const text = `here: ${moment(shared.pinned)}`;
    moments.unshift({ at: shared.pinned, text, look: "accent", dash: [] });
  }
  const labels = moments
    .filter(({ at }) => at >= shared.min && at <= shared.max)
    .map(({ at, text, look, dash }) => ({
      x: u.valToPos(at, "x", true),
      foot: u.bbox.top + u.bbox.height,
      text: spec.rows > 0 ? text : "",
      look,
      stem: look,
      dash,
    }));
  drawLabels(u, labels, spec.rows);
}
