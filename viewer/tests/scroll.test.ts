import { expect, test } from "vitest";
import { MAX_PX, ScrollMap } from "../src/log/scroll";

test("a log below the height limit is scrolled pixel by pixel", () => {
  const map = new ScrollMap(1_000, 20, 600);
  expect(map.heightPx).toBe(20_000);
  map.scrolled(130);
  expect(map.line).toBe(6.5);
  map.scrolled(19_400);
  expect(map.line).toBe(970);
  expect(map.isAtEnd).toBe(true);
});

test("a short log does not scroll", () => {
  const map = new ScrollMap(3, 20, 600);
  expect([map.range, map.heightPx, map.show(2), map.line]).toEqual([0, 600, 0, 0]);
});

for (const lines of [5_000_000, 300_000_000]) {
  test(`${lines} lines: small steps scroll by pixels, long ones by share, and both ends can be reached`, () => {
    const map = new ScrollMap(lines, 20, 600);
    expect(map.heightPx).toBe(MAX_PX + 600);
    map.scrolled(MAX_PX / 2);
    expect(map.line).toBeCloseTo((lines - 30) / 2, 0);
    const before = map.line;
    map.scrolled(MAX_PX / 2 + 100);
    expect(map.line).toBeCloseTo(before + 5, 3);
    map.scrolled(MAX_PX);
    expect(map.line).toBe(lines - 30);
    map.scrolled(0);
    expect(map.line).toBe(0);
  });

  test(`${lines} lines: each can be scrolled to the top, where it stays when the bar settles`, () => {
    const map = new ScrollMap(lines, 20, 600);
    for (const line of [0, 1, 12_345, lines / 2 + 1, lines - 31]) {
      const bar = map.show(line);
      expect(map.line).toBeCloseTo(line, 6);
      expect(map.settle()).toBe(bar);
      expect(map.line).toBeCloseTo(line, 6);
    }
  });
}

test("small steps reach the end", () => {
  const map = new ScrollMap(5_000_000, 20, 600);
  let bar = map.show(4_999_000);
  for (let step = 0; step < 2_000 && !map.isAtEnd; step += 1) {
    map.scrolled(Math.min(map.barRange, bar + 100));
    bar = map.settle();
  }
  expect(map.isAtEnd).toBe(true);
});

test("the last line of a wrapped log can be scrolled to the top", () => {
  const map = new ScrollMap(100, 20, 600, true);
  map.show(99);
  expect(map.line).toBe(99);
});

test("a growing log keeps its scroll position", () => {
  const map = new ScrollMap(5_000_000, 20, 600);
  map.show(1_000_000);
  map.lines = 6_000_000;
  map.settle();
  expect(map.line).toBe(1_000_000);
});
