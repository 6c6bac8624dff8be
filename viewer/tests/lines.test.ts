import { expect, test } from "vitest";
import type { Page } from "../src/api";
import { Lines, SHOWN_CHARS } from "../src/log/lines";

/** A log of so many lines, and what was asked of it. */
function log(total: number, text = (line: number) => `line ${line}`, mostLines = 10_000) {
  const asked: [number, number][] = [];
  const fetch = async (after: number, limit: number): Promise<Page> => {
    asked.push([after, limit]);
    const end = Math.min(total, after + Math.min(limit, mostLines));
    const logs = Array.from({ length: end - after }, (_, index) => text(after + index)).join("\n");
    return { logs, after: end < total ? String(end) : null, total, streaming: false };
  };
  return { fetch, asked };
}

test("only what is missing is fetched", async () => {
  const { fetch, asked } = log(5_000_000);
  const lines = new Lines(fetch);
  lines.total = 5_000_000;
  await lines.want(2_000_000, 2_000_100, () => {});
  expect(lines.get(2_000_050)?.text).toBe("line 2000050");
  await lines.want(2_000_000, 2_000_100, () => {});
  expect(asked).toHaveLength(1);
});

test("a page that is cut by its bytes is asked on", async () => {
  const { fetch, asked } = log(1_000, undefined, 30);
  const lines = new Lines(fetch);
  lines.total = 1_000;
  await lines.want(100, 200, () => {});
  expect(asked.map(([after]) => after)).toEqual([100, 130, 160, 190]);
  expect(lines.get(199)?.text).toBe("line 199");
});

test("memory stays bounded, whatever was seen", async () => {
  const { fetch } = log(1_000_000, () => "x".repeat(1_000));
  const lines = new Lines(fetch, 2_000_000);
  lines.total = 1_000_000;
  for (let line = 0; line < 100_000; line += 250) await lines.want(line, line + 250, () => {});
  let kept = 0;
  for (let line = 0; line < 100_000; line += 1) kept += lines.get(line)?.text.length ?? 0;
  expect(kept).toBeLessThan(2_500_000);
  expect(lines.get(99_999)).toBeDefined();
});

test("a long line is kept cut, and says so", () => {
  const lines = new Lines(log(0).fetch);
  lines.put(3, ["y".repeat(1_000_000)]);
  expect(lines.get(3)?.text).toHaveLength(SHOWN_CHARS);
  expect(lines.get(3)?.cut).toBe(1_000_000);
});

test("lines that come twice are there once", () => {
  const lines = new Lines(log(0).fetch);
  lines.put(0, ["a", "b"]);
  lines.put(1, ["b", "c"]);
  expect([lines.total, lines.get(0)?.text, lines.get(1)?.text, lines.get(2)?.text]).toEqual([3, "a", "b", "c"]);
});

test("empty lines are lines", () => {
  const lines = new Lines(log(0).fetch);
  expect(lines.putPage(0, { logs: "", after: null, total: 1, streaming: false })).toBe(1);
  expect(lines.get(0)).toEqual({ text: "" });
  expect(lines.putPage(0, { logs: "", after: null, total: 0, streaming: false })).toBe(0);
});
