import { expect, test } from "vitest";
import type { EventOutline, Severity } from "../src/api";
import { RunOutline } from "../src/log/outline";

/** A server with these events: number of lines, level, data. Pages have three events. */
function served(...rows: [number, Severity | null, boolean?][]) {
  const events: EventOutline[] = [];
  const requests: number[] = [];
  const add = (lines: number, severity: Severity | null, hasData = false) => {
    const last = events.at(-1);
    events.push({ line: last ? last.line + last.lines : 0, lines, severity, hasData });
  };
  for (const [lines, severity, hasData] of rows) add(lines, severity, hasData);
  const fetch = async (after: number) => {
    requests.push(after);
    const from = events.filter((event) => event.line >= after);
    return { events: from.slice(0, 3), after: from.length > 3 ? String(from[3]?.line) : null };
  };
  return { events, requests, add, fetch };
}

/** Load the marks of a range, and of others. */
async function loaded(outline: RunOutline, from: number, to: number, ...others: [number, number][]) {
  await new Promise<void>((resolve) => {
    outline.ensureLoaded([[from, to], ...others], () => {});
    setTimeout(resolve);
  });
  return Array.from({ length: to - from }, (_, index) => outline.get(from + index));
}

const outlineOf = (server: ReturnType<typeof served>) => new RunOutline(server.fetch, () => Promise.resolve());

test("all lines of an event have its level, its first line the data; lower levels are not highlighted", async () => {
  const server = served([1, "INFO"], [2, "ERROR", true], [1, "WARNING"], [1, null], [1, "DEBUG", true], [1, "CRITICAL"]);
  const marks = await loaded(outlineOf(server), 0, 7);
  expect(marks.map((mark) => mark?.severity)).toEqual([undefined, "ERROR", "ERROR", "WARNING", undefined, null, "CRITICAL"]);
  expect(marks.map((mark) => mark?.dataLine)).toEqual([undefined, 1, undefined, undefined, undefined, 5, undefined]);
});

test("loaded marks are not requested again", async () => {
  const server = served(...Array.from({ length: 9 }, (): [number, Severity] => [1, "ERROR"]));
  const outline = outlineOf(server);
  await loaded(outline, 0, 9);
  const requests = server.requests.length;
  await loaded(outline, 2, 8);
  expect(server.requests).toHaveLength(requests);
});

test("the last event of a running log is reloaded for new lines and another level", async () => {
  const server = served([1, "INFO"], [1, null]);
  const outline = outlineOf(server);
  await loaded(outline, 0, 2);
  Object.assign(server.events[1] as EventOutline, { lines: 3, severity: "ERROR" });
  server.add(1, "INFO");
  expect((await loaded(outline, 0, 5)).map((mark) => mark?.severity)).toEqual([undefined, "ERROR", "ERROR", "ERROR", undefined]);
  expect(server.requests).toEqual([0, 1]);
});

test("a range in the middle is loaded with lines before it, and gaps are closed", async () => {
  const server = served(...Array.from({ length: 600 }, (_, line): [number, Severity] => [1, line % 2 ? "ERROR" : "INFO"]));
  const outline = outlineOf(server);
  const isError = async (from: number, to: number) => (await loaded(outline, from, to)).map((mark) => mark?.severity === "ERROR");
  expect(await isError(500, 502)).toEqual([false, true]);
  expect(server.requests[0]).toBe(300);
  expect(await isError(496, 506)).toEqual(Array.from({ length: 10 }, (_, index) => index % 2 === 1));
  await loaded(outline, 0, 2, [598, 600]);
  expect([1, 599, 400].map((line) => outline.get(line)?.severity)).toEqual(["ERROR", "ERROR", undefined]);
});

test("requests to an unavailable server are retried with backoff", async () => {
  const pauses: number[] = [];
  const outline = new RunOutline(() => Promise.reject(new Error("unavailable")), async (ms) => {
    pauses.push(ms);
    if (pauses.length > 8) outline.stop();
  });
  outline.ensureLoaded([[0, 10]], () => {});
  await new Promise((resolve) => setTimeout(resolve));
  expect(pauses).toEqual([1_000, 2_000, 4_000, 8_000, 16_000, 30_000, 30_000, 30_000, 30_000]);
});
