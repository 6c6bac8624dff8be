import { expect, test } from "vitest";
import { duration, size } from "../src/format";
import { parseTarget } from "../src/log/moment";
import { inUnits } from "../src/log/spans";

const START = new Date(2026, 10, 21, 23, 30, 20).getTime();
test.each([
  ["1", { line: 0 }], ["1,234", { line: 1233 }], ["L20", { line: 19 }], ["line 5", { line: 4 }],
  ["23:30", { ms: new Date(2026, 10, 21, 23, 30).getTime() }], ["00:10:05", { ms: new Date(2026, 10, 22, 0, 10, 5).getTime() }],
  ["2026-11-21 10:05", { ms: new Date(2026, 10, 21, 10, 5).getTime() }], ["2026-11-21T10:05:07Z", { ms: Date.UTC(2026, 10, 21, 10, 5, 7) }],
  ["nonsense", null], ["25:00", null], ["", null], ["2026-13-01", null],
])("the target of %j is %j", (typed, target) => {
  expect(parseTarget(typed, START)).toEqual(target);
});

test("sizes and durations", () => {
  expect([0, 999, 1_500, 1_000_000_000].map(size)).toEqual(["0 B", "999 B", "1.5 KB", "1.0 GB"]);
  expect([0, 59_999, 3_600_000, 90_000_000].map(duration)).toEqual(["0 s", "1 min 0 s", "1 h 0 min", "1 d 1 h"]);
});

test("spans of characters are converted to UTF-16 units", () => {
  expect(inUnits("😀a😀b", [[1, 2], [3, 4]])).toEqual([[2, 3], [5, 6]]);
  expect(inUnits("ab", [[0, 2]])).toEqual([[0, 2]]);
});
