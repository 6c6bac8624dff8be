/** A histogram of lines and errors over time. A click on a bar jumps to its first line; arrow keys move between bars. */

import type { Bucket, Histogram } from "../api";
import { el } from "../dom";
import { clock, clockName, plural, time, zone } from "../format";

const DAY_MS = 86_400_000;
const CLOCK_TITLES = {
  lines: "Timestamps in the lines (without a zone: in the run's zone, or UTC), in the browser's time zone",
  arrival: "Time of storage, because the lines have no timestamps; in the browser's time zone",
};

export class HistogramView {
  private readonly bars = el("div", { class: "bars", role: "toolbar", "aria-label": "Lines and errors over time" });
  private readonly errorCount = el("button", { class: "quiet", title: "Next error (e)", onclick: () => this.nextError() });
  private readonly begin = el("span");
  private readonly source = el("span", { class: "clock" });
  private readonly end = el("span");
  private readonly caption = el("p", { class: "caption" }, this.begin, this.errorCount, this.source, this.end);
  readonly element = el("section", { class: "histogram", "aria-label": "Histogram", hidden: true }, this.bars, this.caption);
  /** Time of the first line, from the same source of times as the bars. */
  fromMs: number | null = null;
  /** Number of errors; null: not all are counted. */
  errors: number | null = null;
  private buckets: Bucket[] = [];
  private readonly label: (ms: number) => string = clock;

  constructor(private readonly open: (line: number) => void, private readonly nextError: () => void) {
    this.bars.addEventListener("keydown", (event) => this.key(event));
  }

  show(histogram: Histogram): void {
    this.buckets = histogram.buckets;
    this.fromMs = this.buckets[0]?.fromMs ?? null;
    const maxLines = Math.max(1, ...this.buckets.map((bucket) => bucket.lines));
    const hadFocus = this.bars.contains(document.activeElement);
    const focused = this.index();
    this.bars.replaceChildren(...this.buckets.map((bucket, index) => this.bar(bucket, index, maxLines, histogram)));
    if (hadFocus) (this.bars.children[focused] as HTMLElement | undefined)?.focus();
    this.element.hidden = this.buckets.length === 0;
    this.showErrors(histogram);
    this.showTimes(histogram);
  }

  /** Highlight the bar that contains a line. */
  mark(line: number): void {
    const index = this.buckets.findLastIndex((bucket) => bucket.lines > 0 && bucket.line <= line);
    [...this.bars.children].forEach((bar, each) => bar.classList.toggle("here", each === index));
  }

  private bar(bucket: Bucket, index: number, maxLines: number, all: Histogram): HTMLElement {
    const when = all.toMs - all.fromMs > DAY_MS ? time(bucket.fromMs) : this.label(bucket.fromMs);
    const errors = bucket.errors === null ? "errors not counted" : plural(bucket.errors, "error");
    const label = `${when}: ${plural(bucket.lines, "line")}, ${errors}`;
    const bar = el("button", { class: "bar", title: label, "aria-label": label, tabindex: index ? -1 : 0, onclick: () => this.open(bucket.line) });
    // The square root keeps bars with few lines visible.
    const share = Math.sqrt(bucket.lines / maxLines);
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

  private showTimes(histogram: Histogram): void {
    const sameDay = new Date(histogram.fromMs).toDateString() === new Date(histogram.toMs).toDateString();
    this.begin.textContent = time(histogram.fromMs);
    this.source.textContent = `${clockName(histogram.clock)}, ${zone(histogram.fromMs)}`;
    this.source.title = CLOCK_TITLES[histogram.clock];
    this.end.textContent = sameDay ? clock(histogram.toMs) : time(histogram.toMs);
  }

  private showErrors({ partial }: Histogram): void {
    const errors = this.buckets.reduce((sum, bucket) => sum + (bucket.errors ?? 0), 0);
    const isCounted = this.buckets.some((bucket) => bucket.errors !== null);
    this.errors = partial || this.buckets.some((bucket) => bucket.errors === null) ? null : errors;
    this.errorCount.textContent = isCounted ? `${plural(errors, "error")}${partial ? ", counted partially" : ""}` : "";
    this.errorCount.disabled = errors === 0;
    this.errorCount.hidden = !isCounted;
  }

  private index(): number {
    return [...this.bars.children].indexOf(document.activeElement as Element);
  }

  private key(event: KeyboardEvent): void {
    const last = this.bars.children.length - 1;
    const target = { ArrowRight: this.index() + 1, ArrowLeft: this.index() - 1, Home: 0, End: last }[event.key];
    if (target === undefined) return;
    event.preventDefault();
    [...this.bars.children].forEach((bar, index) => bar.setAttribute("tabindex", index === target ? "0" : "-1"));
    (this.bars.children[Math.max(0, Math.min(last, target))] as HTMLElement).focus();
  }
}
