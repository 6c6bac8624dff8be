/** Dialogs: keyboard shortcuts, and sign-in with a token. */

import type { Config } from "../api";
import { el } from "../dom";
import { type ApiError, LoginError } from "../errors";
import { begin } from "../login";
import { type LoginConfig, session } from "../session";

const KEYS: [string, string][] = [
  ["/", "Search the log, or filter runs or pipelines by name"],
  ["n, N", "Next match, previous match"],
  ["m", "Matches only, or all lines"],
  ["e, E", "Next error, previous error"],
  ["g", "Go to a line or a time"],
  ["Home, End", "First line, last line"],
  ["s", "Steps of the run: arrow keys move and fold, Enter shows a step's log"],
  ["j, k", "Scroll one line down, up; in a list of runs, files or dead letters, the next, previous one"],
  ["f", "Follow the end of the log"],
  ["w", "Wrap long lines"],
  ["c", "Copy the selected lines, or the visible ones"],
  ["d", "Download the log"],
  ["t", "Switch between dark and light theme"],
  ["Esc", "Close, show all lines, or clear the search or the selection"],
  ["?", "Show this list"],
];

export function dialog(title: string | Node, id: string, ...content: (Node | string)[]): HTMLDialogElement {
  const node = el("dialog", { "aria-labelledby": id }, el("h2", { id }, title), ...content);
  node.addEventListener("close", () => node.remove());
  document.body.append(node);
  node.showModal();
  return node;
}

const isOpen = (): boolean => document.querySelector("dialog[open]") !== null;

export function showKeys(): void {
  if (isOpen()) return;
  const rows = KEYS.map(([keys, action]) => el("div", {}, el("dt", {}, ...keys.split(", ").map((key) => el("kbd", {}, key))), el("dd", {}, action)));
  const close = el("button", { class: "primary", onclick: () => node.close() }, "Close");
  const hint = el("p", { class: "soft" }, "Click a line's number to select it, Shift-click to select a range. The page's URL then leads to these lines.");
  const node: HTMLDialogElement = dialog("Keyboard shortcuts", "keys", el("dl", { class: "keys" }, ...rows), hint, el("p", { class: "actions" }, close));
}

const READ_LOGS = "read logs (scope logs:read)";
let pending: Promise<boolean> | null = null;

/** Have the user log in, or enter a token. Returns whether there is one now; a login leaves the page, to return to `place`. Concurrent calls share one
 * dialog. */
export function requestToken(config: Config | null, error: ApiError | null, place: string, permission = READ_LOGS): Promise<boolean> {
  pending ??= signIn(config, error, place, permission).finally(() => (pending = null));
  return pending;
}

function signIn(config: Config | null, error: ApiError | null, place: string, permission: string): Promise<boolean> {
  if (config?.auth === "iam") return explainSignatures();
  return new Promise((resolve) => {
    const reason = error instanceof LoginError ? error.message
      : session.token && error ? `The token was rejected: ${error.message}.`
      : config?.login ? `Log in to ${permission}.` : `Paste a token with permission to ${permission}.`;
    const input = el("input", { id: "token", type: "password", autocomplete: "off", spellcheck: "false", required: true, "aria-describedby": "token-reason" });
    const cancel = el("button", { type: "button", onclick: () => node.close() }, "Cancel");
    const form = el(
      "form", {},
      el("label", { for: "token" }, "Token"), input,
      el("p", { class: "soft" }, "The browser keeps the token in this tab until you close it."),
      el("p", { class: "actions" }, !config?.login && cancel, el("button", { type: "submit", class: "primary" }, "Sign in")),
    );
    form.addEventListener("submit", (event) => {
      event.preventDefault();
      session.set(input.value.trim().replace(/^Bearer\s+/i, ""));
      node.close("submitted");
    });
    const text = el("p", { id: "token-reason", dir: "auto" }, reason);
    const ways = config?.login ? [loginButton(config.login, place, text, cancel), el("details", {}, el("summary", {}, "Use a token"), form)] : [form];
    const node: HTMLDialogElement = dialog("Sign in", "sign-in", text, ...ways);
    node.addEventListener("close", () => resolve(node.returnValue === "submitted"));
  });
}

function loginButton(config: LoginConfig, place: string, text: HTMLElement, cancel: HTMLElement): HTMLElement {
  const button = el("button", { class: "primary", autofocus: true }, `Log in at ${new URL(config.issuer).host}`);
  button.addEventListener("click", () => {
    button.disabled = true;
    begin(config, place).catch((error: unknown) => {
      button.disabled = false;
      text.setAttribute("role", "alert");
      text.textContent = error instanceof LoginError ? error.message : "Unexpected error in this page. Reload it.";
    });
  });
  return el("p", { class: "actions" }, cancel, button);
}

function explainSignatures(): Promise<boolean> {
  return new Promise((resolve) => {
    const node: HTMLDialogElement = dialog(
      "Requests must be signed", "sign-in",
      el("p", {}, "This installation requires requests signed with AWS credentials (SigV4), which a web page cannot create. Use a client or a proxy that signs requests."),
      el("p", { class: "actions" }, el("button", { class: "primary", onclick: () => node.close() }, "Close")),
    );
    node.addEventListener("close", () => resolve(false));
  });
}
