import { expect, test, vi } from "vitest";
import type { Event } from "../src/api";
import { annotationsOf, MAX_PARTS, MAX_PARTS_PER_LINE, safeLink } from "../src/log/annotations";

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
])("the link of %j is %j", (address, link) => {
  expect(safeLink(address)).toBe(link);
});

test("positions of links and colours count characters", () => {
  const { annotations } = annotationsOf(event("a 😀 link\nred", [4, { kind: "link", length: 4, href: "https://x.org/" }], [9, { kind: "colour", length: 3, colour: "red" }]));
  expect(annotations.get(0)).toEqual([{ from: 5, to: 9, href: "https://x.org/" }]);
  expect(annotations.get(1)).toEqual([{ from: 0, to: 3, colour: 1 }]);
});

test("an annotation over several lines has a part on each", () => {
  const { annotations } = annotationsOf(event("one\n\nthree", [1, { kind: "colour", length: 6, colour: "#AAbb00" }]));
  expect([...annotations]).toEqual([[0, [{ from: 1, to: 3, colour: "#AAbb00" }]], [2, [{ from: 0, to: 2, colour: "#AAbb00" }]]]);
});

test("a fold extends to the end, or over its length", () => {
  expect(annotationsOf(event("a\nb\nc\nd", [0, { kind: "fold" }], [2, { kind: "fold", length: 3 }])).folds).toEqual([{ line: 0, last: 3 }, { line: 1, last: 2 }]);
  expect(annotationsOf(event("alone", [0, { kind: "fold" }])).folds).toEqual([]);
});

test.each([
  [0, null], [0, "text"], [0, 7], [0, []], [0, {}], [0, { kind: "script", length: 3 }], [0, { kind: "colour", length: 3, colour: "url(x)" }],
  [0, { kind: "colour", length: 3, colour: "red;}" }], [0, { kind: "link", length: -1, href: "https://x" }], [1e9, { kind: "link", length: 5, href: "https://x" }],
  [0.5, { kind: "fold" }], [0, { kind: "link", length: "3", href: "https://x" }],
])("invalid or unknown annotation is ignored: %j %j", (position, note) => {
  const result = annotationsOf(event("abc\ndef", [position, note]));
  expect([result.annotations.size, result.folds.length]).toEqual([0, 0]);
});

const red = (length: number): [number, unknown] => [0, { kind: "colour", length, colour: "red" }];
const repeated = <T>(count: number, item: T): T[] => Array<T>(count).fill(item);

test.each([
  ["lines", "x\n".repeat(40_000)], ["empty lines", "\n".repeat(80_000)], ["lines outside of the basic plane", "😀\n".repeat(20_000)],
])("the number of parts is limited for many annotations over many %s", (_, message) => {
  const { annotations, parts } = annotationsOf(event(message, ...repeated(1_000, red(message.length))));
  expect(parts).toBe(MAX_PARTS);
  expect([...annotations.values()].reduce((sum, each) => sum + each.length, 0)).toBeLessThanOrEqual(MAX_PARTS);
});

test("the number of parts of a line is limited", () => {
  const { annotations } = annotationsOf(event("one\ntwo", ...repeated(1_000, red(7))));
  expect([...annotations.values()].map((each) => each.length)).toEqual([MAX_PARTS_PER_LINE, MAX_PARTS_PER_LINE]);
});

test("the message is scanned once for all annotations", () => {
  const message = "😀x\n".repeat(1_000);
  const characters = vi.spyOn(String.prototype, "codePointAt");
  const folds = repeated<[number, unknown]>(500, [3, { kind: "fold", length: 2_000 }]);
  annotationsOf(event(message, ...folds, ...repeated(500, red(3_000))));
  const calls = characters.mock.calls.length;
  vi.restoreAllMocks();
  expect(calls).toBe([...message].length);
});

test("annotations of lines after a given limit are ignored", () => {
  expect([...annotationsOf(event("a\nb\nc", red(5)), 2).annotations.keys()]).toEqual([0, 1]);
});
