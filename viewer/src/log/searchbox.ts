/** The search field of a run: query, number of matches, and buttons to navigate them. */

import { el } from "../dom";
import { count } from "../format";
import { CONTEXTS, type SearchQuery } from "../place";
import { PLAIN } from "../ui/fields";
import type { Search } from "./search";

const TYPING_MS = 300;

export interface SearchEvents {
  submit(query: SearchQuery): void;
  step(by: 1 | -1): void;
  resume(): void;
  /** Show only matches, with lines of context; undefined: all lines. */
  only(context: number | undefined): void;
}

export class SearchBox {
  readonly input = el("input", { type: "search", id: "search", "aria-label": "Search in this run", placeholder: "Search in this run", ...PLAIN });
  private readonly regex = toggle(".*", "Regular expression");
  private readonly exact = toggle("Aa", "Case-sensitive");
  private readonly result = el("span", { class: "matches", role: "status" });
  private readonly more = el("button", { hidden: true, class: "quiet", onclick: () => this.events.resume() }, "Continue searching");
  private readonly previous = el("button", { class: "icon", "aria-label": "Previous match", title: "Previous match (N)", disabled: true, onclick: () => this.events.step(-1) }, "↑");
  private readonly only = toggle("Only", "Matches only (m)");
  private readonly context = el("select", { "aria-label": "Lines of context", title: "Lines of context", hidden: true, onchange: () => this.changeOnly() },
    ...CONTEXTS.map((lines) => el("option", { value: lines }, `±${lines}`)));
  private readonly next = el("button", { class: "icon", "aria-label": "Next match", title: "Next match (n)", disabled: true, onclick: () => this.events.step(1) }, "↓");
  readonly element = el("form", { role: "search", class: "search" }, el("span", { class: "field" }, this.input, this.exact, this.regex), this.previous, this.next, this.only, this.context, this.result, this.more);
  private typing = 0;

  constructor(private readonly events: SearchEvents) {
    this.element.addEventListener("submit", (event) => event.preventDefault());
    this.input.addEventListener("input", () => this.submitLater());
    this.input.addEventListener("keydown", (event) => this.key(event));
    this.only.addEventListener("click", () => this.changeOnly());
    for (const button of [this.regex, this.exact]) button.addEventListener("click", () => this.submit());
  }

  clear(): void {
    this.input.value = "";
    this.submit();
  }

  /** Show a query without starting it. */
  show({ text, isRegex, isCaseIgnored, only }: SearchQuery): void {
    this.input.value = text;
    this.regex.setAttribute("aria-pressed", String(isRegex));
    this.exact.setAttribute("aria-pressed", String(!isCaseIgnored));
    this.showOnly(only);
  }

  showOnly(context: number | undefined): void {
    this.only.setAttribute("aria-pressed", String(context !== undefined));
    this.context.hidden = context === undefined;
    if (context !== undefined) this.context.value = String(context);
  }

  private changeOnly(): void {
    this.events.only(isOn(this.only) ? Number(this.context.value) : undefined);
  }

  update(search: Search, total: number): void {
    this.only.disabled = search.state === "none";
    const lines = search.lines.length;
    this.previous.disabled = this.next.disabled = lines === 0;
    this.more.hidden = search.state !== "full" && search.state !== "failed";
    this.result.textContent = this.resultText(search, lines, total);
    this.input.toggleAttribute("aria-busy", search.state === "searching");
  }

  private resultText(search: Search, lines: number, total: number): string {
    if (search.state === "none") return "";
    const share = total ? Math.min(99, Math.floor((search.scannedLines / total) * 100)) : 0;
    const progress = search.state === "searching" ? `, ${share} % searched` : search.state === "full" ? ", and more" : "";
    if (!lines) return search.state === "searching" ? `Searching… ${share} %` : search.state === "failed" ? "The search failed" : "No match";
    const at = search.current >= 0 ? `${count(search.current + 1)} of ` : "";
    const times = search.matches > lines ? ` (${count(search.matches)} matches)` : "";
    return `${at}${count(lines)} ${lines === 1 ? "line" : "lines"}${times}${progress}`;
  }

  private submitLater(): void {
    clearTimeout(this.typing);
    this.typing = window.setTimeout(() => this.submit(), TYPING_MS);
  }

  private submit(): void {
    clearTimeout(this.typing);
    this.typing = 0;
    this.events.submit({ text: this.input.value, isRegex: isOn(this.regex), isCaseIgnored: !isOn(this.exact) });
  }

  private key(event: KeyboardEvent): void {
    if (event.key !== "Enter") return;
    event.preventDefault();
    if (this.typing) this.submit();
    else this.events.step(event.shiftKey ? -1 : 1);
  }
}

export function toggle(text: string, label: string, isInitiallyOn = false): HTMLButtonElement {
  const button = el("button", { type: "button", class: "toggle", "aria-pressed": isInitiallyOn, "aria-label": label, title: label }, text);
  button.addEventListener("click", () => button.setAttribute("aria-pressed", String(!isOn(button))));
  return button;
}

export const isOn = (button: HTMLElement): boolean => button.getAttribute("aria-pressed") === "true";
