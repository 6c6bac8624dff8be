/** The page of one dead letter: its event, why its handler failed, and the actions of the pipeline's administrators. */

import { api, ApiError, type LetterDetails, type LetterId } from "../api";
import type { App, View } from "../app";
import { el, fill, name } from "../dom";
import { count, time } from "../format";
import { ACCEPTED, DROP_EFFECTS, ERROR_CONTEXT, letterError, named, needed, type Progress, progressOf, resendEffects } from "../letters/messages";
import { shown } from "../log/ansi";
import { jsonText } from "../log/data";
import { addressOf, type LettersQuery } from "../place";
import { confirm } from "../ui/confirm";
import { fact, when } from "../ui/facts";
import { type Message, render } from "../ui/message";
import { adminTabs } from "../ui/tabs";

/** How often the page asks for the result of a request: less and less often. */
const FIRST_PAUSE_MS = 2_000;
const MAX_PAUSE_MS = 20_000;

export const letterPage = (app: App, query: LettersQuery): View => new LetterPage(app, query);

class LetterPage implements View {
  readonly element: HTMLElement;
  private readonly id: LetterId;
  private readonly content = el("div", {}, el("p", { class: "soft" }, "Loading…"));
  private readonly progress = el("p", { role: "status", class: "outcome-text" });
  private readonly resend = el("button", { onclick: () => this.confirmResend(), "aria-describedby": "needed" }, "Send again…");
  private readonly drop = el("button", { onclick: () => this.confirmDrop(), "aria-describedby": "needed" }, "Drop…");
  private readonly hint = el("p", { class: "soft", id: "needed" });
  private readonly actions = el("div", { class: "acts", hidden: true }, this.resend, " ", this.drop);
  private readonly onVisible = () => this.schedule(0);
  private stop = new AbortController();
  private timer = 0;
  private pauseMs = FIRST_PAUSE_MS;
  private letter: LetterDetails | null = null;
  /** The attempts before the request whose result is awaited; undefined: there is none. */
  private before: number | undefined;

  constructor(private readonly app: App, query: LettersQuery) {
    const { pipeline = "", handler = "", fqn = "", run = "", line = "" } = query;
    this.id = { pipeline, handler, fqn, runId: run, line: Number(line) };
    this.element = el("div", { class: "page letter" }, adminTabs("letters"),
      el("div", { class: "title" }, el("h1", {}, "Dead letter of ", ...render(named(this.id))), this.actions), this.hint, this.progress, this.content);
    document.addEventListener("visibilitychange", this.onVisible);
    void this.load();
  }

  private get isPending(): boolean {
    return this.letter !== null && this.letter.resendRequestedAt !== null;
  }

  /** Whether the user administers the pipeline. */
  private get isAllowed(): boolean {
    return this.letter !== null && this.letter.trace !== null;
  }

  leave(): void {
    clearTimeout(this.timer);
    document.removeEventListener("visibilitychange", this.onVisible);
    this.stop.abort();
  }

  private async load(): Promise<void> {
    clearTimeout(this.timer);
    this.stop.abort();
    this.stop = new AbortController();
    const { signal } = this.stop;
    try {
      this.show(await api.letter(this.id, signal));
    } catch (error) {
      if (!signal.aborted) this.failed(error);
    }
  }

  /** A letter that is gone after a request was accepted. While the server is unavailable, the page keeps the letter and asks again. */
  private failed(error: unknown): void {
    const isGone = error instanceof ApiError && error.status === 404;
    if (isGone && this.isPending) return this.end(ACCEPTED);
    if (this.letter && error instanceof ApiError && error.isTransient) return this.schedule();
    this.letter = null;
    this.showActions();
    this.app.fail(this.content, error, () => void this.load(), ERROR_CONTEXT);
  }

  private show(letter: LetterDetails): void {
    this.letter = letter;
    if (letter.resendRequestedAt !== null) this.before ??= letter.attempts;
    const requestedMs = letter.resendRequestedAt === null ? 0 : Date.now() - Date.parse(letter.resendRequestedAt);
    const progress = progressOf(letter, this.before, requestedMs);
    if (progress) this.report(progress);
    if (this.isPending) this.schedule();
    else this.before = undefined;
    this.showActions();
    fill(this.content, factsOf(this.id, letter), ...bodyOf(letter), this.link());
  }

  /** Without the scope, the buttons stay visible, and the page says what they require. */
  private showActions(): void {
    this.actions.hidden = this.letter === null;
    disable(this.resend, !this.isAllowed || this.isPending);
    disable(this.drop, !this.isAllowed);
    fill(this.hint, !this.isAllowed && this.letter && render(needed(this.id)));
  }

  private report({ message, kind }: Progress): void {
    this.progress.className = `outcome-text ${kind}`;
    fill(this.progress, ...render(message), kind === "wait" && [" ", el("a", { href: addressOf({ isProcessing: true }), "data-go": true }, "Processing")]);
  }

  /** The letter is gone: nothing can be done with it. */
  private end(progress: Progress): void {
    clearTimeout(this.timer);
    this.letter = null;
    this.report(progress);
    this.showActions();
    fill(this.content, this.link());
  }

  private link(): HTMLElement {
    const { pipeline, handler } = this.id;
    return el("p", {}, el("a", { href: addressOf({ letters: { pipeline, handler } }), "data-go": true }, "Dead letters of this handler"));
  }

  private schedule(waitMs = this.pauseMs): void {
    clearTimeout(this.timer);
    if (document.hidden || !this.isPending) return;
    this.timer = window.setTimeout(() => void this.load(), waitMs);
    this.pauseMs = Math.min(MAX_PAUSE_MS, this.pauseMs * 1.5);
  }

  private confirmResend(): void {
    const { letter } = this;
    if (!letter || !this.isAllowed || this.isPending) return;
    this.ask(["Send to ", ...named(this.id), " again?"], resendEffects(letter), "Send again", async () => {
      const { requestedAt } = await api.resend(this.id);
      this.stop.abort();
      [this.before, this.pauseMs] = [letter.attempts, FIRST_PAUSE_MS];
      this.show({ ...letter, resendRequestedAt: requestedAt });
    });
  }

  private confirmDrop(): void {
    if (!this.isAllowed) return;
    this.ask(["Drop the letter of ", ...named(this.id), "?"], DROP_EFFECTS, "Drop", async () => {
      await api.drop(this.id);
      this.stop.abort();
      this.end({ message: ["The letter is dropped."], kind: "done" });
    });
  }

  private ask(title: Message, effects: Message[], verb: string, send: () => Promise<void>): void {
    const explain = (error: unknown): Message => {
      if (error instanceof ApiError && error.status === 404) void this.load();
      return letterError(error, this.id);
    };
    confirm({ title, effects, verb, send, read: () => true, explain });
  }
}

/** The button stays visible and can have the focus. */
function disable(button: HTMLElement, isDisabled: boolean): void {
  if (isDisabled) button.setAttribute("aria-disabled", "true");
  else button.removeAttribute("aria-disabled");
}

function factsOf({ fqn, runId, line }: LetterId, letter: LetterDetails): HTMLElement {
  const { event } = letter;
  const place = el("a", { href: addressOf({ fqn, runId, lines: { from: line, to: line } }), "data-go": true }, name(`${fqn}/${runId}`), ` line ${count(line + 1)}`);
  return el("dl", { class: "facts" }, fact("Reason", el("span", { class: "wrong" }, name(shown(letter.reason)))), fact("Attempts", count(letter.attempts)),
    fact("Last attempt", when(Date.parse(letter.failedAt))), fact("Event", place), fact("Time", time(event.time)), fact("Level", name(event.level)), fact("Logger", name(event.logger)),
    ...(event.step ? [fact("Step", name(event.step))] : []));
}

function bodyOf({ event, trace, truncated }: LetterDetails): (HTMLElement | false)[] {
  return [
    part("Message", shown(event.message)),
    truncated && el("p", { class: "soft" }, "The event is too large for a response: its message is cut, or its data are missing. The run's log has all of it."),
    Object.keys(event.data).length > 0 && part("Data", jsonText(event.data, 2)),
    trace ? part("Traceback", shown(trace)) : false,
  ];
}

/** A text in a box of its own, which the keyboard can scroll. */
const part = (title: string, text: string): HTMLElement =>
  el("section", {}, el("h2", {}, title), el("pre", { class: "letter-text", tabindex: 0, role: "region", "aria-label": title, dir: "auto" }, text));
