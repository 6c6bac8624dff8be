import { expect, test } from "vitest";
import type { Event } from "../src/api";
import { StepLog } from "../src/steps/steplog";

const bytes = new TextEncoder();
const text = new TextDecoder();

/** A step with these events, whose answers have so many bytes; `grow` adds to it. */
function step(events: Event[], answerBytes = 50, isOpen = false) {
  const state = { events, isOpen, asked: [] as number[] };
  const whole = () => bytes.encode(state.events.map((event) => event.message + "\n").join(""));
  const source = {
    text: async (start: number) => {
      state.asked.push(start);
      let next = Math.min(start + answerBytes, whole().length);
      while (((whole()[next] ?? 0) & 0xc0) === 0x80) next -= 1; // never inside of a character
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

const said = (message: string, ...annotations: Event["annotations"]): Event => ({ line: 0, lines: message.split("\n").length, severity: "ERROR", hasData: false, message, annotations });
const shown = (log: StepLog) => Array.from({ length: log.total }, (_, place) => log.get(place)?.text);

test("it is read as far as somebody looks", async () => {
  const { state, source } = step(Array.from({ length: 2_000 }, (_, index) => said(`line ${index}`)), 1_000);
  const log = new StepLog(source);
  await log.want(0, 10, () => {});
  expect(log.total).toBeGreaterThan(200);
  expect(log.total).toBeLessThan(500);
  await log.want(0, 2_000, () => {});
  expect(shown(log)).toEqual(Array.from({ length: 2_000 }, (_, index) => `line ${index}`));
  expect(log.isComplete).toBe(true);
  const asked = state.asked.length;
  await log.want(0, 5_000, () => {});
  expect(state.asked).toHaveLength(asked);
});

test("a step that runs is asked on where it was", async () => {
  const { state, source } = step([said("one")], 1_000, true);
  const log = new StepLog(source);
  await log.want(0, 100, () => {});
  await log.poll(() => {});
  expect(shown(log)).toEqual(["one"]);
  state.events.push(said("two\nlines", { position: 0, note: { kind: "colour", length: 3, colour: "red" } }));
  await log.poll(() => {});
  await log.settled();
  expect(shown(log)).toEqual(["one", "two", "lines"]);
  expect(log.notes.get(1)).toEqual([{ from: 0, to: 3, colour: 1 }]);
  expect([0, 1, 2, 3].map((line) => log.marks.get(line)?.severity)).toEqual(["ERROR", "ERROR", "ERROR", undefined]);
  state.isOpen = false;
  await log.poll(() => {});
  expect(log.isComplete).toBe(true);
});

test("what is folded is not shown, and lines keep their numbers", async () => {
  const { source } = step([said("a"), said("head\n  1\n  2", { position: 0, note: { kind: "fold" } }), said("b")]);
  const log = new StepLog(source);
  await log.want(0, 10, () => {});
  await log.settled();
  expect(shown(log)).toEqual(["a", "head", "  1", "  2", "b"]);
  log.toggle(1);
  expect(shown(log)).toEqual(["a", "head", "b"]);
  expect([log.get(2)?.number, log.get(1)?.fold]).toEqual([4, { lines: 2, isFolded: true }]);
  expect([log.placeOf(3), log.placeOf(4)]).toEqual([1, 2]);
  expect(log.texts(1, 4)).toEqual(["head", "  1", "  2", "b"]);
  log.toggle(1);
  expect(log.total).toBe(5);
});

test("more than a page should hold is not fetched", async () => {
  const { source } = step(Array.from({ length: 1_000 }, () => said("x".repeat(100))), 5_000);
  const log = new StepLog(source, null, 20_000);
  await log.want(0, 1_000, () => {});
  expect(log.isCut).toBe(true);
  expect(log.total).toBeLessThan(200);
});

test("a long line is kept cut, and fetched whole when somebody asks", async () => {
  const long = "ü".repeat(5_000);
  const { source } = step([said("first ü"), said(long), said("last")], 4_000);
  const log = new StepLog(source);
  await log.want(0, 10, () => {});
  expect(log.get(1)).toMatchObject({ cut: 5_000, number: 1 });
  expect((await log.whole(1)).slice(0, 1_000)).toBe(long.slice(0, 1_000));
  expect(log.get(2)?.text).toBe("last");
});

test("events that cannot be had cost the notes alone", async () => {
  const { source } = step([said("one")]);
  const log = new StepLog({ ...source, events: () => Promise.reject(new Error("gone")) });
  await log.want(0, 10, () => {});
  await log.settled();
  expect(shown(log)).toEqual(["one"]);
});
