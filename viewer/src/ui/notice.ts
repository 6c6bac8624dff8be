/** Error messages, with the next step for the user. */

import { ApiError, LoginError } from "../errors";
import { el } from "../dom";

/** Error texts of a page that shows no log: for status 404, if that has a meaning there, and 403, and the permission that a token needs. */
export interface ErrorContext { missing?: ErrorText; forbidden: string; token: string }
export interface ErrorText { title: string; next: string; canRetry: boolean; canSignIn?: boolean }

export const GONE = "The run was deleted: nobody can read it any more, and its id cannot be used again.";

export function errorText(error: unknown, context?: ErrorContext): ErrorText {
  if (error instanceof LoginError) return { title: error.isAway ? "The login server does not respond" : "You are not signed in", next: error.message, canRetry: true, canSignIn: true };
  if (!(error instanceof ApiError)) return { title: "Unexpected error in this page", next: "Reload the page; if the error persists, contact the operator.", canRetry: true };
  if (error.status === 401) return { title: "You are not signed in", next: error.message, canRetry: false, canSignIn: true };
  if (error.status === 403) return { title: context?.forbidden ?? "You lack permission to read this", next: error.message, canRetry: false, canSignIn: true };
  if (error.status === 404 && context?.missing) return context.missing;
  if (error.status === 404 && !context) return { title: "Log not found", next: "The run may not have stored lines yet: this page retries automatically. If the run is older, check the URL; its log may have expired.", canRetry: true };
  if (error.status === 410) return { title: "The run was deleted", next: GONE, canRetry: false };
  if (error.status === 0) return { title: "The server does not respond", next: "It may be restarting, or you are offline. This page keeps retrying.", canRetry: true };
  if (error.status >= 500) return { title: "Server error", next: `${error.message}. This page keeps retrying.`, canRetry: true };
  return { title: "The server rejected the request", next: error.message, canRetry: true };
}

export function notice(error: unknown, retry: () => void, signIn: () => void, context?: ErrorContext): HTMLElement {
  const text = errorText(error, context);
  return el(
    "div", { class: "notice", role: "alert" },
    el("h2", {}, text.title), el("p", { dir: "auto" }, text.next),
    el("p", { class: "actions" },
      text.canSignIn && el("button", { class: "primary", onclick: signIn }, "Sign in"),
      text.canRetry && el("button", { class: "primary", onclick: retry }, "Try again")),
  );
}
