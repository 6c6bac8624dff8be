/** What a run's page has of steps: the tree beside the log, and the log of the step that is open in the log's place. */

import { api, type Step } from "../api";
import { el } from "../dom";
import type { LogView } from "../log/view";
import type { Lines as Range } from "../place";
import { StepPane } from "./pane";
import { StepPanel } from "./panel";

const REFRESH_MS = 5_000;
const MOST_AFTER_THE_END = 24; // two minutes: what is missing then is lost, or is told when the page is loaded again

export interface StepsEvents {
  /** A step's log is in view now, or (null) the whole log again. */
  opened(step: Step | null, lines?: Range): void;
  goTo(line: number): void;
  seen(first: number, behind: number, total: number): void;
  failed(error: unknown): void;
}

export class RunSteps {
  pane: StepPane | null = null;
  readonly element: HTMLElement;
  private readonly panel: StepPanel;
  private readonly stage: HTMLElement;
  private isLeft = false;
  private timer = 0;
  private left = Infinity;
  private isWrapped = false;

  constructor(private readonly fqn: string, private readonly runId: string, private readonly whole: LogView, private readonly events: StepsEvents) {
    this.panel = new StepPanel({ open: (step) => this.open(step) });
    this.stage = el("div", { class: "stage" }, whole.element);
    this.element = el("div", { class: "middle" }, this.panel.element, this.stage);
  }

  /** The log that is in view. */
  get view(): LogView {
    return this.pane?.view ?? this.whole;
  }

  /** Ask once, and while the run is open now and then; `step` is opened when it is there. */
  async start(isLive: boolean, step?: string, lines?: Range): Promise<void> {
    await this.refresh();
    const found = step === undefined ? undefined : this.panel.find(step);
    if (found && !this.isLeft) this.open(found, lines);
    if (isLive && !this.isLeft) this.timer = window.setInterval(() => void this.refresh(), REFRESH_MS);
  }

  /** The run has ended: writers that are not complete are waited for a while. */
  ended(): void {
    this.left = MOST_AFTER_THE_END;
    void this.refresh();
  }

  find(step: string): Step | undefined {
    return this.panel.find(step);
  }

  open(step: Step | null, lines?: Range): void {
    if (step && step.step === this.pane?.step.step && !lines) return;
    this.close();
    if (step) {
      this.pane = new StepPane(this.fqn, this.runId, step, lines, {
        close: () => this.open(null),
        goTo: (line) => this.events.goTo(line),
        selected: (range) => this.events.opened(this.pane?.step ?? null, range),
        seen: (...where) => this.events.seen(...where),
        failed: (error) => this.events.failed(error),
      });
      this.pane.view.setWrap(this.isWrapped);
      this.stage.append(this.pane.element);
      this.whole.element.hidden = true;
    }
    this.panel.mark(step?.step ?? null);
    this.events.opened(step, lines);
  }

  wrap(isWrapped: boolean): void {
    this.isWrapped = isWrapped;
    this.pane?.view.setWrap(isWrapped);
  }

  /** Whether there is a tree to go to. */
  focus(): boolean {
    if (!this.panel.isEmpty) this.panel.focus();
    return !this.panel.isEmpty;
  }

  leave(): void {
    this.isLeft = true;
    clearInterval(this.timer);
    this.close();
  }

  private close(): void {
    this.pane?.destroy();
    this.pane?.element.remove();
    this.pane = null;
    this.whole.element.hidden = false;
  }

  /** A server of a version before has neither, and so have runs without writers: their page is as it was. */
  private async refresh(): Promise<void> {
    if (document.hidden && !this.panel.isEmpty) return;
    this.left -= 1;
    const steps = await api.steps(this.fqn, this.runId).catch(() => null);
    if (this.left <= 0 || (this.left < Infinity && steps?.length === 0)) clearInterval(this.timer);
    if (!steps?.length || this.isLeft) return;
    const completeness = await api.completeness(this.fqn, this.runId).catch(() => null);
    if (this.isLeft) return;
    this.panel.show(steps, completeness);
    const open = this.pane && this.panel.find(this.pane.step.step);
    if (open) this.pane?.tell(open);
    if (completeness?.sealed && completeness.state !== "pending") clearInterval(this.timer);
  }
}
