/** What went wrong, and what to do next. */

import { ApiError } from "../api";
import { el } from "../dom";

/** What a page is about, where that is no log. `missing` and `forbidden` are titles; `token` is what a token must be good for. */
export interface About { missing: Said; forbidden: string; token: string }
export interface Said { title: string; next: string; canRetry: boolean; canSignIn?: boolean }

export function saying(error: unknown, about?: About): Said {
  if (!(error instanceof ApiError)) return { title: "Something went wrong in this page", next: "Reload it; if that does not help, tell the operator.", canRetry: true };
  if (error.status === 401) return { title: "You are not signed in", next: error.message, canRetry: false, canSignIn: true };
  if (error.status === 403) return { title: about?.forbidden ?? "You may not read this", next: error.message, canRetry: false, canSignIn: true };
  if (error.status === 404 && about) return about.missing;
  if (error.status === 404) return { title: "There is no such log", next: "Its first lines may not have arrived yet: this page looks again by itself. If the run is older, check the address; a log may have expired.", canRetry: true };
  if (error.status === 0) return { title: "The server does not answer", next: "It may be restarting, or you are offline. This page goes on trying.", canRetry: true };
  if (error.status >= 500) return { title: "The server is in trouble", next: `It says: ${error.message}. This page goes on trying.`, canRetry: true };
  return { title: "The server refused this", next: error.message, canRetry: true };
}

export function notice(error: unknown, retry: () => void, signIn: () => void, about?: About): HTMLElement {
  const said = saying(error, about);
  return el(
    "div", { class: "notice", role: "alert" },
    el("h2", {}, said.title), el("p", { dir: "auto" }, said.next),
    el("p", { class: "actions" },
      said.canSignIn && el("button", { class: "primary", onclick: signIn }, "Use a token"),
      said.canRetry && el("button", { class: "primary", onclick: retry }, "Try again")),
  );
}
