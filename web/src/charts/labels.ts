// Texts above a chart that do not cover each other, each with a stem down to what it names.
import uPlot from "uplot";
import { cut } from "../format";
import { haloed, handFont } from "./base";
import { colour } from "./colours";

/** Height of a row of texts, CSS pixels. */
const ROW = 15;

/** Something to be named. */
export interface Label {
  /** Where, device pixels. */
  x: number;
  /** How far down its stem goes, device pixels. */
  foot: number;
  text: string;
  /** Name of its colour in the style. */
  look: string;
  /** Name of the colour of its stem. */
  stem: string;
  dash: number[];
}

/** Room that `rows` of texts take above a chart, CSS pixels. */
export function roomFor(rows: number): number {
  return rows * ROW + 4;
}

/** Draws stems and, in the rows above the plot, the texts that have room; what has none keeps its stem. */
export function drawLabels(u: uPlot, labels: Label[], rows: number): void {
  const px = uPlot.pxRatio;
  const { ctx } = u;
  const [start, end] = [u.bbox.left, u.bbox.left + u.bbox.width];
  const top = u.bbox.top - roomFor(rows) * px;
  const taken: [number, number][][] = Array.from({ length: rows }, () => []);
  ctx.save();
  handFont(ctx, 600);
  ctx.textBaseline = "top";
  ctx.textAlign = "left";
  const placed = labels.map((label) => {
    const text = fitted(ctx, label.text, Math.max(end - label.x, label.x - start) - 6 * px);
    const wide = ctx.measureText(text).width;
    const right = label.x + 4 * px + wide <= end;
    const left = right ? label.x + 4 * px : Math.max(start, label.x - 4 * px - wide);
    const row = taken.findIndex((row) => {
      return row.every(([from, to]) => left > to || left + wide < from);
    });
    const fits = text !== "" && row >= 0 && left + wide <= end;
    if (fits) taken[row]?.push([left - 8 * px, left + wide + 8 * px]);
    return { ...label, text, left, y: fits ? top + row * ROW * px : u.bbox.top, fits };
  });
  ctx.lineWidth = 1.3 * px;
  for (const label of placed) {
    ctx.strokeStyle = colour(label.stem);
    ctx.setLineDash(label.dash.map((d) => d * px));
    ctx.beginPath();
    ctx.moveTo(label.x, label.y);
    ctx.lineTo(label.x, label.foot);
    ctx.stroke();
  }
  ctx.setLineDash([]);
  for (const label of placed) {
    if (!label.fits) continue;
    ctx.fillStyle = colour(label.look);
    haloed(ctx, label.text, label.left, label.y);
  }
  ctx.restore();
}

/** A text as long as there is room for it, with the cut to be seen. */
function fitted(ctx: CanvasRenderingContext2D, text: string, room: number): string {
  if (ctx.measureText(text).width <= room) return text;
  for (let length = Math.min(text.length, 80) - 1; length >= 4; length--) {
    const shorter = cut(text, length);
    if (ctx.measureText(shorter).width <= room) return shorter;
  }
  return "";
}
