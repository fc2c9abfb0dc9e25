// What charts compute: the shared axis, places among classes, pixels, and the shares of threads.
import assert from "node:assert/strict";
import { test } from "node:test";
import { Axis, axisKey } from "../src/charts/axis";
import { meanShares } from "../src/charts/bands";
import { decades, placeOf } from "../src/charts/classes";
import { clip } from "../src/charts/raster";

const near = (value: number, expected: number) =>
  assert.ok(Math.abs(value - expected) < 1e-9, `${value} instead of ${expected}`);

test("the axis stays within the recording", () => {
  const axis = new Axis(60, "test");
  axis.show(50, 70);
  assert.deepEqual([axis.min, axis.max], [40, 60]);
  axis.pan(5);
  assert.deepEqual([axis.min, axis.max], [40, 60]);
  axis.zoom(100);
  assert.deepEqual([axis.min, axis.max], [0, 60]);
  axis.show(10, 10);
  near(axis.max - axis.min, 60 / 5000);
});

test("listeners are told of every change until they leave", () => {
  const axis = new Axis(10, "test");
  let told = 0;
  const leave = axis.listen(() => {
    told++;
  });
  assert.ok(axisKey(axis, "+"));
  assert.ok(!axisKey(axis, "x"));
  assert.equal(told, 1);
  leave();
  axisKey(axis, "0");
  assert.equal(told, 1);
});

test("a marked moment comes into view and zooming keeps it there", () => {
  const axis = new Axis(60, "test");
  axis.show(0, 10);
  axis.pin(30);
  assert.deepEqual([axis.min, axis.max], [25, 35]);
  axis.pin(26);
  assert.deepEqual([axis.min, axis.max], [25, 35]);
  axis.zoom(0.1);
  assert.ok(axis.min < 26 && axis.max > 26);
  axis.reset();
  assert.equal(axis.pinned, null);
});

test("a latency stands between the bounds of its class", () => {
  const bounds = [1, 10, 100, 1000];
  assert.equal(placeOf(bounds, 0), 0);
  assert.equal(placeOf(bounds, 0.5), 0.5);
  near(placeOf(bounds, 10), 2);
  near(placeOf(bounds, Math.sqrt(1000)), 2.5);
  assert.equal(placeOf(bounds, 5000), 4);
  assert.deepEqual(
    decades(bounds, 10).map(({ text }) => text),
    ["1 ms", "10 ms", "100 ms", "1 s"],
  );
  assert.equal(decades(bounds, 2).length, 2);
  assert.deepEqual(decades([], 5), []);
});

test("lines are cut off at the edges", () => {
  assert.deepEqual(clip(-10, 5, 30, 5, 20, 20), [0, 5, 20, 5]);
  assert.deepEqual(clip(3, 4, 5, 6, 20, 20), [3, 4, 5, 6]);
  assert.equal(clip(-10, -1, 30, -1, 20, 20), null);
  assert.equal(clip(Number.NaN, 0, 1, 1, 20, 20), null);
});

test("mean shares weigh intervals by their length", () => {
  const band = {
    name: "a/1",
    pid: 1,
    intervals: [
      [0, 1],
      [1, 4],
    ] as [number, number][],
    shares: [
      [100, 0],
      [0, 100],
    ],
  };
  const [first, second] = meanShares(band, 2);
  near(first ?? 0, 0.25);
  near(second ?? 0, 0.75);
  assert.deepEqual(meanShares({ ...band, intervals: [] }, 2), [0, 0]);
});
