import { expect, test } from "vitest";
import { allPages, batches, type Completeness, loadUntil, mergeCompleteness } from "../src/paging";

test("pages are loaded until one has no next page", async () => {
  const starts: (string | null)[] = [];
  const pages = await allPages<{ steps: number[] }>(async (after) => {
    starts.push(after);
    return after === null ? { steps: [1, 2], after: "2" } : { steps: [3], after: null };
  });
  expect(starts).toEqual([null, "2"]);
  expect(pages.flatMap((page) => page.steps)).toEqual([1, 2, 3]);
});

test.each([
  { sizes: [0, 0, 2, 9], items: 2, cursor: "3" }, // enough
  { sizes: [0, 0, 0, 0, 9], items: 0, cursor: "4" }, // at most four requests
  { sizes: [1, 0], items: 1, cursor: null }, // the end
])("pages of $sizes items are loaded until there are two items", async ({ sizes, items, cursor }) => {
  const load = async (from: string | null) => {
    const at = Number(from ?? 0);
    return { items: Array<number>(sizes[at]!).fill(at), cursor: at + 1 < sizes.length ? String(at + 1) : null };
  };
  const batch = await loadUntil(load, null, 2, 4);
  expect([batch.items.length, batch.cursor]).toEqual([items, cursor]);
});

test("names are sent in as few requests as an address allows", () => {
  expect(batches(Array.from({ length: 45 }, (_, at) => `p${at}`)).map((each) => each.length)).toEqual([20, 20, 5]);
  expect(batches(["é".repeat(600), "b", "é".repeat(600), "é".repeat(900)]).map((each) => each.length)).toEqual([2, 1, 1]);
  expect(batches([])).toEqual([]);
});

test("merged completeness has the writers of all pages and the latest state", () => {
  const page = (state: Completeness["state"], writer: string, lost: string[]): Completeness => ({ state, sealed: true, writers: [{ writer }], lost });
  expect(mergeCompleteness([page("pending", "a", ["a"]), page("lost", "b", ["b"])])).toEqual({
    state: "lost", sealed: true, writers: [{ writer: "a" }, { writer: "b" }], lost: ["a", "b"],
  });
});
