import { expect, test } from "vitest";
import type { Event } from "../src/api";
import { StepLog } from "../src/steps/steplog";

const bytes = new TextEncoder();
const text = new TextDecoder();

/** A step with these events, and a source with responses of at most `responseBytes`. */
function step(events: Event[], responseBytes = 50, isOpen = false) {
  const state = { events, isOpen, requests: [] as number[] };
  const whole = () => bytes.encode(state.events.map((each) => each.message + "\n").join(""));
  const source = {
    text: async (start: number) => {
      state.requests.push(start);
      let next = Math.min(start + responseBytes, whole().length);
      while (((whole()[next] ?? 0) & 0xc0) === 0x80) next -= 1; // not within a character
      return { text: text.decode(whole().slice(start, next)), next, complete: !state.isOpen && next >= whole().length };
    },
    events: async (after: string | null) => {
      const from = Number(after ?? 0);
      const to = Math.min(from + 3, state.events.length);
      return { events: state.events.slice(from, to), after: to < state.events.length ? String(to) : null };
    },
  };
  return { state, source };
}

const event = (message: string, ...annotations: Event["annotations"]): Event => ({ line: 0, lines: message.split("\n").length, severity: "ERROR", hasData: false, message, annotations });
const visible = (log: StepLog) => Array.from({ length: log.total }, (_, index) => log.get(index)?.text);

test("lines are loaded on demand", async () => {
  const { state, source } = step(Array.from({ length: 2_000 }, (_, index) => event(`line ${index}`)), 1_000);
  const log = new StepLog(source);
  await log.ensureLoaded(0, 10, () => {});
  expect(log.total).toBeGreaterThan(200);
  expect(log.total).toBeLessThan(500);
  await log.ensureLoaded(0, 2_000, () => {});
  expect(visible(log)).toEqual(Array.from({ length: 2_000 }, (_, index) => `line ${index}`));
  expect(log.isComplete).toBe(true);
  const requests = state.requests.length;
  await log.ensureLoaded(0, 5_000, () => {});
  expect(state.requests).toHaveLength(requests);
});

test("a running step is polled from its last byte", async () => {
  const { state, source } = step([event("one")], 1_000, true);
  const log = new StepLog(source);
  await log.ensureLoaded(0, 100, () => {});
  await log.poll(() => {});
  expect(visible(log)).toEqual(["one"]);
  state.events.push(event("two\nlines", { position: 0, note: { kind: "colour", length: 3, colour: "red" } }));
  await log.poll(() => {});
  await log.settled();
  expect(visible(log)).toEqual(["one", "two", "lines"]);
  expect(log.annotations.get(1)).toEqual([{ from: 0, to: 3, colour: 1 }]);
  expect([0, 1, 2, 3].map((line) => log.marks.get(line)?.severity)).toEqual(["ERROR", "ERROR", "ERROR", undefined]);
  state.isOpen = false;
  await log.poll(() => {});
  expect(log.isComplete).toBe(true);
});

test("folded lines are hidden, and lines keep their numbers", async () => {
  const { source } = step([event("a"), event("head\n  1\n  2", { position: 0, note: { kind: "fold" } }), event("b"), event("::group::c\nd\n::endgroup::")]);
  const log = new StepLog(source);
  await log.ensureLoaded(0, 10, () => {});
  await log.settled();
  expect(visible(log)).toEqual(["a", "head", "  1", "  2", "b", "::group::c", "d", "::endgroup::"]);
  log.toggle(1);
  log.toggle(5);
  expect(visible(log)).toEqual(["a", "head", "b", "::group::c"]);
  expect([log.number(2), log.get(1)?.fold]).toEqual([4, { lines: 2, isFolded: true }]);
  expect([log.indexOf(3), log.indexOf(4)]).toEqual([1, 2]);
  expect(log.texts(1, 4)).toEqual(["head", "  1", "  2", "b"]);
  log.toggle(1);
  log.toggle(5);
  expect(log.total).toBe(8);
});

test("loading stops at the size limit", async () => {
  const { source } = step(Array.from({ length: 1_000 }, () => event("x".repeat(100))), 5_000);
  const log = new StepLog(source, null, 20_000);
  await log.ensureLoaded(0, 1_000, () => {});
  expect(log.isTruncated).toBe(true);
  expect(log.total).toBeLessThan(200);
});

test("a long line is truncated, and its full text is fetched on demand", async () => {
  const long = "ü".repeat(5_000);
  const { source } = step([event("first ü"), event(long), event("last")], 4_000);
  const log = new StepLog(source);
  await log.ensureLoaded(0, 10, () => {});
  expect([log.number(1), log.get(1)]).toMatchObject([1, { fullLength: 5_000 }]);
  expect((await log.fullLine(1)).slice(0, 1_000)).toBe(long.slice(0, 1_000));
  expect(log.get(2)?.text).toBe("last");
  expect(await log.fullLine(2)).toBe("last");
});

test("lines are loaded even if their events are not available", async () => {
  const { source } = step([event("one")]);
  const log = new StepLog({ ...source, events: () => Promise.reject(new Error("gone")) });
  await log.ensureLoaded(0, 10, () => {});
  await log.settled();
  expect(visible(log)).toEqual(["one"]);
});
