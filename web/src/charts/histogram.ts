// How latencies are distributed, with their clusters named and the kernel's schedule of SYNs over it.
import uPlot from "uplot";
import { duration, number, plural, short } from "../format";
import type { Cluster, Latency } from "../page";
import { axis, haloed, handFont, kept } from "./base";
import { classText, decades, placeOf } from "./classes";
import { colour } from "./colours";
import type { Draw } from "./live";
import { hideTip, showTip } from "./tip";

const HEIGHT = 300;
/** Where the most is this many times the least, counts are drawn by their logarithm. */
const WIDE = 50;
/** Heights at which texts are written in turns, so that they do not cover each other. */
const ROWS = 4;

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
        : `, ${ordinal(cluster.attempt)} SYN sent again`;
  return `${duration(cluster.median_ms)}: ${number(cluster.count)}${which}`;
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
  const top = log ? most * 30 : most * 1.6;
  const bottom = log ? 0.7 : 0;
  const draw: Draw = (host) => {
    const ticks = () =>
      decades(bounds, host.clientWidth / 90).filter(({ at }) => at >= low && at <= high);
    const plot = new uPlot(
      {
        width: host.clientWidth,
        height: HEIGHT,
        legend: { show: false },
        cursor: { drag: { x: false, y: false }, y: false, points: { show: false } },
        scales: {
          x: { time: false, range: () => [low, high] },
          y: { distr: log ? 3 : 1, range: () => [bottom, top] },
        },
        series: [{}, { paths: () => null, points: { show: false } }],
        axes: [
          axis({
            splits: () => ticks().map((t) => t.at),
            values: () => ticks().map((t) => t.text),
          }),
          axis({
            size: 58,
            values: (_u, at) => at.map((v) => (v > most * 1.01 || !tidy(v, log) ? "" : short(v))),
          }),
        ],
        hooks: {
          draw: [
            (u) => {
              drawBars(u, counts, low, high, bottom);
              drawSchedule(u, latency, low, high);
              drawClusters(u, latency, low, high);
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

/** Of a logarithmic axis only the powers of ten are written. */
function tidy(value: number, log: boolean): boolean {
  return !log || Number.isInteger(Math.round(Math.log10(value) * 1e6) / 1e6);
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

/** The times at which the kernel sends an unanswered SYN again. */
function drawSchedule(u: uPlot, latency: Latency, low: number, high: number): void {
  const { ctx } = u;
  const px = uPlot.pxRatio;
  ctx.save();
  ctx.strokeStyle = colour("bad");
  ctx.fillStyle = colour("bad");
  ctx.lineWidth = px;
  ctx.setLineDash([4 * px, 3 * px]);
  handFont(ctx);
  ctx.textBaseline = "top";
  latency.schedule_ms.forEach((ms, i) => {
    const at = placeOf(latency.bounds_ms, ms);
    if (at < low || at > high || ms > (latency.bounds_ms.at(-1) ?? 0)) return;
    const x = u.valToPos(at, "x", true);
    ctx.beginPath();
    ctx.moveTo(x, u.bbox.top);
    ctx.lineTo(x, u.bbox.top + u.bbox.height);
    ctx.stroke();
    write(u, `SYN ${i + 2}: ${duration(ms)}`, x, u.bbox.top + (2 + 13 * (i % 2)) * px);
  });
  ctx.restore();
}

function drawClusters(u: uPlot, latency: Latency, low: number, high: number): void {
  const { ctx } = u;
  const px = uPlot.pxRatio;
  ctx.save();
  ctx.fillStyle = colour("ink");
  ctx.strokeStyle = colour("faint-ink");
  handFont(ctx, 600);
  ctx.textBaseline = "top";
  latency.clusters.forEach((cluster, i) => {
    const at = placeOf(latency.bounds_ms, cluster.median_ms);
    if (at < low || at > high) return;
    const x = u.valToPos(at, "x", true);
    const y = u.bbox.top + (32 + 15 * (i % ROWS)) * px;
    const bar = u.valToPos(latency.counts[Math.floor(at)] || 1, "y", true);
    ctx.strokeStyle = colour("faint-ink");
    ctx.lineWidth = px;
    ctx.beginPath();
    ctx.moveTo(x, y + 13 * px);
    ctx.lineTo(x, Math.max(bar - 2 * px, y + 13 * px));
    ctx.stroke();
    write(u, clusterText(cluster), x, y);
  });
  ctx.restore();
}

/** Writes to the right of x, or to the left of it where there is no room. */
function write(u: uPlot, text: string, x: number, y: number): void {
  const px = uPlot.pxRatio;
  const wide = u.ctx.measureText(text).width;
  const end = u.bbox.left + u.bbox.width;
  const right = x + 4 * px + wide <= end;
  u.ctx.textAlign = "left";
  const left = right ? x + 4 * px : Math.max(u.bbox.left, Math.min(x - 4 * px - wide, end - wide));
  u.ctx.save();
  u.ctx.setLineDash([]);
  haloed(u.ctx, text, left, y);
  u.ctx.restore();
}
