import { expect, test } from "vitest";
import { type Completeness, joined, pagesOf, untilEnough } from "../src/paging";

test("pages are loaded until one names no next", async () => {
  const places: (string | null)[] = [];
  const pages = await pagesOf<{ steps: number[] }>(async (after) => {
    places.push(after);
    return after === null ? { steps: [1, 2], after: "2" } : { steps: [3], after: null };
  });
  expect(places).toEqual([null, "2"]);
  expect(pages.flatMap((page) => page.steps)).toEqual([1, 2, 3]);
});

test("a server without pages answers one", async () => {
  expect(await pagesOf(async () => ({ steps: [1] }))).toEqual([{ steps: [1] }]);
});

test.each([
  { sizes: [0, 0, 2, 9], items: 2, cursor: "3" }, // enough
  { sizes: [0, 0, 0, 0, 9], items: 0, cursor: "4" }, // four requests are the most
  { sizes: [1, 0], items: 1, cursor: null }, // the end
])("pages of $sizes items are searched until there are two", async ({ sizes, items, cursor }) => {
  const load = async (from: string | null) => {
    const at = Number(from ?? 0);
    return { items: Array<number>(sizes[at]!).fill(at), cursor: at + 1 < sizes.length ? String(at + 1) : null };
  };
  const found = await untilEnough(load, null, 2, 4);
  expect([found.items.length, found.cursor]).toEqual([items, cursor]);
});

test("completeness has the writers of all pages and the latest state", () => {
  const page = (state: Completeness["state"], writer: string, lost: string[]): Completeness => ({ state, sealed: true, writers: [{ writer }], lost });
  expect(joined([page("pending", "a", ["a"]), page("lost", "b", ["b"])])).toEqual({
    state: "lost", sealed: true, writers: [{ writer: "a" }, { writer: "b" }], lost: ["a", "b"],
  });
});
