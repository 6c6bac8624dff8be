import { expect, test } from "vitest";
import type { RunFacts } from "../src/api";
import { time } from "../src/format";
import { stateOf } from "../src/ui/facts";

const facts = (more: Partial<RunFacts>): RunFacts => ({
  runId: "r", status: "open", end: null, lines: 1, bytes: 2, startedMs: 0, lastAppendMs: 0, lastHeartbeatMs: null, durationMs: 0, complete: false, pendingBytes: 0,
  outcome: "running", silentSinceMs: null, exitCode: null, signal: null, exception: null, failedStep: null, lostLines: 0, attempt: 1,
  firstRunId: "r", host: null, command: null, explanation: null, ...more,
});

test("a silent run shows its last sign of life, another one its state", () => {
  const since = 1_790_000_000_000;
  expect(stateOf(facts({ outcome: "silent", silentSinceMs: since }))[1]).toBe(`Silent since ${time(since)}`);
  expect(stateOf(facts({}))[1]).toBe("Running");
});
