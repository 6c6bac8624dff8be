import { expect, test } from "vitest";
import type { Page } from "../src/api";
import { Lines, MAX_LINE_CHARS } from "../src/log/lines";

/** A log with `total` lines that records requests. */
function log(total: number, text = (line: number) => `line ${line}`, maxLines = 10_000) {
  const requests: [number, number][] = [];
  const fetch = async (after: number, limit: number): Promise<Page> => {
    requests.push([after, limit]);
    const end = Math.min(total, after + Math.min(limit, maxLines));
    const logs = Array.from({ length: end - after }, (_, index) => text(after + index)).join("\n");
    return { logs, after: end < total ? String(end) : null, total, streaming: false };
  };
  return { fetch, requests };
}

test("only missing lines are fetched", async () => {
  const { fetch, requests } = log(5_000_000);
  const lines = new Lines(fetch);
  lines.total = 5_000_000;
  await lines.ensureLoaded(2_000_000, 2_000_100, () => {});
  expect(lines.get(2_000_050)?.text).toBe("line 2000050");
  await lines.ensureLoaded(2_000_000, 2_000_100, () => {});
  expect(requests).toHaveLength(1);
});

test("a page shorter than requested is continued", async () => {
  const { fetch, requests } = log(1_000, undefined, 30);
  const lines = new Lines(fetch);
  lines.total = 1_000;
  await lines.ensureLoaded(100, 200, () => {});
  expect(requests.map(([after]) => after)).toEqual([100, 130, 160, 190]);
  expect(lines.get(199)?.text).toBe("line 199");
});

test("memory is bounded", async () => {
  const { fetch } = log(1_000_000, () => "x".repeat(1_000));
  const lines = new Lines(fetch, 2_000_000);
  lines.total = 1_000_000;
  for (let line = 0; line < 100_000; line += 250) await lines.ensureLoaded(line, line + 250, () => {});
  let chars = 0;
  for (let line = 0; line < 100_000; line += 1) chars += lines.get(line)?.text.length ?? 0;
  expect(chars).toBeLessThan(2_500_000);
  expect(lines.get(99_999)).toBeDefined();
});

test("a long line is truncated and has its full length", () => {
  const lines = new Lines(log(0).fetch);
  lines.put(3, ["y".repeat(1_000_000)]);
  expect(lines.get(3)?.text).toHaveLength(MAX_LINE_CHARS);
  expect(lines.get(3)?.fullLength).toBe(1_000_000);
});

test.each([
  ["\rERROR checksum", "ERROR checksum"],
  ["\rERROR checksum\r", "ERROR checksum\r"],
  ["\rERROR checksum\r\x1b[K\r", "ERROR checksum\r\x1b[K\r"],
  ["\r" + "z".repeat(5_000), "z".repeat(MAX_LINE_CHARS)],
])("the last state of a long progress bar is stored, before %j", (end, text) => {
  const lines = new Lines(log(0).fetch);
  lines.put(0, ["\r 50 %".repeat(1_000) + end]);
  expect(lines.get(0)).toEqual({ text, fullLength: 6_000 + end.length, from: 6_001 });
});

test("duplicate lines are stored once", () => {
  const lines = new Lines(log(0).fetch);
  lines.put(0, ["a", "b"]);
  lines.put(1, ["b", "c"]);
  expect([lines.total, lines.get(0)?.text, lines.get(1)?.text, lines.get(2)?.text]).toEqual([3, "a", "b", "c"]);
});

test("empty lines are stored", () => {
  const lines = new Lines(log(0).fetch);
  expect(lines.putPage(0, { logs: "", after: null, total: 1, streaming: false })).toBe(1);
  expect(lines.get(0)).toEqual({ text: "" });
  expect(lines.putPage(0, { logs: "", after: null, total: 0, streaming: false })).toBe(0);
});
