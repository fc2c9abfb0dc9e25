// Which time lines are seen at once, and what a mark in them is called.
import { moment } from "./format";
import type { Mark, Run } from "./page";

/** Charts that are seen at once: the others are a click away. */
const OPEN = 4;
/** What tells most where no finding says what does. */
const FIRST = ["connections", "retransmits", "drops", "backlog", "throughput"];

/** The charts that show the symptoms of findings, then those that tell most. */
export function telling(run: Run): number[] {
  const { charts } = run.timelines;
  const courses = run.findings.flatMap(({ course }) => (course ? [course.chart] : []));
  const known = FIRST.map((id) => charts.findIndex((chart) => chart.id === id));
  const told = [...courses, ...known].filter((i) => i >= 0 && i < charts.length);
  const all = told.length > 0 ? told : [...charts.keys()];
  return [...new Set(all)].slice(0, OPEN).sort((a, b) => a - b);
}

/** A mark in words: which finding, and from when to when. */
export function markText(mark: Mark): string {
  return `${mark.finding + 1} ${mark.says}, ${moment(mark.at_s)} to ${moment(mark.to_s)}`;
}
