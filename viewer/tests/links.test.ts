import { expect, test } from "vitest";
import { linksOf } from "../src/log/links";

const found = (text: string) => linksOf({ text }).map(({ from, to }) => text.slice(from, to));

test.each([
  ["see https://a.example/x?y=1&z=%20#top.", ["https://a.example/x?y=1&z=%20#top"]],
  ["(http://a.example/f_(x)), \"HTTPS://B.example\": 'http://c.example/'", ["http://a.example/f_(x)", "HTTPS://B.example", "http://c.example/"]],
  ["[https://a.example/[1]], <https://b.example>...", ["https://a.example/[1]", "https://b.example"]],
  ["\x1b[34mhttps://a.example/x\x1b[0m!", ["https://a.example/x"]],
  ["https://a.example/\u202egpj", ["https://a.example/"]],
  ["url=https://a.example, not xhttps://b.example or /https://c.example", ["https://a.example"]],
  ["javascript:alert(1)//https://a.example file:///x ftp://a.example https:// https://user:secret@a.example", []],
] as [string, string[]][])("links of %j", (text, links) => {
  expect(found(text)).toEqual(links);
});

test("a link leads where its text says, and a truncated URL is none", () => {
  expect(linksOf({ text: "https://a.example/b c" })).toEqual([{ from: 0, to: 19, href: "https://a.example/b" }]);
  expect(linksOf({ text: "https://a.example/b", fullLength: 5_000 })).toEqual([]);
});

test("time is linear in the length of a line", () => {
  const began = performance.now();
  for (const unit of ["https://", "https://a)", ")", "https://a/.,"]) found("https://a" + unit.repeat(20_000));
  expect(performance.now() - began).toBeLessThan(5_000);
});
