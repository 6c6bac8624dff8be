import { expect, test } from "vitest";
import type { Handler, Processing } from "../src/api";
import { ApiError } from "../src/errors";
import { addressOf, parsePlace } from "../src/place";
import {
  changeError, detailsOf, handlerDetails, handlerState, handlerToggleChange, isOff, replayChange, replayTime, stateOf, toggleChange, type Change,
} from "../src/processing/messages";
import { plain } from "../src/ui/message";

const handler = (more: Partial<Handler> = {}): Handler => ({ name: "files", state: "enabled", reason: null, since: null, at: null, errors: 0, ...more });
const pipeline = (more: Partial<Processing> = {}): Processing => ({
  name: "audit", state: "running", told_at: null, lag_events: 0, lag_s: 0, runs: 0, events: 0, late: 0, dropped: 0, dead_letters: 0, errors: 0,
  last_error: null, replay_from: null, handlers: [handler()], ...more,
});
const effects = (change: Change): string => change.effects.map(plain).join("\n");
const NOW = new Date(2026, 10, 21, 12, 0, 0).getTime();

test("the page has a URL; a pipeline's runs take precedence", () => {
  expect(parsePlace("?pipelines", "")).toEqual({ isProcessing: true });
  expect(parsePlace("?pipelines=", "#L1")).toEqual({ isProcessing: true });
  expect(addressOf({ isProcessing: true })).toBe("?pipelines");
  expect(parsePlace("?pipelines&p=svc", "")).toEqual({ fqn: "svc" });
});

test("an unknown state is shown by its name", () => {
  expect(stateOf(pipeline({ state: "resting" as "new" }))).toEqual(["done", "resting", ""]);
  expect(handlerState(handler({ state: "resting" as "failed" }))[1]).toBe("resting");
});

test("details show exceptions only", () => {
  expect(detailsOf(pipeline())).toBe("");
  expect(detailsOf(pipeline({ replay_from: new Date(NOW).toISOString() }))).toBe("A replay from 2026-11-21 12:00:00 on is pending");
  expect(detailsOf(pipeline({ runs: 1, late: 1200, dropped: 1 }))).toBe("1 active run · 1,200 late events · 1 event of deleted logs dropped");
});

test("a disabled handler shows its reason, time and event; an enabled one shows no details", () => {
  expect(handlerDetails(handler({ reason: "an earlier reason", since: new Date(NOW).toISOString() }))).toEqual([]);
  const disabled = handler({ state: "disabled", reason: "down", since: new Date(NOW - 60_000).toISOString(), at: { run: "svc/r", line: 0 } });
  expect(plain(handlerDetails(disabled, NOW))).toBe("down. Since 2026-11-21 11:59:00, 1 min ago, at line 1 of svc/r.");
  expect(handlerDetails(disabled, NOW).filter((word) => typeof word !== "string")).toEqual([{ userText: "down" }, { userText: "svc/r" }]);
  expect(plain(handlerDetails(handler({ state: "failed" }), NOW))).toBe("");
});

test.each([["enabled", false, "disable"], ["replaying", false, "disable"], ["disabled", true, "enable"], ["failed", true, "enable"]] as const)(
  "handler in state %s: off %s, action %s", (state, off, action) => {
    expect([isOff(handler({ state })), handlerToggleChange(pipeline(), handler({ state })).action]).toEqual([off, action]);
  });

test.each([["new", "disable"], ["running", "disable"], ["silent", "disable"], ["disabled", "enable"]] as const)("pipeline in state %s: action %s", (state, action) => {
  expect(toggleChange(pipeline({ state })).action).toBe(action);
});

test("a change names the handler, waiting events and a replaced replay", () => {
  expect(handlerToggleChange(pipeline(), handler()).handler).toBe("files");
  expect(effects(handlerToggleChange(pipeline(), handler()))).toContain("the pipeline's only handler");
  expect(effects(toggleChange(pipeline({ state: "disabled", lag_events: 1 })))).toContain("At least 1 event is waiting.");
  expect(effects(replayChange(pipeline({ replay_from: new Date(NOW).toISOString() })))).toContain("the pending replay from 2026-11-21 12:00:00 on");
  expect(effects(replayChange(pipeline({ state: "disabled" })))).toContain("begins after it is enabled");
});

test.each([
  ["2026-11-21T11:00", NOW - 3_600_000, "All events from 2026-11-21 11:00:00 on, 1 h ago."],
  ["2026-11-21T12:00:01", null, "2026-11-21 12:00:01 is in the future: there is nothing to replay."],
  ["", null, "Enter a date and a time."], ["nonsense", null, "Enter a date and a time."],
])("a replay from %j", (input, ms, message) => {
  expect(replayTime(input, NOW)).toEqual({ ms, message });
});

test("the result of a change is unknown without a response, and known after a rejection", () => {
  expect(plain(changeError(new ApiError(0, "no response"), "a"))).toContain("may have been applied");
  expect(plain(changeError(new ApiError(503, "away"), "a"))).toContain("may have been applied");
  expect(plain(changeError(new ApiError(400, "bad"), "a"))).toBe("The server rejected the request. Error: bad.");
  expect(changeError(new ApiError(403, "no"), "<b>")).toContainEqual({ userText: "pipelines/<b>" });
  expect(plain(changeError(new TypeError("x"), "a"))).toContain("reload");
});
