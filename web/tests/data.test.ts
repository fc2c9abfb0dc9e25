// Data come out of the page as they went in, and numbers are written as a reader expects them.
import assert from "node:assert/strict";
import { test } from "node:test";
import { deflateRawSync } from "node:zlib";
import { decode, unpack, unpackLine } from "../src/data";
import { clock, cut, duration, moment, number, plural, short, withUnit } from "../src/format";
import { full, HOSTILE } from "./sample";

test("a page survives packing", async () => {
  const page = full({ sockets: 5, samples: 3 });
  const packed = deflateRawSync(JSON.stringify(page)).toString("base64");
  const back = await decode(`\n${packed}\n`);
  assert.deepEqual(back, page);
  assert.ok(back.runs[0]?.facts.host.includes(HOSTILE));
});

test("data that are cut short are refused", async () => {
  const packed = deflateRawSync(JSON.stringify(full({ sockets: 5, samples: 3 })));
  await assert.rejects(decode(packed.subarray(0, packed.length / 2).toString("base64")));
});

test("differences add up, and what is missing is passed over", () => {
  const packed = { scale: 0.5, deltas: [4, null, -2, 0, null, 10] };
  assert.deepEqual([...unpack(packed)], [2, Number.NaN, 1, 1, Number.NaN, 6]);
  assert.deepEqual(unpackLine(packed), [2, null, 1, 1, null, 6]);
});

test("numbers have three digits, groups and units", () => {
  assert.equal(number(0.123456), "0.123");
  assert.equal(number(49739), "49,739");
  assert.equal(number(Number.NaN), "none");
  assert.equal(plural(1, "socket"), "1 socket");
  assert.equal(plural(2000, "socket"), "2,000 sockets");
  assert.equal(short(28232), "28.2 k");
  assert.equal(short(4e7), "40 M");
  assert.equal(withUnit(4e7, "byte/s"), "40 M byte/s");
  assert.equal(withUnit(0.0407, "ms"), "40.7 µs");
});

test("times are told in the unit that reads best", () => {
  assert.equal(duration(0), "0 ms");
  assert.equal(duration(0.0005), "500 ns");
  assert.equal(duration(0.041), "41 µs");
  assert.equal(duration(503), "503 ms");
  assert.equal(duration(8450), "8.45 s");
  assert.equal(duration(Number.NaN), "unknown");
  assert.equal(moment(20.5131), "20.513 s");
  assert.equal(clock(0), "1970-01-01 00:00:00 UTC");
  assert.equal(clock(1e300), "unknown");
});

test("a cut text says that it was cut, and halves no character", () => {
  assert.equal(cut("abcdef", 6), "abcdef");
  assert.equal(cut("abcdef", 4), "abc…");
  assert.equal(cut("🦀🦀🦀", 2), "🦀…");
});
