/** What stands above the lines of a run and below them: facts, buttons, and where one is. */

import type { RunFacts } from "../api";
import { el } from "../dom";
import { count, duration, plural, size, time } from "../format";
import { badge, reasonOf, when } from "../ui/facts";
import type { FeedState } from "./feed";
import { isOn, toggle } from "./searchbox";

export interface HeadEvents {
  jump(typed: string): void;
  follow(): void;
  wrap(isWrapped: boolean): void;
  copy(): void;
  download(): void;
  /** Do not wait for the server any longer: try now. */
  retry(): void;
}

const SAID_MS = 8_000;

export class RunHead {
  private readonly facts = el("dl", { class: "facts" });
  private readonly goal = el("input", { id: "goal", "aria-label": "Go to a line or a time", placeholder: "Line or time", size: 12, autocomplete: "off", spellcheck: "false" });
  private readonly followed = el("button", { type: "button", class: "toggle follow", "aria-pressed": false, title: "Follow (f)", onclick: () => this.events.follow() }, "Follow");
  private readonly wrapping = toggle("Wrap", "Wrap long lines (w)");
  private readonly where = el("span", { class: "where" });
  private readonly said = el("span", { class: "said", role: "status" });
  private readonly away = el("span", { class: "away", role: "status" });
  readonly element: HTMLElement;
  readonly foot = el("div", { class: "foot" }, this.where, this.away, this.said);
  private sayingTimer = 0;
  private awayTimer = 0;

  constructor(search: HTMLElement, private readonly events: HeadEvents) {
    const jump = el("form", { class: "jump", onsubmit: (event: Event) => this.submit(event) }, this.goal);
    this.wrapping.setAttribute("aria-label", "Wrap long lines");
    this.wrapping.addEventListener("click", () => events.wrap(isOn(this.wrapping)));
    const buttons = el("div", { class: "buttons", role: "group", "aria-label": "The log" }, this.followed, this.wrapping,
      el("button", { type: "button", title: "Copy the selected lines, or those in view (c)", onclick: () => events.copy() }, "Copy"),
      el("button", { type: "button", title: "Download the log (d)", onclick: () => events.download() }, "Download"));
    this.element = el("div", { class: "head" }, el("h1", { class: "hidden" }, "Log of the run"), this.facts, el("div", { class: "bar-of-tools" }, search, jump, buttons));
  }

  get isWrapped(): boolean {
    return isOn(this.wrapping);
  }

  tell(facts: RunFacts, total: number): void {
    const lines = (facts.lost ?? 0) + facts.lostLines;
    const lost = lines ? [fact("Lost", plural(lines, "line"))] : [];
    const reason = reasonOf(facts) ? [fact("Reason", reasonOf(facts))] : [];
    const attempt = facts.attempt > 1 ? [fact("Attempt", `${facts.attempt} of ${facts.firstRunId}`)] : [];
    const host = facts.host ? [fact("Host", facts.host)] : [];
    this.facts.replaceChildren(
      ...attempt, fact("Status", badge(facts)), ...reason, fact("Lines", count(Math.max(total, facts.lines))), fact("Size", size(facts.bytes)), ...lost,
      fact("Duration", duration(facts.durationMs)), fact("Started", time(facts.startedMs)), fact("Last activity", when(facts.lastAppendMs)), ...host,
    );
  }

  /** A short word at the foot; it fades after a while. */
  say(text: string): void {
    clearTimeout(this.sayingTimer);
    this.said.textContent = text;
    if (text) this.sayingTimer = window.setTimeout(() => (this.said.textContent = ""), SAID_MS);
  }

  live(state: FeedState): void {
    clearInterval(this.awayTimer);
    this.away.replaceChildren();
    if (state.kind !== "away") return;
    const words = el("span");
    const told = () => (words.textContent = `The server is away. Trying again in ${Math.max(0, Math.ceil((state.retryAtMs - Date.now()) / 1000))} s. `);
    told();
    this.awayTimer = window.setInterval(told, 1_000);
    this.away.append(words, el("button", { class: "quiet", onclick: () => this.events.retry() }, "Try now"));
  }

  following(isFollowing: boolean, isLive: boolean): void {
    this.followed.setAttribute("aria-pressed", String(isFollowing));
    this.followed.textContent = isFollowing ? "Following" : isLive ? "Follow" : "To the end";
  }

  wrapped(isWrapped: boolean): void {
    this.wrapping.setAttribute("aria-pressed", String(isWrapped));
  }

  seen(first: number, behind: number, total: number): void {
    this.where.textContent = total ? `Lines ${count(first + 1)} to ${count(behind)} of ${count(total)}` : "No lines yet";
  }

  askTarget(): void {
    this.goal.focus();
    this.goal.select();
  }

  private submit(event: Event): void {
    event.preventDefault();
    if (this.goal.value.trim()) this.events.jump(this.goal.value);
  }
}

function fact(title: string, value: Node | string): HTMLElement {
  return el("div", {}, el("dt", {}, title), el("dd", {}, value));
}
