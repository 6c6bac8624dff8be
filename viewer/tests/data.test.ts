import { expect, test } from "vitest";
import { dataText } from "../src/log/data";

const body = (data: string) => `{"events": [{"line": 3, "data": ${data}}], "after": null}`;

test.each([
  ["what would act on a page is an escape", '{"a\u202e": "\\u0007\u2028\u0085\u200b"}', '{\n  "a\\u202e": "\\u0007\\u2028\\u0085\\u200b"\n}'],
  ["markup is text", '{"a": "<img src=x onerror=alert(1)>"}', '{\n  "a": "<img src=x onerror=alert(1)>"\n}'],
  ["names of JavaScript's own", '{"__proto__": {"toJSON": 1}, "toString": 1}', '{\n  "__proto__": {\n    "toJSON": 1\n  },\n  "toString": 1\n}'],
])("%s", (_, data, text) => {
  expect(dataText(body(data))).toBe(text);
});

test("numbers are shown as they were sent, where the browser can", () => {
  const isExact = "rawJSON" in JSON;
  expect(dataText(body('{"id": 12345678901234567890}'))).toContain(isExact ? "12345678901234567890" : "12345678901234567000");
});

test("there may be none", () => {
  expect(dataText('{"events": [], "after": null}')).toBeNull();
});
