// A chart over time, tied to the axis that all of a recording's charts share.
import uPlot from "uplot";
import { cut, moment } from "../format";
import type { Mark } from "../page";
import type { Axis } from "./axis";
import { axis, haloed, handFont, kept } from "./base";
import { colour } from "./colours";
import type { Plot } from "./live";

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
  /** Whether the marks' texts are written into this chart. */
  labelled: boolean;
  /** Draws what uPlot does not, below the marks. */
  draw?: (u: uPlot) => void;
  /** The pointer is at a moment, or left. */
  cursor?: (u: uPlot, at: number | null) => void;
}

/** Draws it. */
export function timePlot(host: HTMLElement, spec: TimeSpec): Plot {
  const shared = spec.axis;
  const told = () => {
    host.dataset.from = shared.min.toFixed(6);
    host.dataset.to = shared.max.toFixed(6);
  };
  const plot = new uPlot(
    {
      width: host.clientWidth,
      height: spec.height,
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
  return kept(plot, spec.height, stop);
}

/** A tick of the time axis. */
function seconds(at: number): string {
  return `${Number(at.toFixed(4))} s`;
}

function drawMarks(u: uPlot, spec: TimeSpec): void {
  const { axis: shared, marks, labelled } = spec;
  marks.forEach((mark, i) => {
    const look = i === 0 ? "bad" : "faint-ink";
    drawMoment(u, mark.at_s, look, labelled ? cut(mark.says, 60) : "", i % 3, [4, 3]);
  });
  if (shared.pinned !== null) {
    const text = labelled ? `here: ${moment(shared.pinned)}` : "";
    drawMoment(u, shared.pinned, "accent", text, 3, []);
  }
}

function drawMoment(
  u: uPlot,
  at: number,
  look: string,
  text: string,
  row: number,
  dash: number[],
): void {
  const x = u.valToPos(at, "x", true);
  const { left, top, width, height } = u.bbox;
  if (!(x >= left && x <= left + width)) return;
  const { ctx } = u;
  const px = uPlot.pxRatio;
  ctx.save();
  ctx.strokeStyle = colour(look);
  ctx.fillStyle = colour(look);
  ctx.lineWidth = 1.5 * px;
  ctx.setLineDash(dash.map((d) => d * px));
  ctx.beginPath();
  ctx.moveTo(x, top);
  ctx.lineTo(x, top + height);
  ctx.stroke();
  if (text !== "") {
    ctx.setLineDash([]);
    handFont(ctx, 600);
    ctx.textBaseline = "top";
    const wide = ctx.measureText(text).width;
    const fits = x + 6 * px + wide < left + width;
    ctx.textAlign = fits || x - left < wide ? "left" : "right";
    haloed(
      ctx,
      text,
      ctx.textAlign === "left" ? x + 5 * px : x - 5 * px,
      top + (3 + 15 * row) * px,
    );
  }
  ctx.restore();
}
