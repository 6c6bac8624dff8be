/** A run in the list with its earlier attempts, which a button unfolds. An update changes only cells with other values. */

import type { ListedRun } from "../api";
import { arrange, el, fill, name } from "../dom";
import { count, duration, plural } from "../format";
import { addressOf } from "../place";
import { badge, when } from "../ui/facts";
import { addressOfRun, whyOf } from "../ui/why";
import type { Column } from "./filter";
import type { Lookups } from "./lookups";
import { keyOf } from "./order";
import { sparkline } from "./sparkline";

/** Columns, and by what they sort. */
export const HEAD: [string, Column?][] = [["Outcome", "outcome"], ["Pipeline", "pipeline"], ["Run"], ["Started"], ["Duration", "duration"], ["Errors"]];

/** One run: a row of facts, and a row with the line that explains its failure. */
class RunRow {
  readonly elements: HTMLElement[];
  private readonly cells = HEAD.map(([label], at) => el("td", { "data-label": label, class: at > 2 ? "figure" : `of-${label.toLowerCase()}` }));
  private readonly attempt = el("span", { class: "soft" });
  private readonly link: HTMLElement;
  private readonly history = el("span", { class: "history" });
  private readonly why = el("td", { colspan: HEAD.length });
  private readonly whyRow = el("tr", { class: "why" }, this.why);
  private readonly main = el("tr", { class: "run-row", onclick: (event: MouseEvent) => this.click(event) }, ...this.cells);
  private shownHistory: unknown;

  constructor(private run: ListedRun, private readonly lookups: Lookups) {
    this.elements = [this.main, this.whyRow];
    this.link = el("a", { class: "open", "data-go": true }, name(run.runId));
    this.cells[1]!.append(el("a", { href: addressOf({ fqn: run.fqn }), "data-go": true }, name(run.fqn)), this.history);
    this.cells[2]!.append(this.link, " ", this.attempt, " ");
  }

  update(run: ListedRun): void {
    this.run = run;
    this.lookups.watch(this.main, run);
    const [outcome, , , started, length] = this.cells;
    fill(outcome!, badgeOf(run));
    this.link.setAttribute("href", addressOfRun(run.fqn, run));
    fill(this.attempt, run.attempt > 1 && `attempt ${run.attempt}`);
    fill(started!, when(run.startedMs));
    fill(length!, duration(run.durationMs));
    fill(this.why, whyOf(run.fqn, run));
    this.updateLookups();
  }

  /** What is requested for rows in view. */
  updateLookups(): void {
    const errors = this.lookups.errorsOf(this.run);
    fill(this.cells[5]!, typeof errors === "number" && count(errors));
    const history = this.lookups.historyOf(this.run.fqn);
    if (history === this.shownHistory) return;
    this.shownHistory = history;
    fill(this.history, history && history.length > 0 && sparkline(history));
  }

  /** Show the button for earlier attempts. */
  hold(toggle: HTMLElement): void {
    if (toggle.parentElement !== this.cells[2]) this.cells[2]!.append(toggle);
  }

  fold(isFolded: boolean): void {
    this.main.hidden = isFolded;
    this.whyRow.hidden = isFolded || !this.why.hasChildNodes();
  }

  leave(): void {
    this.lookups.forget(this.main);
  }

  /** A click anywhere in the row opens the run, unless it ends a selection of text. */
  private click(event: MouseEvent): void {
    if (!(event.target as Element).closest("a, button") && !String(getSelection())) this.link.click();
  }
}

/** The badge of a silent run is as short as the others. */
function badgeOf(run: ListedRun): HTMLElement {
  const badgeNode = badge(run);
  if (run.outcome !== "silent") return badgeNode;
  badgeNode.title = `${badgeNode.textContent}. ${badgeNode.title}`;
  badgeNode.textContent = "Silent";
  return badgeNode;
}

export class RunGroup {
  readonly element = el("tbody");
  private readonly rows = new Map<string, RunRow>();
  private readonly toggle = el("button", { class: "attempts", "aria-expanded": "false", onclick: () => this.flip() });
  private isFolded = true;
  private newest: RunRow | undefined;
  private fqn = "";

  constructor(private readonly lookups: Lookups) {}

  /** `runs`: the newest attempt first. */
  update(runs: ListedRun[]): void {
    const keys = new Set(runs.map(keyOf));
    for (const [key, row] of this.rows) if (!keys.has(key)) this.remove(key, row);
    this.fqn = runs[0]!.fqn;
    fill(this.toggle, plural(runs.length - 1, "earlier attempt"));
    this.toggle.hidden = runs.length < 2;
    const rows = runs.map((run) => this.rowOf(run));
    [this.newest] = rows;
    this.newest!.hold(this.toggle);
    arrange(this.element, rows.flatMap((row) => row.elements));
    this.fold();
  }

  /** Show what was requested for this pipeline. */
  updateLookups(fqn: string): void {
    if (fqn === this.fqn) for (const row of this.rows.values()) row.updateLookups();
  }

  leave(): void {
    for (const row of this.rows.values()) row.leave();
  }

  private rowOf(run: ListedRun): RunRow {
    const key = keyOf(run);
    const row = this.rows.get(key) ?? new RunRow(run, this.lookups);
    this.rows.set(key, row);
    row.update(run);
    return row;
  }

  private remove(key: string, row: RunRow): void {
    row.leave();
    this.rows.delete(key);
  }

  private fold(): void {
    for (const row of this.rows.values()) row.fold(this.isFolded && row !== this.newest);
  }

  private flip(): void {
    this.isFolded = !this.isFolded;
    this.toggle.setAttribute("aria-expanded", String(!this.isFolded));
    this.fold();
  }
}
