/** The log of one step, displayed in place of the run's log. */

import { api, type Step } from "../api";
import { el, name } from "../dom";
import { plural } from "../format";
import { toggleData } from "../log/data";
import { type RowState, showFullLine } from "../log/row";
import { LogView } from "../log/view";
import type { Lines as Range } from "../place";
import { durationText } from "./panel";
import { StepLog } from "./steplog";

const POLL_MS = 2_500;
const LABELS = { succeeded: "Succeeded", failed: "Failed", running: "Running" } as const;

export interface PaneEvents {
  close(): void;
  /** Show a line of the run's log. */
  goTo(line: number): void;
  selected(range: Range | undefined): void;
  rangeChanged(first: number, end: number, total: number): void;
  failed(error: unknown): void;
}

export class StepPane {
  readonly log: StepLog;
  readonly view: LogView;
  private readonly head = el("div", { class: "step-head" });
  readonly element: HTMLElement;
  private readonly timer: number;
  private isAtEnd = false;

  constructor(private readonly fqn: string, private readonly runId: string, public step: Step, private selected: Range | undefined, private readonly events: PaneEvents) {
    this.log = new StepLog({
      text: (start, signal) => api.stepText(fqn, runId, step.step, start, signal),
      events: (after, signal) => api.events(fqn, runId, { step: step.step, after, limit: 1000 }, signal),
    }, step.firstLine);
    this.view = new LogView(this.log, {
      rowState: (index) => this.rowState(index),
      scrolled: (isAtEnd) => (this.isAtEnd = isAtEnd),
      rangeChanged: () => this.reportRange(),
      failed: (error) => events.failed(error),
    });
    this.view.element.setAttribute("aria-label", `Log of the step ${step.name}`);
    this.view.element.addEventListener("click", (event) => this.click(event));
    this.element = el("div", { class: "step-pane" }, this.head, this.view.element);
    this.timer = window.setInterval(() => void this.poll(), POLL_MS);
    this.update(step);
    void this.open();
  }

  update(step: Step): void {
    this.step = step;
    const summary = [step.status && LABELS[step.status], durationText(step), plural(step.lines, "line"), step.errors > 0 && plural(step.errors, "error"), !step.complete && step.status !== "running" && "incomplete", this.log.isTruncated && "only the beginning is shown"];
    const { firstLine } = step;
    this.head.replaceChildren(
      el("h2", {}, name(step.name)), el("span", { class: "soft" }, summary.filter(Boolean).join(" · ")),
      el("div", { class: "buttons" },
        firstLine !== null && el("button", { type: "button", onclick: () => this.events.goTo(firstLine) }, "Go to first line"),
        el("button", { type: "button", title: "Back to the whole log (Esc)", onclick: () => this.events.close() }, "Whole log")));
  }

  show(index: number, share = 0): void {
    this.isAtEnd = this.isAtEnd && index >= this.log.total;
    this.view.show(Math.min(index, this.log.total), share);
  }

  /** Scroll to the last line, after all lines before it are loaded. */
  async end(): Promise<void> {
    this.isAtEnd = true;
    await this.log.ensureLoaded(0, Infinity, () => this.isAtEnd && this.show(this.log.total)).catch((error: unknown) => this.events.failed(error));
  }

  /** The selected lines, or the visible ones. */
  texts(): string[] {
    const [first, end] = this.view.range;
    return this.log.texts(this.selected?.from ?? this.log.number(first), this.selected?.to ?? this.log.number(end - 1));
  }

  select(range: Range | undefined): void {
    this.selected = range;
    this.events.selected(range);
    this.view.draw();
  }

  destroy(): void {
    clearInterval(this.timer);
    this.log.stop();
    this.view.destroy();
  }

  private async open(): Promise<void> {
    try {
      await this.log.ensureLoaded(0, this.selected?.to ?? 0, () => this.view.update());
      if (this.selected) this.show(this.log.indexOf(this.selected.from), 0.3);
    } catch (error) {
      this.events.failed(error);
    }
  }

  private async poll(): Promise<void> {
    if (document.hidden) return;
    const wasAtEnd = this.isAtEnd;
    await this.log.poll(() => this.view.update()).catch(() => undefined); // the next poll retries
    if (wasAtEnd) this.show(this.log.total);
  }

  private rowState(index: number): RowState {
    const number = this.log.number(index);
    const isSelected = this.selected !== undefined && number >= this.selected.from && number <= this.selected.to;
    return { isSelected, isMatch: false, isCurrent: false, spans: [], annotations: this.log.annotations.get(number) ?? [], mark: this.log.marks.get(number) };
  }

  private reportRange(): void {
    const [first, end] = this.view.range;
    this.events.rangeChanged(first, end, this.log.total);
  }

  private click(event: MouseEvent): void {
    const target = event.target as HTMLElement;
    const line = Number(target.closest<HTMLElement>("[data-line]")?.dataset["line"] ?? -1);
    if (target.closest("[data-fold]")) {
      this.log.toggle(line);
      this.view.folded(line, "group");
    }
    if (target.closest("[data-more]")) void this.showFullLine(line, target.closest<HTMLElement>(".text"));
    const [data, runLine] = [target.closest<HTMLElement>("[data-data]"), this.log.marks.get(line)?.dataLine];
    if (data && runLine !== undefined) void toggleData(data, () => api.eventBody(this.fqn, this.runId, runLine)).catch((error: unknown) => this.events.failed(error));
    if (!target.closest(".number") || event.ctrlKey || event.metaKey) return;
    event.preventDefault();
    const other = event.shiftKey && this.selected ? this.selected.from : line;
    const isAgain = this.selected?.from === line && this.selected.to === line;
    this.select(isAgain ? undefined : { from: Math.min(other, line), to: Math.max(other, line) });
  }

  private async showFullLine(line: number, container: HTMLElement | null): Promise<void> {
    try {
      showFullLine(line, container, await this.log.fullLine(line));
    } catch (error) {
      this.events.failed(error);
    }
  }
}
