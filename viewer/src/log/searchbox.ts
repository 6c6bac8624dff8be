/** The search in a run: what to look for, how many lines match, and the way from one to the next. */

import { el } from "../dom";
import { count } from "../format";
import type { Asked, Search } from "./search";

const TYPING_MS = 300;

export interface SearchEvents {
  asked(asked: Asked): void;
  step(by: 1 | -1): void;
  goOn(): void;
}

export class SearchBox {
  readonly input = el("input", { type: "search", id: "search", "aria-label": "Search in this run", placeholder: "Search in this run", spellcheck: "false", autocapitalize: "off", autocomplete: "off" });
  private readonly regex = toggle(".*", "Regular expression");
  private readonly exact = toggle("Aa", "Capital letters count");
  private readonly told = el("span", { class: "matches", role: "status" });
  private readonly more = el("button", { hidden: true, class: "quiet", onclick: () => this.events.goOn() }, "Go on");
  private readonly before = el("button", { class: "icon", "aria-label": "Match before", title: "Match before (N)", disabled: true, onclick: () => this.events.step(-1) }, "↑");
  private readonly next = el("button", { class: "icon", "aria-label": "Next match", title: "Next match (n)", disabled: true, onclick: () => this.events.step(1) }, "↓");
  readonly element = el("form", { role: "search", class: "search" }, el("span", { class: "field" }, this.input, this.exact, this.regex), this.before, this.next, this.told, this.more);
  private typing = 0;

  constructor(private readonly events: SearchEvents) {
    this.element.addEventListener("submit", (event) => event.preventDefault());
    this.input.addEventListener("input", () => this.soon());
    this.input.addEventListener("keydown", (event) => this.key(event));
    for (const button of [this.regex, this.exact]) button.addEventListener("click", () => this.ask());
  }

  clear(): void {
    this.input.value = "";
    this.ask();
  }

  tell(search: Search, total: number): void {
    const found = search.lines.length;
    this.before.disabled = this.next.disabled = found === 0;
    this.more.hidden = search.state !== "full" && search.state !== "failed";
    this.told.textContent = this.words(search, found, total);
    this.input.toggleAttribute("aria-busy", search.state === "looking");
  }

  private words(search: Search, found: number, total: number): string {
    if (search.state === "none") return "";
    const share = total ? Math.min(99, Math.floor((search.scannedLines / total) * 100)) : 0;
    const way = search.state === "looking" ? `, ${share} % searched` : search.state === "full" ? ", and more" : "";
    if (!found) return search.state === "looking" ? `Searching… ${share} %` : search.state === "failed" ? "The search failed" : "No match";
    const at = search.current >= 0 ? `${count(search.current + 1)} of ` : "";
    const times = search.matches > found ? ` (${count(search.matches)} matches)` : "";
    return `${at}${count(found)} ${found === 1 ? "line" : "lines"}${times}${way}`;
  }

  private soon(): void {
    clearTimeout(this.typing);
    this.typing = window.setTimeout(() => this.ask(), TYPING_MS);
  }

  private ask(): void {
    clearTimeout(this.typing);
    this.typing = 0;
    this.events.asked({ text: this.input.value, isRegex: isOn(this.regex), isCaseIgnored: !isOn(this.exact) });
  }

  private key(event: KeyboardEvent): void {
    if (event.key !== "Enter") return;
    event.preventDefault();
    if (this.typing) this.ask();
    else this.events.step(event.shiftKey ? -1 : 1);
  }
}

export function toggle(text: string, label: string, isOnNow = false): HTMLButtonElement {
  const button = el("button", { type: "button", class: "toggle", "aria-pressed": isOnNow, "aria-label": label, title: label }, text);
  button.addEventListener("click", () => button.setAttribute("aria-pressed", String(!isOn(button))));
  return button;
}

export const isOn = (button: HTMLElement): boolean => button.getAttribute("aria-pressed") === "true";
