/** What stands over the page: the keys, and the question for a token. */

import type { Config } from "../api";
import { el } from "../dom";
import { session } from "../session";

const KEYS: [string, string][] = [
  ["/", "Search in the run, or pipelines by name"],
  ["n, N", "Next match, match before"],
  ["g", "Go to a line or a time"],
  ["Home, End", "First line, last line"],
  ["s", "The steps of the run: arrow keys walk and fold, Enter shows a step's log"],
  ["j, k", "A line down, up"],
  ["f", "Follow: stay at the end"],
  ["w", "Wrap long lines"],
  ["c", "Copy the selected lines, or those in view"],
  ["d", "Download the log"],
  ["t", "Dark or light"],
  ["Esc", "Close, or forget the search or the selection"],
  ["?", "This list"],
];

function dialog(title: string, id: string, ...content: (Node | string)[]): HTMLDialogElement {
  const node = el("dialog", { "aria-labelledby": id }, el("h2", { id }, title), ...content);
  node.addEventListener("close", () => node.remove());
  document.body.append(node);
  node.showModal();
  return node;
}

const isOpen = (): boolean => document.querySelector("dialog[open]") !== null;

export function showKeys(): void {
  if (isOpen()) return;
  const rows = KEYS.map(([keys, what]) => el("div", {}, el("dt", {}, ...keys.split(", ").map((key) => el("kbd", {}, key))), el("dd", {}, what)));
  const close = el("button", { class: "primary", onclick: () => node.close() }, "Close");
  const hint = el("p", { class: "soft" }, "A click on a line's number selects it, with Shift up to there: the page's address then leads to these lines.");
  const node: HTMLDialogElement = dialog("Keys", "keys", el("dl", { class: "keys" }, ...rows), hint, el("p", { class: "actions" }, close));
}

let asking: Promise<boolean> | null = null;

/** Ask for a token. Answers whether there is one now. Several that ask at once share one question. */
export function askToken(config: Config | null, message: string): Promise<boolean> {
  asking ??= question(config, message).finally(() => (asking = null));
  return asking;
}

function question(config: Config | null, message: string): Promise<boolean> {
  if (config?.auth === "iam") return signatures();
  return new Promise((resolve) => {
    const input = el("input", { id: "token", type: "password", autocomplete: "off", spellcheck: "false", required: true, "aria-describedby": "token-why" });
    const form = el(
      "form", {},
      el("p", { id: "token-why" }, session.token ? `The token does not hold: ${message}.` : "This archive asks who you are. Paste a token that may read logs (scope logs:read)."),
      el("label", { for: "token" }, "Token"), input,
      el("p", { class: "soft" }, "It stays in this tab and is forgotten when you close it."),
      el("p", { class: "actions" },
        el("button", { type: "button", onclick: () => node.close() }, "Not now"), el("button", { type: "submit", class: "primary" }, "Sign in")),
    );
    form.addEventListener("submit", (event) => {
      event.preventDefault();
      session.token = input.value.trim().replace(/^Bearer\s+/i, "");
      node.close("given");
    });
    const node: HTMLDialogElement = dialog("Sign in", "sign-in", form);
    node.addEventListener("close", () => resolve(node.returnValue === "given"));
  });
}

function signatures(): Promise<boolean> {
  return new Promise((resolve) => {
    const node: HTMLDialogElement = dialog(
      "Requests must be signed", "sign-in",
      el("p", {}, "This stage lets in who signs requests with AWS credentials (SigV4), which a page cannot do. Read the log with a client that signs, or through a proxy that does."),
      el("p", { class: "actions" }, el("button", { class: "primary", onclick: () => node.close() }, "Close")),
    );
    node.addEventListener("close", () => resolve(false));
  });
}
