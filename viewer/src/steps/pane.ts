/** The log of one step, in place of the run's. */

import { api, type Step } from "../api";
import { el, name } from "../dom";
import { count, plural } from "../format";
import { toggleData } from "../log/data";
import type { Look } from "../log/row";
import { LogView } from "../log/view";
import type { Lines as Range } from "../place";
import { lasted } from "./panel";
import { StepLog } from "./steplog";

const POLL_MS = 2_500;
const WORDS = { succeeded: "Succeeded", failed: "Failed", running: "Running" } as const;

export interface PaneEvents {
  close(): void;
  /** Show a line of the whole log. */
  goTo(line: number): void;
  selected(range: Range | undefined): void;
  seen(first: number, behind: number, total: number): void;
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
      look: (place) => this.look(place),
      moved: (isAtEnd) => (this.isAtEnd = isAtEnd),
      seen: () => this.tellWhere(),
      failed: (error) => events.failed(error),
    });
    this.view.element.setAttribute("aria-label", `Log of the step ${step.name ?? step.step}`);
    this.view.element.addEventListener("click", (event) => this.click(event));
    this.element = el("div", { class: "step-pane" }, this.head, this.view.element);
    this.timer = window.setInterval(() => void this.poll(), POLL_MS);
    this.tell(step);
    void this.open();
  }

  tell(step: Step): void {
    this.step = step;
    const told = [step.status && WORDS[step.status], lasted(step), plural(step.lines, "line"), step.errors > 0 && plural(step.errors, "error"), !step.complete && step.status !== "running" && "incomplete", this.log.isCut && "only its beginning is shown"];
    const { firstLine } = step;
    this.head.replaceChildren(
      el("h2", {}, name(step.name ?? step.step)), el("span", { class: "soft" }, told.filter(Boolean).join(" · ")),
      el("div", { class: "buttons" },
        firstLine !== null && el("button", { type: "button", onclick: () => this.events.goTo(firstLine) }, "Where it begins"),
        el("button", { type: "button", title: "Back to the whole log (Esc)", onclick: () => this.events.close() }, "Whole log")));
  }

  show(place: number, share = 0): void {
    this.isAtEnd = this.isAtEnd && place >= this.log.total;
    this.view.show(Math.min(place, this.log.total), share);
  }

  /** To the last line, which is fetched first with all before it. */
  async end(): Promise<void> {
    this.isAtEnd = true;
    await this.log.want(0, Infinity, () => this.isAtEnd && this.show(this.log.total)).catch((error: unknown) => this.events.failed(error));
  }

  /** The lines that are selected, or those in view. */
  texts(): string[] {
    const [first, behind] = this.view.range;
    const number = (place: number) => this.log.get(place)?.number ?? place;
    return this.log.texts(this.selected?.from ?? number(first), this.selected?.to ?? number(behind - 1));
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
      await this.log.want(0, this.selected?.to ?? 0, () => this.view.update());
      if (this.selected) this.show(this.log.placeOf(this.selected.from), 0.3);
    } catch (error) {
      this.events.failed(error);
    }
  }

  private async poll(): Promise<void> {
    if (document.hidden) return;
    const wasAtEnd = this.isAtEnd;
    await this.log.poll(() => this.view.update()).catch(() => undefined); // asked again in a moment
    if (wasAtEnd) this.show(this.log.total);
  }

  private look(place: number): Look {
    const number = this.log.get(place)?.number ?? place;
    const isSelected = this.selected !== undefined && number >= this.selected.from && number <= this.selected.to;
    return { isSelected, isMatch: false, isCurrent: false, spans: [], notes: this.log.notes.get(number) ?? [], mark: this.log.marks.get(number) };
  }

  private tellWhere(): void {
    const [first, behind] = this.view.range;
    this.events.seen(first, behind, this.log.total);
  }

  private click(event: MouseEvent): void {
    const target = event.target as HTMLElement;
    const line = Number(target.closest<HTMLElement>("[data-line]")?.dataset["line"] ?? -1);
    if (target.closest("[data-fold]")) {
      this.log.toggle(line);
      this.view.update();
      this.view.element.querySelector<HTMLElement>(`[data-line="${line}"] [data-fold]`)?.focus();
    }
    if (target.closest("[data-more]")) void this.showAll(line, target.closest<HTMLElement>(".text"));
    const [data, ofLog] = [target.closest<HTMLElement>("[data-data]"), this.log.marks.get(line)?.dataLine];
    if (data && ofLog !== undefined) void toggleData(data, () => api.eventBody(this.fqn, this.runId, ofLog)).catch((error: unknown) => this.events.failed(error));
    if (!target.closest(".number") || event.ctrlKey || event.metaKey) return;
    event.preventDefault();
    const other = event.shiftKey && this.selected ? this.selected.from : line;
    const isAgain = this.selected?.from === line && this.selected.to === line;
    this.select(isAgain ? undefined : { from: Math.min(other, line), to: Math.max(other, line) });
  }

  private async showAll(line: number, where: HTMLElement | null): Promise<void> {
    try {
      const whole = el("span", { class: "whole", tabindex: 0, role: "region", "aria-label": `All of line ${count(line + 1)}` }, await this.log.whole(line));
      where?.replaceChildren(whole);
      whole.focus({ preventScroll: true });
    } catch (error) {
      this.events.failed(error);
    }
  }
}
