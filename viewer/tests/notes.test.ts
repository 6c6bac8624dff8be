import { expect, test, vi } from "vitest";
import type { Event } from "../src/api";
import { MOST_PARTS, MOST_PARTS_OF_A_LINE, notesOf, safeLink } from "../src/log/notes";

const event = (message: string, ...annotations: [number, unknown][]): Event => ({
  line: 0, lines: message.split("\n").length, severity: null, hasData: false, message, annotations: annotations.map(([position, note]) => ({ position, note })),
});

test.each([
  ["https://example.com/a?b#c", "https://example.com/a?b#c"],
  ["HTTP://EXAMPLE.com", "http://example.com/"],
  ["javascript:alert(1)", undefined],
  ["java\nscript:alert(1)", undefined],
  [" javascript:alert(1)", undefined],
  ["data:text/html,<script>1</script>", undefined],
  ["file:///etc/passwd", undefined],
  ["//example.com", undefined],
  ["/relative", undefined],
  ["", undefined],
  [["https://example.com"], undefined],
  [undefined, undefined],
])("%j leads to %j", (address, leads) => {
  expect(safeLink(address)).toBe(leads);
});

test("links and colours stand where they are told, in characters", () => {
  const { notes } = notesOf(event("a 😀 link\nred", [4, { kind: "link", length: 4, href: "https://x.org/" }], [9, { kind: "colour", length: 3, colour: "red" }]));
  expect(notes.get(0)).toEqual([{ from: 5, to: 9, href: "https://x.org/" }]);
  expect(notes.get(1)).toEqual([{ from: 0, to: 3, colour: 1 }]);
});

test("a note over several lines is one for each", () => {
  const { notes } = notesOf(event("one\n\nthree", [1, { kind: "colour", length: 6, colour: "#AAbb00" }]));
  expect([...notes]).toEqual([[0, [{ from: 1, to: 3, colour: "#AAbb00" }]], [2, [{ from: 0, to: 2, colour: "#AAbb00" }]]]);
});

test("a fold goes to the end, or as far as it says", () => {
  expect(notesOf(event("a\nb\nc\nd", [0, { kind: "fold" }], [2, { kind: "fold", length: 3 }])).folds).toEqual([{ line: 0, last: 3 }, { line: 1, last: 2 }]);
  expect(notesOf(event("alone", [0, { kind: "fold" }])).folds).toEqual([]);
});

test.each([
  [0, null], [0, "text"], [0, 7], [0, []], [0, {}], [0, { kind: "script", length: 3 }], [0, { kind: "colour", length: 3, colour: "url(x)" }],
  [0, { kind: "colour", length: 3, colour: "red;}" }], [0, { kind: "link", length: -1, href: "https://x" }], [1e9, { kind: "link", length: 5, href: "https://x" }],
  [0.5, { kind: "fold" }], [0, { kind: "link", length: "3", href: "https://x" }],
])("what is no note that this page knows is left out: %j %j", (position, note) => {
  const found = notesOf(event("abc\ndef", [position, note]));
  expect([found.notes.size, found.folds.length]).toEqual([0, 0]);
});

const red = (length: number): [number, unknown] => [0, { kind: "colour", length, colour: "red" }];
const repeated = <T>(count: number, item: T): T[] => Array<T>(count).fill(item);

test.each([
  ["lines", "x\n".repeat(40_000)], ["empty lines", "\n".repeat(80_000)], ["lines outside of the basic plane", "😀\n".repeat(20_000)],
])("many notes over many %s are cut at a limit", (_, message) => {
  const { notes, parts } = notesOf(event(message, ...repeated(1_000, red(message.length))));
  expect(parts).toBe(MOST_PARTS);
  expect([...notes.values()].reduce((sum, each) => sum + each.length, 0)).toBeLessThanOrEqual(MOST_PARTS);
});

test("many notes on one line are cut at a limit", () => {
  const { notes } = notesOf(event("one\ntwo", ...repeated(1_000, red(7))));
  expect([...notes.values()].map((each) => each.length)).toEqual([MOST_PARTS_OF_A_LINE, MOST_PARTS_OF_A_LINE]);
});

test("no part of the work is repeated for each note", () => {
  const message = "😀x\n".repeat(1_000);
  const characters = vi.spyOn(String.prototype, "codePointAt");
  const folds = repeated<[number, unknown]>(500, [3, { kind: "fold", length: 2_000 }]);
  notesOf(event(message, ...folds, ...repeated(500, red(3_000))));
  const calls = characters.mock.calls.length;
  vi.restoreAllMocks();
  expect(calls).toBe([...message].length);
});

test("notes of lines behind a limit of their own are left out", () => {
  expect([...notesOf(event("a\nb\nc", red(5)), 2).notes.keys()]).toEqual([0, 1]);
});
