import { expect, test } from "vitest";
import cases from "../../tests/error_cases.json";
import { duration, size } from "../src/format";
import { levelOf } from "../src/log/level";
import { parseTarget } from "../src/log/moment";
import { inUnits } from "../src/log/spans";

test.each([
  ["2026-11-21 10:00:00 ERROR a", "error"], ["[WARN] a", "warn"], ["level=info msg=x", "info"], ['{"level":"debug"}', "debug"],
  ["10:00 WARNING: disk", "warn"], ["Traceback (most recent call last):", "error"], ["java.lang.IllegalStateException: x", "error"],
])("the level of %j is %s", (text, level) => {
  expect(levelOf(text)?.level).toBe(level);
});

test.each(["no errors found", "TERROR", "an information", ""])("%j has no level", (text) => {
  expect(levelOf(text)).toBeNull();
});

test.each(cases)("errors of $name begin at the same lines as for every other reader", ({ lines, errors }) => {
  expect(lines.flatMap((line, number) => (levelOf(line)?.level === "error" && !/^[A-Z]\w+Error: /.test(line) ? [number] : []))).toEqual(errors);
});

test("the level's place is the word's", () => {
  const text = "10:00 ERROR no";
  const found = levelOf(text);
  expect(text.slice(found?.from, found?.to)).toBe("ERROR");
});

const START = new Date(2026, 10, 21, 23, 30, 20).getTime();
test.each([
  ["1", { line: 0 }], ["1,234", { line: 1233 }], ["L20", { line: 19 }], ["line 5", { line: 4 }],
  ["23:30", { ms: new Date(2026, 10, 21, 23, 30).getTime() }], ["00:10:05", { ms: new Date(2026, 10, 22, 0, 10, 5).getTime() }],
  ["2026-11-21 10:05", { ms: new Date(2026, 10, 21, 10, 5).getTime() }], ["2026-11-21T10:05:07Z", { ms: Date.UTC(2026, 10, 21, 10, 5, 7) }],
  ["nonsense", null], ["25:00", null], ["", null], ["2026-13-01", null],
])("%j leads to %j", (typed, target) => {
  expect(parseTarget(typed, START)).toEqual(target);
});

test("sizes and durations", () => {
  expect([0, 999, 1_500, 1_000_000_000].map(size)).toEqual(["0 B", "999 B", "1.5 KB", "1.0 GB"]);
  expect([0, 59_999, 3_600_000, 90_000_000].map(duration)).toEqual(["0 s", "1 min 0 s", "1 h 0 min", "1 d 1 h"]);
});

test("spans of characters become spans of UTF-16", () => {
  expect(inUnits("😀a😀b", [[1, 2], [3, 4]])).toEqual([[2, 3], [5, 6]]);
  expect(inUnits("ab", [[0, 2]])).toEqual([[0, 2]]);
});
