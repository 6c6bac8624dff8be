/** The frame around every page: where one is, who one is, what went wrong. */

import { api, ApiError, type Config } from "./api";
import { el, name } from "./dom";
import { addressOf, parsePlace, type Place } from "./place";
import { session } from "./session";
import { askToken, showKeys } from "./ui/dialogs";
import { notice, type About } from "./ui/notice";
import { applyTheme, isDark, switchTheme } from "./ui/theme";

/** A page of the viewer. `key` answers whether it took the key. */
export interface View {
  element: HTMLElement;
  key?(event: KeyboardEvent): boolean;
  /** The address leads to other lines of the same run. */
  moved?(place: Place): void;
  leave?(): void;
}

const RETRY_MS = 3_000;
/** A run that is not there may be about to begin: people open the address before its first line. */
const LOOK_AGAIN_MS = 5000;

export class App {
  config: Config | null = null;
  private view: View | null = null;
  private place: Place = {};
  private retrying = 0;
  private readonly crumbs = el("nav", { "aria-label": "Where you are", class: "crumbs" });
  private readonly processing = el("a", { href: addressOf({ isProcessing: true }), "data-go": true, class: "elsewhere", title: "Pipelines that process the events of runs" }, "Processing");
  private readonly user = el("button", { class: "quiet", hidden: true, onclick: () => this.signOut() }, "Sign out");
  private readonly theme = el("button", { class: "quiet icon", onclick: () => this.flip() });
  private readonly main = el("main", { id: "main", tabindex: -1 });

  constructor(private readonly open: (app: App, place: Place) => View) {}

  async start(): Promise<void> {
    applyTheme();
    this.showTheme();
    const help = el("button", { class: "quiet icon", onclick: showKeys, "aria-label": "Keys", title: "Keys (?)" }, "?");
    document.body.append(
      el("a", { class: "skip", href: "#main" }, "Skip to the content"),
      el("header", {}, this.crumbs, el("div", { class: "tools" }, this.processing, this.user, this.theme, help)), this.main,
    );
    addEventListener("popstate", () => this.arrive(parsePlace(location.search, location.hash)));
    addEventListener("hashchange", () => this.arrive(parsePlace(location.search, location.hash)));
    document.addEventListener("click", (event) => this.click(event));
    document.addEventListener("keydown", (event) => this.key(event));
    this.arrive(parsePlace(location.search, location.hash));
    this.config = await api.config().catch(() => null);
  }

  /** Go somewhere; `replace`: without a step for the button Back. */
  go(place: Place, replace = false): void {
    history[replace ? "replaceState" : "pushState"](null, "", addressOf(place));
    this.arrive(place);
  }

  /** Remember where one is, and stay as one is. */
  note(place: Place): void {
    this.place = place;
    history.replaceState(null, "", addressOf(place));
  }

  /** What went wrong in a page, in place of what it would show. It is tried again by itself where that may help. */
  fail(where: HTMLElement, error: unknown, retry: () => void, about?: About): void {
    if (error instanceof DOMException && error.name === "AbortError") return;
    clearTimeout(this.retrying);
    const again = () => {
      clearTimeout(this.retrying);
      where.replaceChildren();
      retry();
    };
    where.replaceChildren(notice(error, again, () => void this.signIn(error, again, about), about));
    const waitMs = againMs(error, about);
    if (waitMs) this.retrying = window.setTimeout(again, waitMs);
    if (error instanceof ApiError && error.status === 401) void this.signIn(error, again, about);
  }

  /** Ask for a token, and try again with it. */
  async signIn(error: unknown, retry: () => void, about?: About): Promise<void> {
    const view = this.view;
    this.config ??= await api.config().catch(() => null);
    const isGiven = await askToken(this.config, error instanceof Error ? error.message : "", about?.token);
    this.user.hidden = !session.token;
    if (isGiven && view === this.view) retry();
  }

  private signOut(): void {
    session.token = "";
    location.reload();
  }

  private arrive(place: Place): void {
    const isSameRun = place.runId && place.fqn === this.place.fqn && place.runId === this.place.runId;
    this.place = place;
    if (isSameRun && this.view?.moved) return this.view.moved(place);
    clearTimeout(this.retrying);
    this.view?.leave?.();
    document.title = [place.isProcessing && "Processing pipelines", place.runId, place.fqn, "Runlake"].filter(Boolean).join(" · ");
    document.body.classList.toggle("reading", Boolean(place.runId));
    this.user.hidden = !session.token;
    if (place.isProcessing) this.processing.setAttribute("aria-current", "page");
    else this.processing.removeAttribute("aria-current");
    this.crumbs.replaceChildren(this.trail(place));
    this.view = this.open(this, place);
    this.main.replaceChildren(this.view.element);
  }

  private trail(place: Place): HTMLElement {
    const steps: HTMLElement[] = [el("a", { href: addressOf({}), "data-go": true, class: "brand" }, "Runlake")];
    if (place.isProcessing) steps.push(el("span", { "aria-current": "page" }, "Processing pipelines"));
    if (place.fqn) steps.push(place.runId ? el("a", { href: addressOf({ fqn: place.fqn }), "data-go": true }, name(place.fqn)) : el("span", { "aria-current": "page" }, name(place.fqn)));
    if (place.runId) steps.push(el("span", { "aria-current": "page" }, name(place.runId)));
    return el("ol", {}, ...steps.map((step) => el("li", {}, step)));
  }

  /** Links of the page lead on without loading it anew; those with a key pressed are the browser's. */
  private click(event: MouseEvent): void {
    const link = (event.target as Element).closest?.("a[data-go]");
    if (!link || event.ctrlKey || event.metaKey || event.shiftKey || event.button !== 0) return;
    event.preventDefault();
    const address = new URL((link as HTMLAnchorElement).href);
    this.go(parsePlace(address.search, address.hash));
    this.main.focus({ preventScroll: true });
  }

  private key(event: KeyboardEvent): void {
    const isTyping = (event.target as Element).matches?.("input, textarea, select") || document.querySelector("dialog[open]") !== null;
    if (event.ctrlKey || event.metaKey || event.altKey || (isTyping && event.key !== "Escape")) return;
    if (document.querySelector("dialog[open]")) return;
    if (this.view?.key?.(event)) return event.preventDefault();
    if (event.key === "?") showKeys();
    else if (event.key === "t") this.flip();
  }

  private flip(): void {
    switchTheme();
    this.showTheme();
  }

  private showTheme(): void {
    const goal = isDark() ? "light" : "dark";
    this.theme.textContent = isDark() ? "☀" : "☾";
    this.theme.setAttribute("aria-label", `Switch to ${goal}`);
    this.theme.title = `Switch to ${goal} (t)`;
  }
}

/** After how long to try again unasked; 0: never. */
function againMs(error: unknown, about?: About): number {
  if (!(error instanceof ApiError)) return 0;
  if (error.isPassing) return RETRY_MS;
  return error.status === 404 && !about ? LOOK_AGAIN_MS : 0;
}
