// One chart of the time lines: its lines against their limits, with what they are at the pointer.
import type uPlot from "uplot";
import { unpackLine } from "../data";
import { short, withUnit } from "../format";
import type { Chart, Timelines } from "../page";
import type { Axis } from "./axis";
import { fromZero } from "./base";
import { colour, series } from "./colours";
import type { Draw } from "./live";
import { fullHeight, rowsFor, timePlot } from "./time";

/** Of a chart, CSS pixels. */
const HEIGHT = 124;
/** Lines beyond this many are drawn thinner, for they cover each other. */
const MANY = 8;

/** A chart ready to be drawn, and what it says in a sentence. */
export interface Lines {
  draw: Draw;
  /** CSS pixels. */
  height: number;
  /** For those who do not see it. */
  label: string;
  /** Its lines with their colour's number; a limit has that of its line. */
  keys: { name: string; colour: number; limit: boolean }[];
  /** Is told the values at the pointer, by line, or nothing. */
  watch: (listener: (values: string[] | null) => void) => void;
}

/** Prepares a chart; `first`: the marks' texts are written into this one. */
export function lines(chart: Chart, all: Timelines, axis: Axis, first: boolean): Lines {
  const at = Float64Array.from({ length: all.bins }, (_, i) => (i + 0.5) * all.bin_s);
  const values = chart.lines.map((line) => unpackLine(line.values).slice(0, all.bins));
  const own = chart.lines.filter((line) => !line.limit).map((line) => line.name);
  const keys = chart.lines.map((line, i) => {
    const of = own.indexOf(line.name);
    return { name: line.name, colour: of >= 0 ? of : i, limit: line.limit };
  });
  let listener: (values: string[] | null) => void = () => {};
  const rows = first ? rowsFor(new Set(all.marks.map((mark) => mark.finding)).size) : 0;
  const draw: Draw = (host) =>
    timePlot(host, {
      axis,
      height: HEIGHT,
      data: [Array.from(at), ...values],
      lines: keys.map((key) => ({
        stroke: () => (key.limit ? colour("faint-ink") : series(key.colour)),
        width: key.limit ? 1 : own.length > MANY ? 0.8 : 1.5,
        ...(key.limit ? { dash: [6, 4] } : {}),
        points: { size: 4 },
      })),
      range: fromZero(chart.unit),
      y: { size: 58, space: 32, values: (_u, ticks) => ticks.map(short) },
      marks: all.marks,
      rows,
      cursor: (u, moment) => listener(moment === null ? null : under(u, values, chart.unit)),
    });
  return {
    draw,
    height: fullHeight(HEIGHT, rows),
    label: sentence(chart, values, all.bin_s),
    keys,
    watch: (to) => {
      listener = to;
    },
  };
}

function under(u: uPlot, values: (number | null)[][], unit: string): string[] {
  const i = u.cursor.idx;
  return values.map((line) => {
    const value = i === null || i === undefined ? null : line[i];
    return value === null || value === undefined ? "none" : withUnit(value, unit);
  });
}

/** What the chart shows in a sentence: of each of its first lines the most, and when. */
function sentence(chart: Chart, values: (number | null)[][], bin: number): string {
  const told = chart.lines.slice(0, 4).map((line, l) => {
    let [most, when] = [Number.NEGATIVE_INFINITY, 0];
    values[l]?.forEach((value, i) => {
      if (value !== null && value > most) [most, when] = [value, i * bin];
    });
    const name = line.limit ? `${line.name}, its limit` : line.name;
    if (most === Number.NEGATIVE_INFINITY) return `${name}: not measured`;
    return `${name}: at most ${withUnit(most, chart.unit)}, at ${withUnit(when, "s")}`;
  });
  const more = chart.lines.length > 4 ? `; and ${chart.lines.length - 4} lines more` : "";
  return `${chart.title}. ${told.join("; ")}${more}.`;
}
