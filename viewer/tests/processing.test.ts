import { expect, test } from "vitest";
import type { Handler, Processing } from "../src/api";
import { ApiError } from "../src/errors";
import { addressOf, parsePlace } from "../src/place";
import { handlerNotes, handlerState, isOff, notesOf, plain, refusal, replaying, replayTime, stateOf, switching, switchingHandler } from "../src/processing/words";

const handler = (more: Partial<Handler> = {}): Handler => ({ name: "files", state: "enabled", reason: null, since: null, at: null, errors: 0, ...more });
const pipeline = (more: Partial<Processing> = {}): Processing => ({
  name: "audit", state: "running", told_at: null, lag_events: 0, lag_s: 0, runs: 0, events: 0, late: 0, dropped: 0, dead_letters: 0, errors: 0,
  last_error: null, replay_from: null, handlers: [handler()], ...more,
});
const all = (change: { says: (string | { foreign: string })[][] }): string => change.says.map(plain).join("\n");
const NOW = new Date(2026, 10, 21, 12, 0, 0).getTime();

test("the page has an address, and a pipeline's runs win over it", () => {
  expect(parsePlace("?pipelines", "")).toEqual({ isProcessing: true });
  expect(parsePlace("?pipelines=", "#L1")).toEqual({ isProcessing: true });
  expect(addressOf({ isProcessing: true })).toBe("?pipelines");
  expect(parsePlace("?pipelines&p=svc", "")).toEqual({ fqn: "svc" });
});

test("a state of a later version is said as it is", () => {
  expect(stateOf(pipeline({ state: "resting" as "new" }))).toEqual(["done", "resting", ""]);
  expect(handlerState(handler({ state: "resting" as "failed" }))[1]).toBe("resting");
});

test("only what is not as always is noted", () => {
  expect(notesOf(pipeline())).toBe("");
  expect(notesOf(pipeline({ replay_from: new Date(NOW).toISOString() }))).toBe("A replay from 2026-11-21 12:00:00 on has not begun yet");
  expect(notesOf(pipeline({ runs: 1, late: 1200, dropped: 1 }))).toBe("1 run in hand · 1,200 events came late · 1 event of deleted logs");
});

test("a handler that gets nothing says why, since when and from where; one that gets events says nothing", () => {
  expect(handlerNotes(handler({ reason: "of before", since: new Date(NOW).toISOString() }))).toEqual([]);
  const given = handler({ state: "disabled", reason: "down", since: new Date(NOW - 60_000).toISOString(), at: { run: "svc/r", line: 0 } });
  expect(plain(handlerNotes(given, NOW))).toBe("down. Since 2026-11-21 11:59:00, 1 min ago, at line 1 of svc/r.");
  expect(handlerNotes(given, NOW).filter((word) => typeof word !== "string")).toEqual([{ foreign: "down" }, { foreign: "svc/r" }]);
  expect(plain(handlerNotes(handler({ state: "failed" }), NOW))).toBe("");
});

test.each([["enabled", false, "disable"], ["replaying", false, "disable"], ["disabled", true, "enable"], ["failed", true, "enable"]] as const)(
  "a handler that is %s: off %s, and may be %sd", (state, off, action) => {
    expect([isOff(handler({ state })), switchingHandler(pipeline(), handler({ state })).action]).toEqual([off, action]);
  });

test.each([["new", "disable"], ["running", "disable"], ["silent", "disable"], ["disabled", "enable"]] as const)("a pipeline that is %s may be %sd", (state, action) => {
  expect(switching(pipeline({ state })).action).toBe(action);
});

test("a change names the handler, and says what waits and what is replaced", () => {
  expect(switchingHandler(pipeline(), handler()).handler).toBe("files");
  expect(all(switchingHandler(pipeline(), handler()))).toContain("the pipeline's only handler");
  expect(all(switching(pipeline({ state: "disabled", lag_events: 1 })))).toContain("1 event or more waits.");
  expect(all(replaying(pipeline({ replay_from: new Date(NOW).toISOString() })))).toContain("the replay from 2026-11-21 12:00:00 on");
  expect(all(replaying(pipeline({ state: "disabled" })))).toContain("begins after it is enabled");
});

test.each([
  ["2026-11-21T11:00", NOW - 3_600_000, "Everything from 2026-11-21 11:00:00 on, 1 h ago."],
  ["2026-11-21T12:00:01", null, "2026-11-21 12:00:01 is in the future: there is nothing to replay."],
  ["", null, "Give a day and a time."], ["nonsense", null, "Give a day and a time."],
])("a replay from %j", (given, ms, said) => {
  expect(replayTime(given, NOW)).toEqual({ ms, said });
});

test("whether a change was made is not known where no answer came, and known where it was refused", () => {
  expect(plain(refusal(new ApiError(0, "no answer came"), "a"))).toContain("may have been made");
  expect(plain(refusal(new ApiError(503, "away"), "a"))).toContain("may have been made");
  expect(plain(refusal(new ApiError(400, "bad"), "a"))).toBe("The server refused it. The server says: bad.");
  expect(refusal(new ApiError(403, "no"), "<b>")).toContainEqual({ foreign: "pipelines/<b>" });
  expect(plain(refusal(new TypeError("x"), "a"))).toContain("reload");
});
