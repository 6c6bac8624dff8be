/** The steps of a run as a tree with mouse and keyboard navigation (ARIA tree view pattern), and the completeness of its events. */

import type { Step } from "../api";
import type { Completeness } from "../paging";
import { el, name } from "../dom";
import { count, duration, plural, size } from "../format";
import { signOf } from "./ranges";
import { initiallyFolded, treeOf, visible, type Node } from "./tree";

export interface PanelEvents {
  /** Open a step's log, or (null) the run's log. */
  open(step: Step | null): void;
}

const MAX_NODES = 2_000;

export class StepPanel {
  private readonly tree = el("ul", { class: "tree", role: "tree", "aria-label": "Steps" });
  private readonly state = el("p", { class: "state", role: "status" });
  readonly element = el("section", { class: "steps", "aria-label": "Steps of the run", hidden: true }, this.state, this.tree);
  private steps: Step[] = [];
  private roots: Node[] = [];
  private folded: Set<string> | null = null;
  private current: string | null = null;
  private focused: string | null = null; // the step of the focused item; null: the run's log

  constructor(private readonly events: PanelEvents) {
    this.tree.addEventListener("keydown", (event) => this.key(event));
    this.tree.addEventListener("click", (event) => this.click(event));
  }

  get isEmpty(): boolean {
    return this.steps.length === 0;
  }

  find(step: string): Step | undefined {
    return this.steps.find((each) => each.step === step);
  }

  show(steps: Step[], completeness: Completeness): void {
    const isSame = JSON.stringify(steps) === JSON.stringify(this.steps);
    this.steps = steps;
    this.element.hidden = this.isEmpty;
    this.updateState(completeness);
    if (isSame) return;
    this.roots = treeOf(steps);
    this.folded ??= initiallyFolded(this.roots);
    this.draw();
  }

  /** Mark the step whose log is open. */
  mark(step: string | null): void {
    this.current = this.focused = step;
    this.draw();
  }

  focus(): void {
    (this.tree.querySelector<HTMLElement>('[tabindex="0"]') ?? this.tree).focus();
  }

  private updateState({ state, lost }: Completeness): void {
    const text = this.text(state, lost);
    if (this.state.dataset["announced"] === text) return; // so that screen readers do not repeat it
    this.state.dataset["announced"] = text;
    this.state.className = `state ${state}`;
    this.state.replaceChildren(...(state === "lost" ? ["Events are lost. Writers: ", ...lost.flatMap((each, index) => [index ? ", " : "", name(each)])] : [text]));
  }

  private text(state: Completeness["state"], lost: string[]): string {
    if (state === "lost") return `Events are lost. Writers: ${lost.join(", ")}`;
    return state === "complete" ? "Complete: all events are stored" : "Not complete yet";
  }

  private draw(): void {
    const hadFocus = this.tree.contains(document.activeElement);
    const nodes = visible(this.roots, this.folded ?? new Set()).slice(0, MAX_NODES);
    if (!nodes.some((node) => node.step.step === this.focused)) this.focused = null;
    this.tree.replaceChildren(this.runItem(), ...nodes.map((node) => this.item(node)));
    if (hadFocus) this.focus();
  }

  private runItem(): HTMLElement {
    const attributes = this.attributes(null, 1);
    return el("li", attributes, el("span", { class: "label" }, "Whole log"));
  }

  private item({ step, depth, children }: Node): HTMLElement {
    const [sign, label] = signOf(step);
    const isFolded = this.folded?.has(step.step) ?? false;
    const node = el("li", { ...this.attributes(step.step, depth + 1), "aria-expanded": children.length ? String(!isFolded) : null, title: this.tooltip(step) },
      el("span", { class: "fold", "aria-hidden": true }, children.length ? (isFolded ? "▸" : "▾") : ""),
      el("span", { class: `sign ${step.status ?? "none"}`, "aria-hidden": true }, sign),
      el("span", { class: "label" }, name(step.name)),
      el("span", { class: "hidden" }, ` ${label}`),
      step.errors > 0 && el("span", { class: "errors" }, ` ${plural(step.errors, "error")}`),
      !step.complete && step.status !== "running" && el("span", { class: "partly" }, " incomplete"),
      el("span", { class: "took" }, durationText(step)));
    node.style.setProperty("--depth", String(Math.min(depth, 12)));
    return node;
  }

  private attributes(step: string | null, level: number) {
    return { role: "treeitem", "data-step": step ?? "", "aria-level": level, "aria-selected": String(step === this.current), tabindex: step === this.focused ? 0 : -1 };
  }

  private tooltip(step: Step): string {
    return `${step.name}: ${count(step.lines)} lines, ${size(step.bytes)}${step.complete ? "" : ", more may follow"}`;
  }

  private click(event: MouseEvent): void {
    const item = (event.target as Element).closest<HTMLElement>("[data-step]");
    if (!item) return;
    const step = item.dataset["step"] || null;
    this.focused = step;
    if (step && (event.target as Element).closest(".fold") && item.hasAttribute("aria-expanded")) this.toggle(step);
    else this.events.open(step === null ? null : this.find(step) ?? null);
    this.focus();
  }

  private key(event: KeyboardEvent): void {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const nodes = visible(this.roots, this.folded ?? new Set()).slice(0, MAX_NODES);
    const at = nodes.findIndex((node) => node.step.step === this.focused); // -1: the run's log
    const node = nodes[at];
    const actions: Record<string, () => void> = {
      ArrowDown: () => this.move(nodes[Math.min(at + 1, nodes.length - 1)] ?? null),
      ArrowUp: () => this.move(at <= 0 ? null : nodes[at - 1] ?? null),
      Home: () => this.move(null),
      End: () => this.move(nodes.at(-1) ?? null),
      ArrowRight: () => this.into(node),
      ArrowLeft: () => this.outOf(node),
      Enter: () => this.events.open(node?.step ?? null),
      " ": () => this.events.open(node?.step ?? null),
    };
    const action = actions[event.key];
    if (!action) return;
    event.preventDefault();
    event.stopPropagation(); // the page handles some of these keys too
    action();
  }

  private move(node: Node | null): void {
    this.focused = node?.step.step ?? null;
    for (const item of this.tree.children) (item as HTMLElement).tabIndex = (item as HTMLElement).dataset["step"] === (this.focused ?? "") ? 0 : -1;
    this.focus();
  }

  private into(node: Node | undefined): void {
    if (!node?.children.length) return;
    if (this.folded?.has(node.step.step)) this.toggle(node.step.step);
    else this.move(node.children[0] ?? null);
  }

  private outOf(node: Node | undefined): void {
    if (!node) return;
    if (node.children.length && !this.folded?.has(node.step.step)) this.toggle(node.step.step);
    else if (node.parent) this.move(node.parent);
  }

  private toggle(step: string): void {
    if (!this.folded?.delete(step)) this.folded?.add(step);
    this.draw();
  }
}

/** Duration of a step, or its time so far while it runs. */
export function durationText(step: Step): string {
  if (step.status === "running" && step.startedMs !== null) return `${duration(Date.now() - step.startedMs)} so far`;
  return step.durationMs === null ? "" : duration(step.durationMs);
}
