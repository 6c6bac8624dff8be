/** Lines and errors over time, as bars: a click goes to the first line of a bar. Arrow keys walk them. */

import type { Bucket, Histogram } from "../api";
import { el } from "../dom";
import { clock, clockName, plural, time, zone } from "../format";

const DAY_MS = 86_400_000;
const CLOCK_TITLES = {
  lines: "As the lines state them, UTC where they name no zone, in this browser's zone",
  arrival: "When the lines were stored, for their own times are not known, in this browser's zone",
};

export class HistogramView {
  private readonly bars = el("div", { class: "bars", role: "toolbar", "aria-label": "Lines and errors over time" });
  private readonly told = el("p", { class: "told" });
  readonly element = el("section", { class: "histogram", "aria-label": "Histogram", hidden: true }, this.bars, this.told);
  /** The time of the first line, by the clock of the histogram and of jumps to a time. */
  fromMs: number | null = null;
  private shown: Bucket[] = [];
  private readonly label: (ms: number) => string = clock;

  constructor(private readonly open: (line: number) => void) {
    this.bars.addEventListener("keydown", (event) => this.key(event));
  }

  show(histogram: Histogram): void {
    this.shown = histogram.buckets;
    this.fromMs = this.shown[0]?.fromMs ?? null;
    const most = Math.max(1, ...this.shown.map((bucket) => bucket.lines));
    const hadFocus = this.bars.contains(document.activeElement);
    const focused = this.index();
    this.bars.replaceChildren(...this.shown.map((bucket, index) => this.bar(bucket, index, most, histogram)));
    if (hadFocus) (this.bars.children[focused] as HTMLElement | undefined)?.focus();
    this.element.hidden = this.shown.length === 0;
    this.told.replaceChildren(...this.legend(histogram));
  }

  /** Which bar the line in view is of. */
  mark(line: number): void {
    const index = this.shown.findLastIndex((bucket) => bucket.lines > 0 && bucket.line <= line);
    [...this.bars.children].forEach((bar, each) => bar.classList.toggle("here", each === index));
  }

  private bar(bucket: Bucket, index: number, most: number, all: Histogram): HTMLElement {
    const when = all.toMs - all.fromMs > DAY_MS ? time(bucket.fromMs) : this.label(bucket.fromMs);
    const errors = bucket.errors === null ? "errors not counted" : plural(bucket.errors, "error");
    const label = `${when}: ${plural(bucket.lines, "line")}, ${errors}`;
    const bar = el("button", { class: "bar", title: label, "aria-label": label, tabindex: index ? -1 : 0, onclick: () => this.open(bucket.line) });
    // A root: a quiet hour beside a loud minute can be seen.
    const share = Math.sqrt(bucket.lines / most);
    const lines = el("span", { class: "lines" });
    lines.style.height = `${bucket.lines ? Math.max(6, share * 100) : 0}%`;
    if (bucket.errors) {
      const errorsBar = el("span", { class: "errors" });
      errorsBar.style.height = `${Math.max(14, Math.min(1, bucket.errors / bucket.lines) * 100)}%`;
      lines.append(errorsBar);
    }
    bar.append(lines);
    return bar;
  }

  private legend(histogram: Histogram): Node[] {
    const errors = this.shown.reduce((sum, bucket) => sum + (bucket.errors ?? 0), 0);
    const isKnown = this.shown.some((bucket) => bucket.errors !== null);
    const sameDay = new Date(histogram.fromMs).toDateString() === new Date(histogram.toMs).toDateString();
    return [
      el("span", {}, time(histogram.fromMs)),
      el("span", { class: "key" }, isKnown ? `${plural(errors, "error")}${histogram.partial ? ", as far as counted" : ""}` : ""),
      el("span", { class: "clock", title: CLOCK_TITLES[histogram.clock] }, `${clockName(histogram.clock)}, ${zone(histogram.fromMs)}`),
      el("span", {}, sameDay ? clock(histogram.toMs) : time(histogram.toMs)),
    ];
  }

  private index(): number {
    return [...this.bars.children].indexOf(document.activeElement as Element);
  }

  private key(event: KeyboardEvent): void {
    const last = this.bars.children.length - 1;
    const goal = { ArrowRight: this.index() + 1, ArrowLeft: this.index() - 1, Home: 0, End: last }[event.key];
    if (goal === undefined) return;
    event.preventDefault();
    [...this.bars.children].forEach((bar, index) => bar.setAttribute("tabindex", index === goal ? "0" : "-1"));
    (this.bars.children[Math.max(0, Math.min(last, goal))] as HTMLElement).focus();
  }
}
