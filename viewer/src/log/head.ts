/** The header and footer of a run's log: facts, buttons, messages, and the range of visible lines. */

import type { RunDetails } from "../api";
import { el } from "../dom";
import { count, duration, size, time } from "../format";
import { badge, fact, hasFailed, reasonOf, when } from "../ui/facts";
import { safeLink } from "./annotations";
import type { FeedState } from "./feed";
import { isOn, toggle } from "./searchbox";

export interface HeadEvents {
  jump(typed: string): void;
  follow(): void;
  wrap(isWrapped: boolean): void;
  copy(): void;
  download(): void;
  /** Ask, and delete the run. */
  remove(): void;
  /** Retry the connection immediately. */
  retry(): void;
}

const MESSAGE_MS = 8_000;

export class RunHead {
  private readonly facts = el("dl", { class: "facts" });
  private readonly target = el("input", { id: "goal", "aria-label": "Go to a line or a time", placeholder: "Line or time", size: 12, autocomplete: "off", spellcheck: "false" });
  private readonly followButton = el("button", { type: "button", class: "toggle follow", "aria-pressed": false, title: "Follow (f)", onclick: () => this.events.follow() }, "Follow");
  private readonly wrapButton = toggle("Wrap", "Wrap long lines (w)");
  private readonly range = el("span", { class: "range" });
  private readonly message = el("span", { class: "message", role: "status" });
  private readonly connection = el("span", { class: "connection", role: "status" });
  readonly element: HTMLElement;
  readonly foot = el("div", { class: "foot" }, this.range, this.connection, this.message);
  private readonly duration = el("span");
  private known: { facts: RunDetails; atMs: number } | undefined;
  private messageTimer = 0;
  private countdown = 0;

  constructor(search: HTMLElement, private readonly events: HeadEvents) {
    const jump = el("form", { class: "jump", onsubmit: (event: Event) => this.submit(event) }, this.target);
    this.wrapButton.setAttribute("aria-label", "Wrap long lines");
    this.wrapButton.addEventListener("click", () => events.wrap(isOn(this.wrapButton)));
    const buttons = el("div", { class: "buttons", role: "group", "aria-label": "Log actions" }, this.followButton, this.wrapButton,
      el("button", { type: "button", title: "Copy the selected lines, or the visible ones (c)", onclick: () => events.copy() }, "Copy"),
      el("button", { type: "button", title: "Download the log (d)", onclick: () => events.download() }, "Download"),
      el("button", { type: "button", class: "quiet", title: "Delete the run with its log", onclick: () => events.remove() }, "Delete…"));
    this.element = el("div", { class: "head" }, el("h1", { class: "hidden" }, "Log of the run"), this.facts, el("div", { class: "bar-of-tools" }, search, jump, buttons));
  }

  get isWrapped(): boolean {
    return isOn(this.wrapButton);
  }

  showFacts(facts: RunDetails, total: number): void {
    if (this.known?.facts !== facts) this.known = { facts, atMs: Date.now() };
    this.showDuration();
    const lines = facts.lost + facts.lostLines;
    const lost = lines ? [fact("Lost lines", count(lines))] : [];
    const reason = reasonOf(facts) ? [fact("Reason", reasonOf(facts))] : [];
    const end = hasFailed(facts) ? [] : [fact("Status", badge(facts)), ...reason]; // of a failed run: see the summary
    const attempt = facts.attempt > 1 ? [fact("Attempt", `${facts.attempt} of ${facts.firstRunId}`)] : [];
    const link = linkTo(facts.orchestratorUrl);
    const heartbeat = facts.status === "open" && facts.lastHeartbeatMs ? [fact("Last heartbeat", when(facts.lastHeartbeatMs))] : [];
    const host = facts.host ? [fact("Host", facts.host)] : [];
    this.facts.replaceChildren(
      ...attempt, ...end, fact("Lines", count(Math.max(total, facts.lines))), fact("Size", size(facts.bytes)), ...lost,
      fact("Duration", this.duration), fact("Started", time(facts.startedMs)), fact("Last activity", when(facts.lastAppendMs)), ...heartbeat, ...host, ...link,
    );
  }

  /** The duration of a running run grows. */
  showDuration(): void {
    if (!this.known) return;
    const { facts, atMs } = this.known;
    this.duration.textContent = duration(facts.durationMs + (facts.outcome === "running" ? Date.now() - atMs : 0));
  }

  /** Show a short message in the footer for some seconds. */
  showMessage(text: string): void {
    clearTimeout(this.messageTimer);
    this.message.textContent = text;
    if (text) this.messageTimer = window.setTimeout(() => (this.message.textContent = ""), MESSAGE_MS);
  }

  live(state: FeedState): void {
    clearInterval(this.countdown);
    this.connection.replaceChildren();
    if (state.kind !== "unavailable") return;
    const text = el("span");
    const update = () => (text.textContent = `The server is unavailable. Retrying in ${Math.max(0, Math.ceil((state.retryAtMs - Date.now()) / 1000))} s. `);
    update();
    this.countdown = window.setInterval(update, 1_000);
    this.connection.append(text, el("button", { class: "quiet", onclick: () => this.events.retry() }, "Retry now"));
  }

  following(isFollowing: boolean, isLive: boolean): void {
    this.followButton.setAttribute("aria-pressed", String(isFollowing));
    this.followButton.textContent = isFollowing ? "Following" : isLive ? "Follow" : "Go to end";
  }

  wrapped(isWrapped: boolean): void {
    this.wrapButton.setAttribute("aria-pressed", String(isWrapped));
  }

  showRange(first: number, end: number, total: number): void {
    this.range.textContent = total ? `Lines ${count(first + 1)} to ${count(end)} of ${count(total)}` : "No lines yet";
  }

  focusTarget(): void {
    this.target.focus();
    this.target.select();
  }

  private submit(event: Event): void {
    event.preventDefault();
    if (this.target.value.trim()) this.events.jump(this.target.value);
  }
}

/** A link to a run in its orchestrator. */
function linkTo(address: unknown): HTMLElement[] {
  const href = safeLink(address);
  return href === undefined ? [] : [fact("Orchestrator", el("a", { href, target: "_blank", rel: "noopener noreferrer" }, new URL(href).host))];
}
