import { expect, test } from "vitest";
import { allStates, copyable, lastState, parseLine, plain } from "../src/log/ansi";

const styled = (line: string) => parseLine(line).map(({ text, style }) => [text, style]);

test("colours start and end at their escapes", () => {
  expect(styled("a\x1b[31mb\x1b[1mc\x1b[0md")).toEqual([["a", {}], ["b", { fg: 1 }], ["c", { fg: 1, bold: true }], ["d", {}]]);
  expect(styled("\x1b[92;44;4mx\x1b[39;49;24my")).toEqual([["x", { fg: 10, bg: 4, underline: true }], ["y", {}]]);
});

test("256-colour palette and RGB colours", () => {
  expect(styled("\x1b[38;5;196mx")).toEqual([["x", { fg: "#ff0000" }]]);
  expect(styled("\x1b[38;5;9mx")).toEqual([["x", { fg: 9 }]]);
  expect(styled("\x1b[48;5;244mx")).toEqual([["x", { bg: "#808080" }]]);
  expect(styled("\x1b[38;2;1;2;3;1mx")).toEqual([["x", { fg: "#010203", bold: true }]]);
});

test.each(["38;2;300;0;0", "38;2;1", "38;5", "38;5;999", "38;9;1", "99999999999999999999", ";;;", "?25"])("invalid colour %s is ignored", (codes) => {
  expect(plain(`\x1b[${codes}mx`)).toBe("x");
});

test.each([
  ["\x1b[2J\x1b[10;10Hx", "x"],
  ["\x1b]0;a title\x07x", "x"],
  ["\x1b]8;;javascript:alert(1)\x1b\\link\x1b]8;;\x1b\\", "link"],
  ["\x1bPq#0;2;0;0;0\x1b\\x", "x"],
  ["\x1b(Bx\x1b7\x1b=", "x"],
  ["\x9b31mx", "x"],
  ["\x1b]52;c;cm0gLXJm\x07x", "x"],
  ["\x1b]0;never ends", "0;never ends"],
  ["\x1bPx\x1b[31mhidden", "xhidden"],
  ["\x9dx\x90y\x9cz", "U+009Dxz"],
  ["a\x1b", "a␛"],
])("escape without a style is removed: %j", (line, text) => {
  expect(plain(line)).toBe(text);
});

test("control characters are replaced by signs", () => {
  expect(plain("a\0b\x08c\x7f\td\r")).toBe("a␀b␈c␡\td");
  expect(plain("50%\r100%")).toBe("50%␍100%");
  expect(plain("user\u202egpj.exe\u2066")).toBe("userU+202Egpj.exeU+2066");
  expect(plain("\x85\u2028")).toBe("U+0085U+2028");
});

test.each([
  ["10 %\r50 %\r\x1b[32m100 %", "100 %", 2],
  ["10 %\r50 %\r", "50 %", 1],
  ["\r\x1b[2Kdone\r\r", "done", 0],
  ["plain\r", "plain", 0],
  ["\x1b]0;title\x07\x1b[1mbold\x1b[0m\0\x1b", "bold\0", 0],
  ["", "", 0],
])("of %j, the last state is displayed and copied without escapes", (raw, copied, earlier) => {
  expect(copyable(raw)).toBe(copied);
  const pieces = parseLine(raw);
  const last = lastState(pieces);
  expect(last.earlier).toBe(earlier);
  expect(pieces.slice(last.start).map(({ text }) => text).join("").replace(/\u240d+$/, "")).toBe(plain(raw.includes("\x1b]") ? raw : copied));
});

test("all states are lines", () => {
  expect(allStates("10 %\r\x1b[1m100 %\u202e\r")).toBe("10 %\n100 %U+202E");
});

test("other scripts are unchanged", () => {
  for (const text of ["שלום", "مرحبا", "日本語", "👩‍👩‍👧", "é", "<b>&amp;</b>"]) expect(plain(text)).toBe(text);
});

test("each piece has its offset in the raw line", () => {
  const line = "a\x1b[31mbc\x1b[0m\0d";
  for (const piece of parseLine(line)) expect(piece.isControl || line.startsWith(piece.text, piece.at)).toBe(true);
});

test("parsing time is linear in the number of escapes", () => {
  const began = performance.now();
  for (const unit of ["\x1b[", "\x1b]", "\x1b[31m", "\x1b[1;", "\x1bP\x1b", "\x9d", "\x9dx", "\x1b]x\x9d"]) plain(unit.repeat(200_000 / unit.length));
  expect(performance.now() - began).toBeLessThan(10_000);
}, 30_000);
