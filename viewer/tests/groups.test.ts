import { expect, test } from "vitest";
import { endPattern, GroupScan, lastLine } from "../src/log/groups";

const LOG = [
  "::group::Install", "npm ci", "::endgroup::", // 0
  "2026-11-21T10:00:00.0000000Z ##[group]Run make", "2026-11-21T10:00:01.0000000Z ok", // 3
  "##[group]Next", "text with ::endgroup:: within", "##[endgroup]", // 5
  "\x1b[0Ksection_start:1560896352:build.all\r\x1b[0KBuild", "section_start:1560896353:step\r\x1b[0KStep", "compiled", // 8
  "section_end:1560896354:buildXall\r\x1b[0K", "section_end:1560896354:step\r\x1b[0K", // 11
  "section_end:1560896354:build.all\r\x1b[0K\x1b[0Ksection_start:1560896355:test\r\x1b[0KTest", "never ends", // 13
];

test.each([[0, 2], [3, 4], [5, 7], [8, 12], [9, 12], [13, null], [1, null], [6, null]])("the group at line %i ends with line %s", async (line, last) => {
  const search = async (pattern: string, after: number) => {
    const at = LOG.findIndex((text, number) => number >= after && number < after + 2 && new RegExp(pattern).test(text));
    const matches = at < 0 ? [] : [{ line: at, text: LOG[at] ?? "", spans: [] }];
    return { matches, after: after + 2 < LOG.length ? String(after + 2) : null, scannedLines: 2, scannedBytes: 0, total: LOG.length };
  };
  expect(await lastLine(line, LOG[line] ?? "", search)).toBe(last);
});

test.each(["group", "a line of ::group::", "##[endgroup]", "my_section_start:1:a", "section_start:x:a"])("%j begins no group", (text) => {
  expect(endPattern(text)).toBeNull();
});

test("groups of lines that are read in order", () => {
  const scan = new GroupScan();
  expect(LOG.map((text, number) => scan.next(number, text)).flat()).toEqual([[0, 2], [3, 4], [5, 7], [9, 12], [8, 12]]);
});
