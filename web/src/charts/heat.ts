// The heat map of latencies: how many connections took how long, when.
import { duration, moment, plural } from "../format";
import type { Latency, Timelines } from "../page";
import type { Axis } from "./axis";
import { classText, decades } from "./classes";
import { between, colour } from "./colours";
import type { Draw } from "./live";
import { timePlot } from "./time";
import { hideTip, showTip } from "./tip";

/** Prepares the heat map. */
export function heat(latency: Latency, all: Timelines, axis: Axis): { draw: Draw; label: string } {
  const { bounds_ms: bounds } = latency;
  const cells = latency.heat.filter(([bin, row]) => bin < all.bins && row < bounds.length);
  const most = cells.reduce((max, [, , count]) => Math.max(max, count), 1);
  const counts = new Map(cells.map(([bin, row, count]) => [bin * bounds.length + row, count]));
  // Only the classes between the fastest and the slowest connection are shown.
  const rows = cells.map(([, row]) => row);
  const low = rows.reduce((a, b) => Math.min(a, b), bounds.length - 1);
  const high = rows.reduce((a, b) => Math.max(a, b), 0) + 1;
  const ticks = decades(bounds, 8).filter((tick) => tick.at >= low && tick.at <= high);
  const draw: Draw = (host) => {
    let pointer: MouseEvent | null = null;
    host.addEventListener("mousemove", (event) => {
      pointer = event;
    });
    host.addEventListener("mouseleave", hideTip);
    return timePlot(host, {
      axis,
      height: 190,
      data: [
        [0, axis.length],
        [low, high],
      ],
      lines: [{ show: true, paths: () => null, points: { show: false } }],
      range: () => [low, high],
      y: {
        size: 58,
        splits: () => ticks.map((tick) => tick.at),
        values: () => ticks.map((tick) => tick.text),
      },
      marks: all.marks,
      rows: 0,
      draw: (u) => {
        const [light, dark] = [colour("heat-low"), colour("heat-high")];
        const unit = u.valToPos(0, "y", true) - u.valToPos(1, "y", true);
        for (const [bin, row, count] of cells) {
          const from = u.valToPos(bin * all.bin_s, "x", true);
          const to = u.valToPos((bin + 1) * all.bin_s, "x", true);
          if (to < u.bbox.left || from > u.bbox.left + u.bbox.width) continue;
          const share = most > 1 ? Math.log(count) / Math.log(most) : 1;
          u.ctx.fillStyle = between(light, dark, share);
          const top = u.valToPos(row + 1, "y", true);
          u.ctx.fillRect(from, top, Math.max(1, to - from), Math.ceil(unit));
        }
      },
      cursor: (u, at) => {
        const row = Math.floor(u.posToVal(u.cursor.top ?? -1, "y"));
        if (at === null || !pointer || !u.over.matches(":hover")) return;
        const bin = Math.floor(at / all.bin_s);
        const count = counts.get(bin * bounds.length + row) ?? 0;
        if (row < low || row >= high) return hideTip();
        const [from, to] = [moment(bin * all.bin_s), moment((bin + 1) * all.bin_s)];
        showTip(pointer, [
          plural(count, "connection"),
          `took ${classText(bounds, row)}`,
          `${from} to ${to} after the start`,
        ]);
      },
    });
  };
  const slowest = duration(bounds[high - 1] ?? 0);
  return {
    draw,
    label: `Heat map of how long connecting took over time: from ${classText(bounds, low)} to at most ${slowest}; at most ${plural(most, "connection")} in one cell.`,
  };
}
