// What all charts have in common: fonts, axes and grid, and living with the page's theme and width.
import uPlot from "uplot";
import { colour } from "./colours";
import type { Plot } from "./live";

/** The font of a chart's texts. */
export function font(): string {
  return `11px ${getComputedStyle(document.body).fontFamily}`;
}

/** An axis in the page's style. */
export function axis(more: uPlot.Axis): uPlot.Axis {
  return {
    stroke: () => colour("faint-ink"),
    font: font(),
    grid: { stroke: () => colour("grid"), width: 1 },
    ticks: { stroke: () => colour("grid"), width: 1, size: 4 },
    ...more,
  };
}

/** From zero to a little above the most; the whole hundred for percent. */
export function fromZero(unit: string): uPlot.Range.Function {
  return (_u, _min, max) => {
    if (unit === "%" && max <= 100) return [0, 100];
    return [0, max > 0 && Number.isFinite(max) ? max * 1.08 : 1];
  };
}

/** A chart of uPlot as the page's charts are kept. */
export function kept(plot: uPlot, height: number, also?: () => void): Plot {
  return {
    redraw: () => plot.redraw(false, true),
    resize: (width) => plot.setSize({ width, height }),
    destroy: () => {
      also?.();
      plot.destroy();
    },
  };
}

/** Writes text that can be read on anything: with a rim in the page's colour. */
export function haloed(ctx: CanvasRenderingContext2D, text: string, x: number, y: number): void {
  ctx.lineJoin = "round";
  ctx.lineWidth = 3 * uPlot.pxRatio;
  ctx.strokeStyle = colour("page");
  ctx.strokeText(text, x, y);
  ctx.fillText(text, x, y);
}

/** Sets the font for drawing by hand, whose pixels are the device's. */
export function handFont(ctx: CanvasRenderingContext2D, weight = 400): void {
  const family = getComputedStyle(document.body).fontFamily;
  ctx.font = `${weight} ${Math.round(11 * uPlot.pxRatio)}px ${family}`;
}
