import { expect, test } from "vitest";
import type { Step } from "../src/api";
import { initiallyFolded, treeOf, visible } from "../src/steps/tree";

function step(id: string, parent: string | null = null, more: Partial<Step> = {}): Step {
  const times = { startedMs: 0, endedMs: 1, durationMs: 1 };
  return { step: id, name: id, parent, ...times, lines: 0, bytes: 0, errors: 0, firstLine: null, lineRanges: [], status: "succeeded", complete: true, ...more };
}

const shape = (steps: Step[], folded: string[] = []) => visible(treeOf(steps), new Set(folded)).map((node) => "  ".repeat(node.depth) + node.step.step);

test("each step is below its parent, in the given order", () => {
  const steps = [step("a"), step("b"), step("a1", "a"), step("b1", "b"), step("a2", "a"), step("a1x", "a1")];
  expect(shape(steps)).toEqual(["a", "  a1", "    a1x", "  a2", "b", "  b1"]);
  expect(shape(steps, ["a", "b1"])).toEqual(["a", "b", "  b1"]);
});

test("every step is in the tree once, even if parents are missing or form a cycle", () => {
  const steps = [step("a", "b"), step("b", "a"), step("self", "self"), step("child", "gone"), step("late", "child")];
  expect(shape(steps).map((line) => line.trim()).sort()).toEqual(["a", "b", "child", "late", "self"]);
});

test("a child may come before its parent", () => {
  expect(shape([step("child", "parent"), step("parent")])).toEqual(["parent", "  child"]);
});

test("successful steps are folded if there are many", () => {
  const many = Array.from({ length: 60 }, (_, index) => [step(`p${index}`), step(`c${index}`, `p${index}`, index === 7 ? { status: "failed" } : {})]).flat();
  expect(initiallyFolded(treeOf(many)).size).toBe(59);
  expect(initiallyFolded(treeOf(many)).has("p7")).toBe(false);
  expect(initiallyFolded(treeOf(many.slice(0, 20)))).toEqual(new Set());
});

test("very deep tree", () => {
  const deep = Array.from({ length: 20_000 }, (_, index) => step(`${index}`, index ? `${index - 1}` : null));
  expect(visible(treeOf(deep.slice(0, 3_000)), new Set()).at(-1)?.depth).toBe(2_999);
});
