/** The page frame: breadcrumbs, sign-in state and errors. */

import { api, ApiError, type Config } from "./api";
import { el, name } from "./dom";
import { complete, isAnswer, logOut } from "./login";
import { addressOf, parsePlace, type Place } from "./place";
import { session } from "./session";
import { requestToken, showKeys } from "./ui/dialogs";
import { notice, type ErrorContext } from "./ui/notice";
import { applyTheme, isDark, switchTheme } from "./ui/theme";

/** A page of the viewer. `key` returns whether it handled the key. */
export interface View {
  element: HTMLElement;
  key?(event: KeyboardEvent): boolean;
  /** The URL now names other lines, or another step, of the same run. */
  navigate?(place: Place): void;
  leave?(): void;
}

const RETRY_MS = 3_000;
/** A missing run may be about to start: people open its URL before its first line is stored. */
const NOT_FOUND_RETRY_MS = 5000;

export class App {
  private config: Config | null = null;
  private view: View | null = null;
  private place: Place = {};
  private retrying = 0;
  /** Why the login failed from which the browser returned: shown instead of the refusals of requests that have no token. */
  private failedLogin: unknown = null;
  private readonly crumbs = el("nav", { "aria-label": "Breadcrumb", class: "crumbs" });
  private readonly processing = el("a", { href: addressOf({ isProcessing: true }), "data-go": true, class: "nav-link", title: "Pipelines that process the events of runs" }, "Processing");
  private readonly user = el("button", { class: "quiet", hidden: true, onclick: () => this.signOut() }, "Sign out");
  private readonly theme = el("button", { class: "quiet icon", onclick: () => this.flip() });
  private readonly main = el("main", { id: "main", tabindex: -1 });

  constructor(private readonly open: (app: App, place: Place) => View) {}

  start(): void {
    applyTheme();
    this.showTheme();
    const help = el("button", { class: "quiet icon", onclick: showKeys, "aria-label": "Keyboard shortcuts", title: "Keyboard shortcuts (?)" }, "?");
    document.body.append(
      el("a", { class: "skip", href: "#main" }, "Skip to content"),
      el("header", {}, this.crumbs, el("div", { class: "tools" }, this.processing, this.user, this.theme, help)), this.main,
    );
    addEventListener("popstate", () => this.arrive(parsePlace(location.search, location.hash)));
    addEventListener("hashchange", () => this.arrive(parsePlace(location.search, location.hash)));
    document.addEventListener("click", (event) => this.click(event));
    document.addEventListener("keydown", (event) => this.key(event));
    if (isAnswer(location.search)) void this.completeLogin();
    else this.arrive(parsePlace(location.search, location.hash));
  }

  private async completeLogin(): Promise<void> {
    this.failedLogin = await complete().then(() => null, (error: unknown) => error);
    this.arrive(parsePlace(location.search, location.hash));
    if (this.failedLogin) void this.signIn(this.failedLogin, () => this.arrive(this.place));
  }

  /** Navigate to a place; `replace`: without a new entry in the browser's history. */
  go(place: Place, replace = false): void {
    history[replace ? "replaceState" : "pushState"](null, "", addressOf(place));
    this.arrive(place);
  }

  /** Update the URL without navigation. */
  setPlace(place: Place): void {
    this.place = place;
    history.replaceState(null, "", addressOf(place));
  }

  /** Show an error in place of the page's content, and retry automatically if that may help. */
  fail(container: HTMLElement, error: unknown, retry: () => void, context?: ErrorContext): void {
    if (error instanceof DOMException && error.name === "AbortError") return;
    clearTimeout(this.retrying);
    const retryNow = () => {
      clearTimeout(this.retrying);
      container.replaceChildren();
      retry();
    };
    container.replaceChildren(notice(error, retryNow, () => void this.signIn(error, retryNow, context), context));
    const waitMs = retryDelayMs(error, context);
    if (waitMs) this.retrying = window.setTimeout(retryNow, waitMs);
    if (error instanceof ApiError && error.status === 401) void this.signIn(error, retryNow, context);
  }

  /** Request a token from the user, then retry with it. */
  async signIn(error: unknown, retry: () => void, context?: ErrorContext): Promise<void> {
    const view = this.view;
    this.config ??= await api.config().catch(() => null);
    const reason = this.failedLogin ?? error;
    const isSignedIn = await requestToken(this.config, reason instanceof ApiError ? reason : null, addressOf(this.place), context?.token);
    this.failedLogin = null;
    this.user.hidden = !session.token;
    if (isSignedIn && view === this.view) retry();
  }

  private signOut(): void {
    void logOut().then((isLeaving) => isLeaving || location.reload());
  }

  private arrive(place: Place): void {
    const isSameRun = place.runId && place.fqn === this.place.fqn && place.runId === this.place.runId;
    this.place = place;
    if (isSameRun && this.view?.navigate) return this.view.navigate(place);
    clearTimeout(this.retrying);
    this.view?.leave?.();
    document.title = [place.filter && "Runs", place.isList && "Pipelines", place.files?.key ?? pageName(place), place.runId, place.fqn, "Runlake"].filter(Boolean).join(" · ");
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
    const page = pageName(place);
    if (page) steps.push(el("span", { "aria-current": "page" }, page));
    if (place.fqn) steps.push(place.runId ? el("a", { href: addressOf({ fqn: place.fqn }), "data-go": true }, name(place.fqn)) : el("span", { "aria-current": "page" }, name(place.fqn)));
    if (place.runId) steps.push(el("span", { "aria-current": "page" }, name(place.runId)));
    return el("ol", {}, ...steps.map((step) => el("li", {}, step)));
  }

  /** Follow links within the page without a reload. With a modifier key, the browser handles the click. */
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
    const theme = isDark() ? "light" : "dark";
    this.theme.textContent = isDark() ? "☀" : "☾";
    this.theme.setAttribute("aria-label", `Switch to ${theme} theme`);
    this.theme.title = `Switch to ${theme} theme (t)`;
  }
}

/** The name of a page for operators. */
function pageName({ isProcessing, files, letters, isConfiguration }: Place): string {
  if (isProcessing) return "Processing pipelines";
  if (files) return "Pipeline files";
  if (letters) return "Dead letters";
  return isConfiguration ? "Configuration" : "";
}

/** Delay until an automatic retry; 0: no retry. */
function retryDelayMs(error: unknown, context?: ErrorContext): number {
  if (!(error instanceof ApiError)) return 0;
  if (error.isTransient) return RETRY_MS;
  return error.status === 404 && !context ? NOT_FOUND_RETRY_MS : 0;
}
