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

test("folded lines are hidden, nested and adjacent folds too, and a line within is revealed", async () => {
  const { visible, numbers, requests } = shown(null, 0);
  visible.fold(10, 900);
  visible.fold(20, 30);
  visible.fold(901, 990);
  expect(numbers()).toEqual([0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 901, 991, 992, 993, 994, 995, 996, 997, 998, 999]);
  numbers().forEach((number, index) => expect([visible.index(number), visible.has(number)]).toEqual([index, true]));
  expect([visible.index(500), visible.has(500), visible.has(990)]).toEqual([10, false, false]);
  await visible.ensureLoaded(0, 14, () => undefined);
  expect(requests).toEqual([[0, 256], [901, 256]]);
  visible.unfold(25);
  expect([visible.has(25), visible.has(500), visible.has(950)]).toEqual([true, true, false]);
});
