import { expect, test } from "vitest";
import type { LetterDetails } from "../src/api";
import { ApiError } from "../src/errors";
import { letterError, progressOf } from "../src/letters/messages";
import { plain } from "../src/ui/message";

const ID = { pipeline: "audit", handler: "files", fqn: "a.b", runId: "r", line: 0 };
const letter = (facts: Partial<LetterDetails>): LetterDetails => ({ reason: "down", trace: "", attempts: 4, failedAt: "", resendRequestedAt: null, event: { time: 0, level: "", logger: "", message: "", step: "", data: {} }, truncated: false, ...facts });
const REQUESTED = "2026-11-21T12:00:00.000Z";

test.each<[string, Partial<LetterDetails>, number | undefined, number, string | null]>([
  ["nothing was requested", {}, undefined, 0, null],
  ["pending", { resendRequestedAt: REQUESTED }, 4, 1_000, "Requested at 2026-11-21 12:00:00. The pipeline's worker sends it at one of its next checkpoints."],
  ["pending for long", { resendRequestedAt: REQUESTED }, 4, 200_000, "The request waits."],
  ["failed again", { attempts: 22 }, 21, 0, "The handler failed again, at the 22nd attempt: down"],
  ["failed again", { attempts: 12 }, 11, 0, "at the 12th attempt"],
  ["not pending and not tried", {}, 4, 0, "send it again"],
])("progress of a request: %s", (_, facts, before, waitedMs, text) => {
  const progress = progressOf(letter(facts), before, waitedMs);
  if (text === null) expect(progress).toBeNull();
  else expect(plain(progress!.message)).toContain(text);
});

test.each([
  [new ApiError(401, "expired"), "not signed in"],
  [new ApiError(403, "x"), "scope admin for pipelines/audit"],
  [new ApiError(404, "x"), "does not exist anymore"],
  [new ApiError(409, "x"), "has changed"],
  [new ApiError(0, "x"), "may have been applied"],
  [new ApiError(400, "x"), "rejected"],
  [new TypeError("x"), "reload"],
])("an error names the next step: %s", (error, text) => expect(plain(letterError(error, ID))).toContain(text));
