/** Texts of the pages of dead letters. */

import type { LetterDetails, LetterId } from "../api";
import { plural, time } from "../format";
import { changeFailure, type Message } from "../ui/message";
import type { ErrorContext } from "../ui/notice";

export const ERROR_CONTEXT: ErrorContext = {
  missing: { title: "There is no such dead letter", next: "Its handler has accepted it since, somebody dropped it, or it has expired.", canRetry: true },
  forbidden: "You lack permission to see dead letters",
  token: "read logs (scope logs:read)",
};

export const named = ({ pipeline, handler }: LetterId): Message => [{ userText: handler }, " of ", { userText: pipeline }];
/** The scope that sending and dropping require. */
export const needed = (id: LetterId): Message => ["Sending it again and dropping it require the scope admin for ", { userText: `pipelines/${id.pipeline}` }, "."];

/** Progress of a request to send a letter again. */
export interface Progress { message: Message; kind: "wait" | "wrong" | "done" }

/** Progress by the letter: `before` are its attempts at the request, undefined without one; `waitedMs` since the request. */
export function progressOf(letter: LetterDetails, before: number | undefined, waitedMs: number): Progress | null {
  if (letter.resendRequestedAt !== null) {
    const late = waitedMs > LATE_MS ? " It takes longer than usual: the pipeline or the handler may be disabled, or its worker may be stopped. The request waits." : "";
    return { message: [`Requested at ${time(Date.parse(letter.resendRequestedAt))}. The pipeline's worker sends it at one of its next checkpoints.${late}`], kind: "wait" };
  }
  if (before === undefined) return null;
  if (letter.attempts > before) return { message: [`The handler failed again, at the ${ordinal(letter.attempts)} attempt: `, { userText: letter.reason }], kind: "wrong" };
  return { message: ["The request is no longer pending, and the letter is unchanged: send it again."], kind: "wrong" };
}

/** The letter is gone after a request. */
export const ACCEPTED: Progress = { message: ["The handler has accepted the event, and the letter is deleted, unless somebody dropped it meanwhile."], kind: "done" };
/** Requests that take longer than this are explained: a worker starts each minute. */
const LATE_MS = 120_000;

const ordinal = (value: number): string => `${value}${value % 100 > 10 && value % 100 < 14 ? "th" : (["th", "st", "nd", "rd"][value % 10] ?? "th")}`;

export const resendEffects = (letter: LetterDetails): Message[] => [
  [`The handler receives the event again, outside of the order of its run, and at least once. It has failed in ${plural(letter.attempts, "attempt")}; if the cause remains, it will fail again.`],
  ["The pipeline's worker sends it at one of its next checkpoints, and deletes the letter once the handler has accepted it."],
];
export const DROP_EFFECTS: Message[] = [["The letter is deleted, and the handler does not receive this event again. The event stays in the run's log. This cannot be undone."]];

/** Why a change failed, or that its result is unknown. */
export const letterError = (error: unknown, id: LetterId): Message => changeFailure(error, "letter", {
  403: needed(id),
  404: ["The letter does not exist anymore, or its pipeline is gone: somebody sent or dropped it, it has expired, or the pipeline's file was deleted."],
  409: ["The letter has changed meanwhile: reload the page."],
});
