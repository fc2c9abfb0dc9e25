// What the page makes of texts and courses: code in sentences, small pictures, which charts come first.
import assert from "node:assert/strict";
import { test } from "node:test";
import { localWindow } from "../src/format";
import type { Run, Timelines } from "../src/page";
import { blocks, table } from "../src/parts/cause";
import { parts } from "../src/parts/prose";
import { courseOfNothing, sparkLine, stretch, WIDE } from "../src/spark";
import { markText, telling } from "../src/timelines-model";
import { full, HOSTILE, healthy } from "./sample";

test("what stands between backticks is code, and a lone backtick is one", () => {
  assert.deepEqual(parts("run `ss -ti` now"), [
    { text: "run ", code: false },
    { text: "ss -ti", code: true },
    { text: " now", code: false },
  ]);
  assert.deepEqual(parts("a ` b"), [{ text: "a ` b", code: false }]);
  assert.deepEqual(parts(`\`${HOSTILE}\``), [{ text: HOSTILE, code: true }]);
  assert.deepEqual(parts(""), []);
});

test("the book's text is taken apart by empty lines", () => {
  assert.deepEqual(blocks("one\ntwo\n\n- a\n- b\n\n\nend\n"), [
    ["one", "two"],
    ["- a", "- b"],
    ["end"],
  ]);
});

const run = () => full({ sockets: 1, samples: 1 }).runs[0] as Run;

function timelines(values: (number | null)[][]): Timelines {
  const lines = values.map((all, i) => {
    let last = 0;
    const deltas = all.map((value) => {
      const delta = value === null ? null : value - last;
      last = value ?? last;
      return delta;
    });
    return { name: `line ${i}`, limit: false, values: { scale: 1, deltas } };
  });
  const chart = { id: "drops", title: "Drops", unit: "per s", lines, note: "" };
  return { bin_s: 1, bins: values[0]?.length ?? 0, charts: [chart], marks: [] };
}

test("a table has its cells, without the line that rules it", () => {
  const lines = ["| what | ms |", "|---|---|", "| `bind` | **3** |"];
  assert.deepEqual(table(lines), [
    ["what", "ms"],
    ["`bind`", "**3**"],
  ]);
});

test("a course is the sum of its lines, and nothing where nothing was", () => {
  const all = timelines([
    [0, 3, null, 1],
    [0, 4, 2, 0],
  ]);
  const both = sparkLine({ chart: 0, lines: [0, 1], says: "" }, all);
  assert.equal(both?.most, 7);
  assert.equal(both?.unit, "per s");
  assert.match(both?.path ?? "", /^M0 60L0\.0 60\.0/);
  assert.equal(sparkLine({ chart: 0, lines: [1], says: "" }, all)?.most, 4);
  assert.equal(sparkLine({ chart: 0, lines: [0], says: "" }, timelines([[0, 0]])), null);
  assert.equal(sparkLine({ chart: 9, lines: [0], says: "" }, all), null);
  assert.equal(courseOfNothing(all)?.says, "Drops");
});

test("a stretch is seen however short it is, and stays within the picture", () => {
  assert.deepEqual(stretch([0, 30], 60), [0, WIDE / 2]);
  const [from, to] = stretch([60, 60.001], 60);
  assert.ok(to - from >= 3 && to <= WIDE, `${from} to ${to}`);
});

test("the charts of symptoms come before those that only tell much", () => {
  const told = run();
  const charts = told.timelines.charts;
  const threads = charts.findIndex((chart) => chart.id === "run-queue");
  const [first] = told.findings;
  if (first) first.course = { chart: threads, lines: [0], says: "" };
  assert.ok(telling(told).includes(threads));
  assert.ok(telling(told).length <= 4);
  const well = healthy().runs[0] as Run;
  assert.ok(!telling(well).includes(threads));
  assert.ok(telling(well).length > 0);
});

test("a window has both ends and the zone, and the day where it changes", () => {
  process.env.TZ = "Asia/Kolkata";
  const at = Date.UTC(2025, 0, 2, 18, 29, 0);
  assert.equal(localWindow(at, 30), "2025-01-02 23:59:00 to 23:59:30 UTC+5:30 (30 s)");
  assert.equal(localWindow(at, 120), "2025-01-02 23:59:00 to 2025-01-03 00:01:00 UTC+5:30 (120 s)");
  process.env.TZ = "UTC";
  assert.equal(localWindow(0, 1), "1970-01-01 00:00:00 to 00:00:01 UTC (1 s)");
  assert.equal(localWindow(Number.NaN, 1), "unknown");
});

test("a mark says which finding, and from when to when", () => {
  const mark = { finding: 1, at_s: 2, to_s: 3.5, says: "path-loss" };
  assert.equal(markText(mark), "2 path-loss, 2.000 s to 3.500 s");
});
