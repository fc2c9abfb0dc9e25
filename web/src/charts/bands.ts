// What threads did with their time: a band per thread, shares of its states stacked over the shared axis.
import uPlot from "uplot";
import { cut, moment, percent } from "../format";
import type { Band, Threads } from "../page";
import type { Axis } from "./axis";
import { colour } from "./colours";
import type { Draw } from "./live";
import { timePlot } from "./time";
import { hideTip, showTip } from "./tip";

/** Height of a band, CSS pixels. */
const BAND = 24;
/** Room for the time axis below the bands, CSS pixels. */
const BELOW = 36;

/** What the states are, and the name of their colour in the style. */
export const STATES: Record<string, string> = {
  USR: "running its own code",
  SYS: "running in the kernel",
  LAT: "ready, waiting for a CPU",
  SLP: "asleep in a system call",
  LCK: "waiting for a lock",
  DSK: "waiting for a disk",
  FLT: "in a page fault",
  STP: "stopped",
};

/** The name of a state's colour. */
export function stateColour(state: string): string {
  return state in STATES ? `state-${state.toLowerCase()}` : "faint-ink";
}

/** Mean shares of a thread's states over its intervals, 0..1. */
export function meanShares(band: Band, states: number): number[] {
  const sums = new Array<number>(states).fill(0);
  let length = 0;
  band.intervals.forEach(([from, to], i) => {
    length += to - from;
    for (let s = 0; s < states; s++) {
      sums[s] = (sums[s] ?? 0) + ((band.shares[i]?.[s] ?? 0) / 100) * (to - from);
    }
  });
  return sums.map((sum) => (length > 0 ? sum / length : 0));
}

/** Prepares the bands. */
export function bands(threads: Threads, axis: Axis): Draw {
  const { bands: all, states } = threads;
  const count = all.length;
  return (host) => {
    let pointer: MouseEvent | null = null;
    host.addEventListener("mousemove", (event) => {
      pointer = event;
    });
    host.addEventListener("mouseleave", hideTip);
    const narrow = host.clientWidth < 600;
    return timePlot(host, {
      axis,
      height: count * BAND + BELOW,
      data: [
        [0, axis.length],
        [0, count],
      ],
      lines: [{ paths: () => null, points: { show: false } }],
      range: () => [0, count],
      y: {
        size: narrow ? 96 : 170,
        grid: { show: false },
        splits: () => all.map((_, i) => count - i - 0.5),
        values: () => all.map((band) => cut(band.name, narrow ? 13 : 25)),
      },
      marks: [],
      rows: 0,
      draw: (u) => {
        const looks = states.map((state) => colour(stateColour(state)));
        all.forEach((band, i) => {
          drawBand(u, band, count - i - 1, looks);
        });
      },
      cursor: (u, at) => {
        if (at === null || !pointer || !u.over.matches(":hover")) return;
        const band = all[Math.floor(count - u.posToVal(u.cursor.top ?? 0, "y"))];
        const i = band?.intervals.findIndex(([from, to]) => at >= from && at < to) ?? -1;
        const interval = band?.intervals[i];
        if (!band || !interval) return hideTip();
        const shares = states
          .map((state, s) => ({ state, share: (band.shares[i]?.[s] ?? 0) / 100 }))
          .filter(({ share }) => share > 0.0005);
        showTip(pointer, [
          `${band.name} of process ${band.pid}`,
          `${moment(interval[0])} to ${moment(interval[1])}`,
          ...shares.map(({ state, share }) => `${state} ${percent(share)}: ${STATES[state] ?? ""}`),
        ]);
      },
    });
  };
}

/** From the bottom up, in the order of the states. */
function drawBand(u: uPlot, band: Band, row: number, looks: string[]): void {
  const px = uPlot.pxRatio;
  const high = u.valToPos(row + 1, "y", true) + 2 * px;
  const low = u.valToPos(row, "y", true) - 2 * px;
  const end = u.bbox.left + u.bbox.width;
  band.intervals.forEach(([from, to], i) => {
    const left = Math.round(Math.max(u.valToPos(from, "x", true), u.bbox.left));
    const right = Math.round(Math.min(u.valToPos(to, "x", true), end));
    if (right <= left) return;
    let y = low;
    looks.forEach((look, s) => {
      const tall = ((low - high) * (band.shares[i]?.[s] ?? 0)) / 100;
      u.ctx.fillStyle = look;
      u.ctx.fillRect(left, y - tall, right - left, tall);
      y -= tall;
    });
  });
}
