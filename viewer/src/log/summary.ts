/** The summary of a run that failed or was lost: how it ended, and the lines that may explain it. */

import type { Candidate, RunFacts } from "../api";
import { el, name } from "../dom";
import { count } from "../format";
import { badge, reasonOf } from "../ui/facts";
import { plain } from "./ansi";
import rules from "./rules.json";

const MAX_SHOWN = 3;
const WORDS: Record<string, string> = rules;

export class Summary {
  readonly element = el("section", { class: "summary", "aria-label": "Why the run failed", hidden: true });
  /** The best first. */
  candidates: Candidate[] = [];

  constructor(private readonly goTo: (line: number) => void) {}

  show(facts: RunFacts, candidates: Candidate[]): void {
    this.candidates = candidates.slice(0, MAX_SHOWN);
    this.element.hidden = false;
    this.element.replaceChildren(
      el("p", {}, badge(facts), " ", plain(reasonOf(facts))),
      ...(this.candidates.length ? [el("ol", {}, ...this.candidates.map((each) => this.item(each)))] : []),
    );
  }

  has(line: number): boolean {
    return this.candidates.some((each) => each.line === line);
  }

  private item({ line, text, rule }: Candidate): HTMLElement {
    const link = el("a", { href: `#L${line + 1}`, onclick: (event: MouseEvent) => this.click(event, line) }, `Line ${count(line + 1)}`);
    const shown = plain(text);
    return el("li", {}, link, el("span", { class: "cause-text", title: shown }, name(shown)), el("span", { class: "soft" }, WORDS[rule] ?? rule));
  }

  /** The line is shown again if the URL names it already. */
  private click(event: MouseEvent, line: number): void {
    if (event.ctrlKey || event.metaKey || event.shiftKey) return;
    event.preventDefault();
    this.goTo(line);
  }
}
