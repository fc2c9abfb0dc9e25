// How latencies are distributed, with their clusters named and the kernel's schedule of SYNs over it.
import uPlot from "uplot";
import { duration, number, plural, short } from "../format";
import type { Cluster, Latency } from "../page";
import { axis, kept } from "./base";
import { classText, decades, placeOf } from "./classes";
import { colour } from "./colours";
import { drawLabels, type Label, roomFor } from "./labels";
import type { Draw } from "./live";
import { hideTip, showTip } from "./tip";

const HEIGHT = 260;
/** Where the most is this many times the least, counts are drawn by their logarithm. */
const WIDE = 50;
/** At most as many rows of names are above the bars. */
const ROWS = 6;

/** Whether the counts are drawn by their logarithm. */
export function isLog(latency: Latency): boolean {
  const counts = latency.counts.filter((count) => count > 0);
  return Math.max(...counts, 1) / Math.min(...counts, Number.POSITIVE_INFINITY) > WIDE;
}

/** What a cluster is, in words: the time, how many, and which SYN. */
export function clusterText(cluster: Cluster): string {
  const which =
    cluster.attempt === null
      ? ""
      : cluster.attempt === 0
        ? ", first SYN"
        : `, ${ordinal(cluster.attempt)} SYN retransmitted`;
  return `${duration(cluster.median_ms)}: ${number(cluster.count)}${which}`;
}

/** The same, as short as a picture needs it: the list below it says the rest. */
function clusterName(cluster: Cluster): string {
  return `${duration(cluster.median_ms)}: ${number(cluster.count)}`;
}

function ordinal(n: number): string {
  const last = n % 10;
  const teen = n % 100 > 10 && n % 100 < 14;
  return `${n}${teen || last > 3 || last === 0 ? "th" : ["st", "nd", "rd"][last - 1]}`;
}

/** Prepares the histogram. */
export function histogram(latency: Latency): { draw: Draw; label: string } {
  const { bounds_ms: bounds, counts } = latency;
  const log = isLog(latency);
  const low = Math.max(0, counts.findIndex((count) => count > 0) - 2);
  const used = counts.reduce((last, count, i) => (count > 0 ? i : last), 0);
  const high = Math.min(bounds.length, used + 3);
  const most = Math.max(...counts, 1);
  const top = log ? most * 1.5 : most * 1.1;
  const bottom = log ? 0.7 : 0;
  // Of a logarithmic axis only the powers of ten are drawn.
  const tidy = (_u: uPlot, at: number[]) =>
    at.map((v) => (!log || Math.abs(Math.log10(v) - Math.round(Math.log10(v))) < 1e-6 ? v : null));
  const rows = Math.min(ROWS, latency.clusters.length);
  const draw: Draw = (host) => {
    const ticks = () =>
      decades(bounds, host.clientWidth / 90).filter(({ at }) => at >= low && at <= high);
    const plot = new uPlot(
      {
        width: host.clientWidth,
        height: HEIGHT,
        padding: [roomFor(rows), null, null, null],
        legend: { show: false },
        cursor: { drag: { x: false, y: false }, y: false, points: { show: false } },
        scales: {
          x: { time: false, range: () => [low, high] },
          y: { distr: log ? 3 : 1, range: () => [bottom, top] },
        },
        series: [{}, { paths: () => null, points: { show: false } }],
        axes: [
          axis({
            size: 30,
            splits: () => ticks().map((t) => t.at),
            values: () => ticks().map((t) => t.text),
          }),
          axis({
            size: 58,
            grid: { stroke: () => colour("grid"), width: 1, filter: tidy },
            ticks: { show: false },
            values: (_u, at) => at.map((v) => (v === null ? "" : short(v))),
            filter: tidy,
          }),
        ],
        hooks: {
          draw: [
            (u) => {
              drawBars(u, counts, low, high, bottom);
              drawLabels(u, named(u, latency, low, high), rows);
            },
          ],
          setCursor: [
            (u) => {
              const event = u.cursor.event;
              const left = u.cursor.left ?? -1;
              if (left < 0 || !event) return hideTip();
              const i = Math.floor(u.posToVal(left, "x"));
              showTip(event, [plural(counts[i] ?? 0, "connection"), classText(bounds, i)]);
            },
          ],
        },
      },
      [
        [low, high],
        [bottom || 1, top],
      ],
      host,
    );
    return kept(plot, HEIGHT);
  };
  const clusters = latency.clusters.map(clusterText).join("; ");
  const label = `Histogram of how long ${plural(latency.count, "connection")} took to open. ${
    clusters === "" ? "No clusters." : `Clusters: ${clusters}.`
  }`;
  return { draw, label };
}

function drawBars(u: uPlot, counts: number[], low: number, high: number, bottom: number): void {
  u.ctx.save();
  u.ctx.fillStyle = colour("c0");
  const base = u.valToPos(bottom || 0, "y", true);
  for (let i = low; i < high; i++) {
    const count = counts[i] ?? 0;
    if (count === 0) continue;
    const from = u.valToPos(i, "x", true);
    const to = u.valToPos(i + 1, "x", true);
    const top = u.valToPos(count, "y", true);
    u.ctx.fillRect(from + 0.5, top, Math.max(1, to - from - 1), base - top);
  }
  u.ctx.restore();
}

/** The times at which the kernel retransmits an unanswered SYN, and the clusters, each with its name. */
function named(u: uPlot, latency: Latency, low: number, high: number): Label[] {
  const last = latency.bounds_ms.at(-1) ?? 0;
  const inside = ({ at, ms }: { at: number; ms: number }) => at >= low && at <= high && ms <= last;
  const place = (ms: number) => ({ ms, at: placeOf(latency.bounds_ms, ms) });
  const schedule = latency.schedule_ms
    // The legend says what they are; beside the clusters their names would cover each other.
    .map((ms) => ({ ...place(ms), text: "" }))
    .filter(inside)
    .map(({ at, text }) => ({
      x: u.valToPos(at, "x", true),
      foot: u.bbox.top + u.bbox.height,
      text,
      look: "bad",
      stem: "bad",
      dash: [4, 3],
    }));
  const clusters = latency.clusters
    .map((cluster) => ({ ...place(cluster.median_ms), text: clusterName(cluster) }))
    .filter(inside)
    .map(({ at, text }) => {
      const bar = u.valToPos(latency.counts[Math.ceil(at) - 1] || 1, "y", true);
      return {
        x: u.valToPos(at, "x", true),
        foot: bar,
        text,
        look: "ink",
        stem: "faint-ink",
        dash: [],
      };
    });
  return [...clusters, ...schedule];
}
