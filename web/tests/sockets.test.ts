// The socket explorer finds what its filter says, and groups by what was chosen.
import assert from "node:assert/strict";
import { test } from "node:test";
import type { Sockets } from "../src/page";
import { filterSockets, groups, lastValue, samplesOf, worst } from "../src/sockets-model";

const socket = (name: string, attributes: string[], first = 0, count = 2) => ({
  name,
  attributes,
  first,
  count,
  outlier: false,
});
const all: Sockets = {
  total: 3,
  attributes: ["sack", "congestion control"],
  sockets: [
    socket("10.0.0.1:80 → 10.0.0.2:1", ["yes", "cubic"]),
    socket("10.0.0.1:80 → 10.0.0.3:2", ["no", "bbr"], 2),
    socket("10.0.0.1:443 → yes:3", ["no", "cubic"], 4),
  ],
  time_s: { scale: 1, deltas: [] },
  measures: [],
  outliers: [],
};

test("the filter looks at names and attributes, and all words must match", () => {
  assert.deepEqual(filterSockets(all, ""), [0, 1, 2]);
  assert.deepEqual(filterSockets(all, "10.0.0.3"), [1]);
  assert.deepEqual(filterSockets(all, "YES"), [0, 2]);
  assert.deepEqual(filterSockets(all, "sack=yes"), [0]);
  assert.deepEqual(filterSockets(all, "congestioncontrol=cubic sack=no"), [2]);
  assert.deepEqual(filterSockets(all, "cubic :443"), [2]);
  assert.deepEqual(filterSockets(all, "nothing=here"), []);
});

test("groups are ordered by how many they have", () => {
  const [first, second] = groups(all, 0);
  assert.deepEqual([first?.value, first?.count], ["no", 2]);
  assert.deepEqual([second?.value, second?.count], ["yes", 1]);
  assert.notEqual(first?.colour, second?.colour);
});

test("samples that are not there are not read", () => {
  assert.deepEqual(samplesOf(socket("a", [], 3, 9), 5), [3, 5]);
  assert.deepEqual(samplesOf(socket("a", [], 9, 9), 5), [5, 5]);
  assert.equal(lastValue(socket("a", [], 0, 3), Float64Array.of(1, 2, Number.NaN)), 2);
  assert.ok(Number.isNaN(lastValue(socket("a", [], 7, 3), Float64Array.of(1))));
});

test("the worst come first: outliers, then what was retransmitted, then the round trip", () => {
  const measured: Sockets = {
    ...all,
    sockets: all.sockets.map((each, i) => ({ ...each, outlier: i === 1 })),
    measures: ["rtt", "retransmitted"].map((name) => ({
      name,
      unit: "",
      values: { scale: 1, deltas: [] },
    })),
  };
  const samples = {
    time: new Float64Array(6),
    values: [new Float64Array([9, 9, 1, 1, 5, 5]), new Float64Array([0, 0, 0, 0, 0, 7])],
  };
  assert.deepEqual(worst(measured, samples, [0, 1, 2]), [1, 2, 0]);
  samples.values[1]?.fill(0);
  assert.deepEqual(worst(measured, samples, [2, 0]), [0, 2]);
});
