import { expect, test } from "vitest";
import type { Page } from "../src/api";
import { Lines } from "../src/log/lines";
import { VisibleLines } from "../src/log/visible";

const TOTAL = 1_000;

function shown(matches: number[] | null, context: number) {
  const requests: [number, number][] = [];
  const lines = new Lines(async (after, limit): Promise<Page> => {
    requests.push([after, limit]);
    const end = Math.min(TOTAL, after + limit);
    const logs = Array.from({ length: end - after }, (_, at) => `line ${after + at}`).join("\n");
    return { logs, after: end < TOTAL ? String(end) : null, total: TOTAL, streaming: false };
  });
  lines.total = TOTAL;
  const visible = new VisibleLines(lines, (line) => (line % 100 === 50 ? `match ${line}` : undefined));
  visible.filter(matches, context);
  const numbers = () => Array.from({ length: visible.total }, (_, index) => visible.number(index));
  return { visible, numbers, requests };
}

test.each([
  [[0, 5, 999], 0, [0, 5, 999], [false, true, true]],
  [[0, 3, 998], 1, [0, 1, 2, 3, 4, 997, 998, 999], [false, false, false, false, false, true, false, false]],
  [[], 3, [], []],
])("lines around matches in %j, %i of them", (matches, context, numbers, gaps) => {
  const { visible, numbers: shownNumbers } = shown(matches, context);
  expect(shownNumbers()).toEqual(numbers);
  expect(numbers.map((_, index) => visible.isAfterGap(index))).toEqual(gaps);
  numbers.forEach((number, index) => expect([visible.index(number), visible.has(number)]).toEqual([index, true]));
});

test("without a filter, all lines", () => {
  const { visible } = shown(null, 3);
  expect([visible.total, visible.number(7), visible.index(7), visible.has(7), visible.isAfterGap(7)]).toEqual([TOTAL, 7, 7, true, false]);
});

test("matches are shown without requests, and only missing lines around them are fetched", async () => {
  const { visible, requests } = shown([50, 150], 0);
  await visible.ensureLoaded(0, 2, () => undefined);
  expect([visible.get(0)?.text, visible.get(1)?.text, requests]).toEqual(["match 50", "match 150", []]);
  expect(visible.get(0)).toBe(visible.get(0));
  visible.filter([50, 60, 150], 1);
  const loads = [visible.ensureLoaded(0, 3, () => undefined), visible.ensureLoaded(0, 9, () => undefined)];
  await Promise.all(loads);
  expect(requests).toEqual([[49, 3], [59, 3], [149, 3]]);
  expect(visible.get(8)?.text).toBe("line 151");
});

const range = (first: number, last: number) => ({ first, last, name: "Load", state: "failed", sign: "✗", kind: "failed" });

test("folded lines are hidden, nested and adjacent folds too, and a line within is revealed", async () => {
  const { visible, numbers, requests } = shown(null, 0);
  visible.folds.setSteps([range(10, 900), range(40, 50)]);
  visible.folds.toggleStep(10);
  visible.folds.foldGroup(20, 30);
  visible.folds.foldGroup(901, 990);
  expect(numbers()).toEqual([0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 901, 991, 992, 993, 994, 995, 996, 997, 998, 999]);
  numbers().forEach((number, index) => expect([visible.index(number), visible.has(number)]).toEqual([index, true]));
  expect([visible.index(500), visible.has(500), visible.has(990)]).toEqual([10, false, false]);
  await visible.ensureLoaded(0, 14, () => undefined);
  expect(requests).toEqual([[0, 256], [901, 256]]);
  expect(visible.parts(8, 13, 1)).toEqual([[7, 12], [900, 903], [990, 993]]);
  expect(visible.get(10)?.step).toEqual({ name: "Load", state: "failed", sign: "✗", kind: "failed", lines: 891, isFolded: true });
  expect(visible.get(10)).toBe(visible.get(10));
  visible.folds.reveal(10);
  expect(visible.has(11)).toBe(false);
  visible.folds.reveal(25);
  expect([visible.has(25), visible.has(500), visible.has(950)]).toEqual([true, true, false]);
});

test("a folded step stays folded while it grows, also by lines that are not known yet, until its range is gone", () => {
  const { visible, numbers } = shown(null, 0);
  visible.folds.setSteps([range(2, 900)]);
  visible.folds.toggleStep(2);
  visible.folds.setSteps([range(2, TOTAL + 5)]);
  expect(numbers()).toEqual([0, 1, 2]);
  visible.folds.setSteps([range(3, 900)]);
  expect(visible.total).toBe(TOTAL);
});
