/** Messages that quote text of users. */

import { name } from "../dom";
import { ApiError } from "../errors";

/** User-supplied text within a message. */
export interface UserText { userText: string }
export type Message = (string | UserText)[];

export const render = (message: Message): (Node | string)[] => message.map((part) => (typeof part === "string" ? part : name(part.userText)));
export const plain = (message: Message): string => message.map((part) => (typeof part === "string" ? part : part.userText)).join("");

/** Why a change of a `subject` failed, or that its result is unknown. `reasons`: those of this change, by the status of the response. */
export function changeFailure(error: unknown, subject: string, reasons: Record<number, Message>): Message {
  if (!(error instanceof ApiError)) return [`Unexpected error in this page: reload it, and check the ${subject} before you retry.`];
  return [...(reasons[error.status] ?? commonReason(error)), " Error: ", { userText: error.message }, "."];
}

function commonReason(error: ApiError): Message {
  if (error.status === 401) return ["You are not signed in."];
  if (error.isTransient) return ["The server did not respond, or is unavailable. The change may have been applied: check before you retry."];
  return ["The server rejected the request."];
}
