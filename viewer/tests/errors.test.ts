import { expect, test } from "vitest";
import { MAX_REQUESTS, nextError, previousError } from "../src/log/errors";

/** A server whose events have one line; of these lines, some are errors. Pages have 1,000 events, as the server's. */
function served(total: number, errors: number[]) {
  const requests: number[] = [];
  const fetch = async (after: number) => {
    requests.push(after);
    const events = Array.from({ length: Math.min(1000, total - after) }, (_, at) => {
      const line = after + at;
      return { line, lines: 1, severity: errors.includes(line) ? ("ERROR" as const) : null, hasData: false };
    });
    return { events, after: after + 1000 < total ? String(after + 1000) : null };
  };
  return { fetch, requests };
}

test.each([
  ["next", 5, 2500, 4],
  ["next", 2500, 2501, 1],
  ["next", 2501, null, 1],
  ["next", -1, 5, 1],
  ["previous", 2501, 2500, 1],
  ["previous", 2500, 5, 4],
  ["previous", 5, null, 1],
  ["previous", 0, null, 0],
] as const)("%s error from line %i is %s, by %i requests at most", async (by, from, line, most) => {
  const { fetch, requests } = served(3000, [5, 2500, 2501]);
  const found = await (by === "next" ? nextError : previousError)(fetch, from);
  expect(found).toMatchObject({ line, isEnd: line === null });
  expect(requests.length).toBeLessThanOrEqual(most);
});

test.each([[nextError, 0, 99_000], [previousError, 99_999, 1_000]] as const)("a long search ends, and its repetitions reach the error", async (find, from, error) => {
  const { fetch, requests } = served(100_000, [error]);
  let found = await find(fetch, from);
  expect(found).toMatchObject({ line: null, isEnd: false });
  expect(requests).toHaveLength(MAX_REQUESTS);
  for (let times = 0; times < 8 && found.line === null; times += 1) found = await find(fetch, found.reached);
  expect(found.line).toBe(error);
});
