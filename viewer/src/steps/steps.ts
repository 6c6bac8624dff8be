/** Steps on the page of a run: the tree next to the log, and the log of the open step in place of the run's log. */

import { api, type Step } from "../api";
import { el } from "../dom";
import type { LogView } from "../log/view";
import type { Lines as Range } from "../place";
import { StepPane } from "./pane";
import { StepPanel } from "./panel";

const REFRESH_MS = 5_000;
const MAX_REFRESHES_AFTER_END = 24; // two minutes; later events are shown only after a reload of the page

export interface StepsEvents {
  /** A step's log was opened, or (null) closed. `lines`: its selected lines. */
  opened(step: Step | null, lines?: Range): void;
  /** The steps were loaded. */
  loaded(steps: Step[]): void;
  goTo(line: number): void;
  rangeChanged(first: number, end: number, total: number): void;
  /** Lines or the steps could not be loaded: see `retry`. */
  failed(error: unknown): void;
}

export class RunSteps {
  pane: StepPane | null = null;
  readonly element: HTMLElement;
  private readonly panel: StepPanel;
  private readonly stage: HTMLElement;
  private isClosed = false;
  private timer = 0;
  private remainingRefreshes = Infinity;
  private isWrapped = false;
  /** Load the steps, if that failed. */
  retry = (): void => undefined;

  constructor(private readonly fqn: string, private readonly runId: string, private readonly runView: LogView, private readonly events: StepsEvents) {
    this.panel = new StepPanel({ open: (step) => this.open(step) });
    this.stage = el("div", { class: "stage" }, runView.element);
    this.element = el("div", { class: "middle" }, this.panel.element, this.stage);
  }

  /** The visible log. */
  get view(): LogView {
    return this.pane?.view ?? this.runView;
  }

  /** Load the steps, and poll them while the run is running. Opens `step` if the run has it. */
  async start(isLive: boolean, step?: string, lines?: Range): Promise<void> {
    this.retry = () => undefined;
    try {
      await this.refresh();
    } catch (error) {
      this.retry = () => void this.start(isLive, step, lines);
      return this.events.failed(error);
    }
    const initial = step === undefined ? undefined : this.panel.find(step);
    if (initial && !this.isClosed) this.open(initial, lines);
    if (isLive && !this.isClosed) this.timer = window.setInterval(() => this.poll(), REFRESH_MS);
  }

  /** Handle the run's end: keep polling for a while until its events are complete. */
  ended(): void {
    this.remainingRefreshes = MAX_REFRESHES_AFTER_END;
    this.poll();
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
        rangeChanged: (...range) => this.events.rangeChanged(...range),
        failed: (error) => this.events.failed(error),
      });
      this.pane.view.setWrap(this.isWrapped);
      this.stage.append(this.pane.element);
      this.runView.element.hidden = true;
    }
    this.panel.mark(step?.step ?? null);
    this.events.opened(step, lines);
  }

  wrap(isWrapped: boolean): void {
    this.isWrapped = isWrapped;
    this.pane?.view.setWrap(isWrapped);
  }

  /** Focus the tree. Returns whether the run has steps. */
  focus(): boolean {
    if (!this.panel.isEmpty) this.panel.focus();
    return !this.panel.isEmpty;
  }

  leave(): void {
    this.isClosed = true;
    clearInterval(this.timer);
    this.close();
  }

  private close(): void {
    this.pane?.destroy();
    this.pane?.element.remove();
    this.pane = null;
    this.runView.element.hidden = false;
  }

  /** Steps that cannot be loaded again stay as they are until the next poll. */
  private poll(): void {
    void this.refresh().catch(() => undefined);
  }

  /** Load steps and completeness. Without steps, the panel stays hidden. */
  private async refresh(): Promise<void> {
    if (document.hidden && !this.panel.isEmpty) return;
    this.remainingRefreshes -= 1;
    if (this.remainingRefreshes <= 0) clearInterval(this.timer);
    const steps = await api.steps(this.fqn, this.runId);
    if (this.remainingRefreshes < Infinity && steps.length === 0) clearInterval(this.timer);
    if (steps.length === 0 || this.isClosed) return;
    const completeness = await api.completeness(this.fqn, this.runId);
    if (this.isClosed) return;
    this.panel.show(steps, completeness);
    this.events.loaded(steps);
    const open = this.pane && this.panel.find(this.pane.step.step);
    if (open) this.pane?.update(open);
    if (completeness.sealed && completeness.state !== "pending") clearInterval(this.timer);
  }
}
