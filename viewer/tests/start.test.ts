import { expect, test } from "vitest";
import type { ListedRun, RunResult } from "../src/api";
import { ATTENTION, DEFAULT, emptyText, nextOrder, OUTCOMES, toggled, type Column, type Outcome } from "../src/start/filter";
import { groups, refreshed } from "../src/start/order";
import { describe } from "../src/start/sparkline";

const run = (runId: string, more: Partial<ListedRun> = {}): ListedRun => ({ fqn: "a", runId, firstRunId: runId, attempt: 1, outcome: "failed", durationMs: 0, startedMs: 0, ...more }) as ListedRun;
const runs = (ids: string): ListedRun[] => [...ids].map((id) => run(id));
const ids = (listed: ListedRun[]): string => listed.map(({ runId }) => runId).join("");

test.each([
  { known: "abcdef", fresh: "xab", isWhole: false, isFull: true, result: "xabcdef", isKept: true }, // one more, three read
  { known: "abcdef", fresh: "bad", isWhole: false, isFull: true, result: "badef", isKept: true }, // b moved up, c has ended
  { known: "abc", fresh: "xyz", isWhole: false, isFull: true, result: "xyz", isKept: false }, // nothing in common: start over
  { known: "abc", fresh: "", isWhole: false, isFull: false, result: "abc", isKept: true }, // the server found none so far
  { known: "abc", fresh: "ab", isWhole: true, isFull: false, result: "ab", isKept: false },
  { known: "ab", fresh: "xab", isWhole: false, isFull: true, result: "xab", isKept: false },
])("$known with $fresh read again is $result", ({ known, fresh, isWhole, isFull, result, isKept }) => {
  const listed = refreshed(runs(known), runs(fresh), isWhole, isFull);
  expect([ids(listed.runs), listed.isKept]).toEqual([result, isKept]);
});

const LISTED = [
  run("a", { fqn: "z", outcome: "succeeded", durationMs: 5 }), run("b~2", { firstRunId: "b", attempt: 2, durationMs: 1 }),
  run("c", { fqn: "m", outcome: "lost", durationMs: 9 }), run("b", { durationMs: 99 }), run("b", { fqn: "m", durationMs: 3 }),
];
test.each<[Column | null, boolean, string]>([
  [null, false, "a b~2+b c b"], ["pipeline", false, "b~2+b c b a"], ["pipeline", true, "a c b b~2+b"], ["outcome", false, "b~2+b b c a"], ["duration", true, "c a b b~2+b"],
])("runs by %s, descending %s", (column, isDescending, expected) => {
  const order = column && { column, isDescending };
  expect(groups(LISTED, order).map((each) => each.map(({ runId }) => runId).join("+")).join(" ")).toBe(expected);
});

test("a click on an outcome shows it alone, then adds and removes", () => {
  expect(toggled(ATTENTION, "lost")).toEqual(["lost"]);
  expect(toggled(OUTCOMES, "lost")).toEqual(["lost"]);
  expect(toggled(["lost"], "failed")).toEqual(["failed", "lost"]);
  expect(toggled(["lost"], "lost")).toEqual(ATTENTION);
});

test("a column sorts one way, the other way, and no longer", () => {
  const clicks = (column: Column) => [1, 2, 3].reduce<(ReturnType<typeof nextOrder>)[]>((all) => [...all, nextOrder(all.at(-1)!, column)], [null]).slice(1);
  expect(clicks("pipeline").map((order) => order?.isDescending)).toEqual([false, true, undefined]);
  expect(clicks("duration").map((order) => order?.isDescending)).toEqual([true, false, undefined]);
});

test("an empty list says what was looked for", () => {
  expect(emptyText(DEFAULT)).toBe("No failed, lost or silent runs in the last 24 hours.");
  expect(emptyText({ ...DEFAULT, outcomes: ["failed"] })).toBe("No failed runs in the last 24 hours.");
  expect(emptyText({ ...DEFAULT, outcomes: OUTCOMES, period: "1h", text: "x" })).toBe("No runs in the last hour whose pipeline or run id contains “x”.");
});

test("a sparkline is described in words", () => {
  const result = (outcome: Outcome, durationMs: number): RunResult => ({ runId: "r", outcome, startedMs: 0, durationMs });
  expect(describe([result("succeeded", 4_000), result("failed", 123_000), result("succeeded", 9_000)])).toBe("Last 3 runs: 1 failed, 2 succeeded, 4 s to 2 min 3 s");
  expect(describe([result("running", 0)])).toBe("Last run: 1 running, 0 s");
});
