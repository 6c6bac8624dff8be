import { expect, test } from "vitest";
import { dataText } from "../src/log/data";

const body = (data: string) => `{"events": [{"line": 3, "data": ${data}}], "after": null}`;

test.each([
  ["invisible characters are escaped", '{"a\u202e": "\\u0007\u2028\u0085\u200b"}', '{\n  "a\\u202e": "\\u0007\\u2028\\u0085\\u200b"\n}'],
  ["markup remains text", '{"a": "<img src=x onerror=alert(1)>"}', '{\n  "a": "<img src=x onerror=alert(1)>"\n}'],
  ["names of built-in properties", '{"__proto__": {"toJSON": 1}, "toString": 1}', '{\n  "__proto__": {\n    "toJSON": 1\n  },\n  "toString": 1\n}'],
])("%s", (_, data, text) => {
  expect(dataText(body(data))).toBe(text);
});

test("numbers keep their digits if the browser supports it", () => {
  const isExact = "rawJSON" in JSON;
  expect(dataText(body('{"id": 12345678901234567890}'))).toContain(isExact ? "12345678901234567890" : "12345678901234567000");
});

test("event without data", () => {
  expect(dataText('{"events": [], "after": null}')).toBeNull();
});
