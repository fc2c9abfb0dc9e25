// The course of a symptom as a small picture: values summed over its lines, as a path, and the stretches.
import { unpackLine } from "./data";
import type { Course, Timelines } from "./page";

/** Width and height that paths are made for. */
export const WIDE = 600;
export const HIGH = 60;
/** A picture has at most as many columns: more are not seen. */
const COLUMNS = 150;

export interface SparkLine {
  /** The filled shape, as a path of SVG. */
  path: string;
  most: number;
  unit: string;
}

/** What `course` shows; null where nothing is there. */
export function sparkLine(course: Course, all: Timelines): SparkLine | null {
  const chart = all.charts[course.chart];
  if (!chart || all.bins <= 0) return null;
  const sums = new Float64Array(all.bins);
  for (const which of course.lines) {
    const line = chart.lines[which];
    if (!line) continue;
    unpackLine(line.values)
      .slice(0, all.bins)
      .forEach((value, i) => {
        sums[i] = (sums[i] ?? 0) + (value ?? 0);
      });
  }
  const width = Math.max(1, Math.ceil(all.bins / COLUMNS));
  const columns: number[] = [];
  for (let i = 0; i < all.bins; i += width) {
    const part = sums.subarray(i, i + width);
    columns.push(part.reduce((sum, value) => sum + value, 0) / part.length);
  }
  const most = Math.max(...columns);
  if (!(most > 0)) return null;
  const x = (i: number) => ((i * width) / all.bins) * WIDE;
  const y = (value: number) => HIGH - (value / most) * (HIGH - 2);
  const steps = columns.map((value, i) => {
    const to = Math.min(x(i + 1), WIDE);
    return `L${x(i).toFixed(1)} ${y(value).toFixed(1)}L${to.toFixed(1)} ${y(value).toFixed(1)}`;
  });
  return { path: `M0 ${HIGH}${steps.join("")}L${WIDE} ${HIGH}Z`, most, unit: chart.unit };
}

/** A stretch as left and right, in parts of the picture's width; at least so wide that it is seen. */
export function stretch([from, to]: [number, number], length: number): [number, number] {
  const at = (s: number) => Math.min(Math.max(s / length, 0), 1) * WIDE;
  const [left, right] = [at(from), at(to)];
  return right - left >= 3
    ? [left, right]
    : [Math.min(left, WIDE - 3), Math.min(left, WIDE - 3) + 3];
}

/** What is drawn where nothing was found: what moved, else what was done. */
export function courseOfNothing(all: Timelines): Course | null {
  for (const id of ["drops", "retransmits", "resets", "connections"]) {
    const chart = all.charts.findIndex((each) => each.id === id);
    const of = all.charts[chart];
    if (!of) continue;
    const lines = id === "connections" ? [0] : of.lines.map((_, i) => i);
    const name = id === "connections" ? `: ${of.lines[0]?.name ?? ""}` : "";
    return { chart, lines, says: `${of.title}${name}` };
  }
  return null;
}
