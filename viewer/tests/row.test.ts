import { expect, test } from "vitest";
import type { Annotation } from "../src/log/annotations";
import { parseLine } from "../src/log/ansi";
import { partsOf } from "../src/log/row";
import type { Span } from "../src/log/spans";

const COLOURS = ["\x1b[31m", "\x1b[0m", "", "", "\x07", "\x85", "\u202e"];
const chance = (seed: number) => () => (seed = (seed * 1_103_515_245 + 12_345) % 2 ** 31) / 2 ** 31;

/** The look of each displayed character, determined separately from all spans and annotations. */
function expected(raw: string, spans: Span[], annotations: Annotation[]): string[] {
  return parseLine(raw).flatMap((piece) =>
    [...Array(piece.text.length).keys()].map((at) => {
      const offset = piece.at + (piece.isControl ? 0 : at);
      const isHit = spans.some(([from, to]) => offset >= from && offset < to);
      const annotation = annotations.findLast(({ from, to }) => offset >= from && offset < to);
      return `${piece.text[at]} ${isHit} ${annotation?.colour}`;
    }),
  );
}

test.each(Array.from({ length: 200 }, (_, seed) => seed))("parts have the look of each of their characters, seed %i", (seed) => {
  const next = chance(seed + 1);
  const any = (limit: number) => Math.floor(next() * limit);
  const raw = Array.from({ length: 12 }, () => "abcdefgh".slice(any(8)) + (COLOURS[any(COLOURS.length)] ?? "")).join("");
  const spans: Span[] = [];
  for (let at = any(9); at < raw.length; at += 1 + any(20)) spans.push([at, (at += 1 + any(6))]);
  const annotations = Array.from({ length: 4 }, (_, colour) => { const from = any(raw.length); return { from, to: from + any(20), colour }; });
  const parts = partsOf(parseLine(raw), spans, annotations);
  const looks = parts.flatMap((part) => part.text.split("").map((char) => `${char} ${part.isHit} ${part.annotation?.colour}`));
  expect(looks).toEqual(expected(raw, spans, annotations));
});
