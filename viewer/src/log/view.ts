/**
 * A virtual list of millions of lines: a tall element gives the scroll bar its size, and a sticky pane in it contains only the visible
 * rows. Lines are loaded when they come into view.
 */

import { el } from "../dom";
import type { Line, LineSource } from "./lines";
import { rowOf, type RowState } from "./row";
import { ScrollMap } from "./scroll";

const AHEAD_ROWS = 60;
const SETTLE_MS = 150;
const FETCH_MS = 50;

export interface ViewEvents {
  rowState(line: number): RowState;
  /** The user scrolled. */
  scrolled(isAtEnd: boolean): void;
  /** Rows were rendered. */
  rangeChanged(): void;
  failed(error: unknown): void;
}

export class LogView {
  readonly map = new ScrollMap();
  private readonly sheet = el("div", { class: "sheet", role: "list", "aria-label": "Lines" });
  private readonly pane = el("div", { class: "pane" }, this.sheet);
  private readonly space = el("div", { class: "space" }, this.pane);
  readonly element = el("div", { class: "log", tabindex: 0, role: "region", "aria-label": "Log" }, this.space);
  private readonly watcher = new ResizeObserver(() => this.measure());
  private expectedBar = -1; // offset of the bar set by this class
  private frame = 0;
  private settling = 0;
  private fetchTimer = 0;
  private widestPx = 0;
  isPinned = false;
  private readonly rows = new Map<number, { node: HTMLElement; key: string; line: Line | undefined }>();

  constructor(private readonly lines: LineSource, private readonly events: ViewEvents) {
    this.element.addEventListener("scroll", () => this.scrolled(), { passive: true });
    this.watcher.observe(this.element);
  }

  /** Visible lines: first, and exclusive end. */
  get range(): [number, number] {
    const rows = Math.ceil(this.map.viewPx / this.map.rowPx) + 1;
    const first = Math.floor(this.map.line);
    return [first, Math.min(this.map.lines, first + rows)];
  }

  /** Keep the view at the end while lines are added. */
  pin(isPinned: boolean): void {
    this.isPinned = isPinned;
    if (isPinned) this.show(this.lines.total);
  }

  setWrap(isWrapped: boolean): void {
    const line = this.map.line;
    this.element.classList.toggle("wrapped", isWrapped);
    this.map.isWrapped = isWrapped;
    this.widestPx = 0;
    this.space.style.minWidth = "";
    this.show(line);
  }

  /** Scroll to a line: to the top of the view, or to a share of its height. */
  show(line: number, share = 0): void {
    this.map.lines = this.lines.total;
    const rows = (this.map.viewPx / this.map.rowPx) * share;
    this.setBar(this.map.show(Math.max(0, line - rows)));
    this.draw();
  }

  /** Render again after lines were added or changed. */
  update(): void {
    const hasGrown = this.map.lines !== this.lines.total;
    this.map.lines = this.lines.total;
    if (this.isPinned && hasGrown) this.setBar(this.map.show(this.map.lines));
    else if (hasGrown) this.setBar(this.map.settle());
    this.draw();
  }

  draw(): void {
    this.frame ||= requestAnimationFrame(() => {
      this.frame = 0;
      this.render();
    });
  }

  /** Show a fold's new state. Its button is replaced and keeps the focus. */
  folded(line: number, kind: string): void {
    this.update();
    const focus = () => this.element.querySelector<HTMLElement>(`[data-line="${line}"] [data-fold="${kind}"]`)?.focus();
    requestAnimationFrame(() => requestAnimationFrame(focus));
  }

  destroy(): void {
    this.watcher.disconnect();
    cancelAnimationFrame(this.frame);
    clearTimeout(this.settling);
    clearTimeout(this.fetchTimer);
  }

  private measure(): void {
    const wasAtEnd = this.map.range > 0 && this.map.isAtEnd; // keeps the last line visible
    const style = getComputedStyle(this.element);
    this.map.rowPx = parseFloat(style.getPropertyValue("--row")) || 20;
    this.map.viewPx = this.element.clientHeight || 600;
    this.pane.style.height = `${this.map.viewPx}px`;
    if (this.isPinned || wasAtEnd) this.show(this.lines.total);
    else this.setBar(this.map.settle());
    this.draw();
  }

  private setBar(bar: number): void {
    this.space.style.height = `${this.map.heightPx}px`;
    if (Math.abs(this.element.scrollTop - bar) < 1) return;
    this.element.scrollTop = bar;
    this.expectedBar = this.element.scrollTop;
  }

  private scrolled(): void {
    const bar = this.element.scrollTop;
    if (Math.abs(bar - this.expectedBar) < 1) {
      this.expectedBar = -1;
      return;
    }
    const before = this.map.top;
    this.map.scrolled(bar);
    if (this.map.top !== before) this.events.scrolled(this.map.isAtEnd);
    clearTimeout(this.settling);
    this.settling = window.setTimeout(() => this.setBar(this.map.settle()), SETTLE_MS);
    this.draw();
  }

  private render(): void {
    const [first, end] = this.range;
    const start = this.map.isWrapped ? Math.max(0, Math.min(first, this.map.lines - (end - first) - 20)) : first;
    this.fill(start, end);
    this.sheet.style.setProperty("--digits", `${Math.max(4, String(this.map.lines).length)}ch`);
    this.shift(this.rows.get(first)?.node);
    this.widen();
    this.events.rangeChanged();
    this.requestLines(first, end);
  }

  /** Update the rows. Unchanged rows keep their element, and so the user's text selection. */
  private fill(start: number, end: number): void {
    for (const [number, { node }] of this.rows) if (number < start || number >= end) this.rows.delete(number), node.remove();
    let at = this.sheet.firstChild;
    for (let number = start; number < end; number += 1) {
      const old = this.rows.get(number)?.node;
      const node = this.row(number);
      if (old && old !== node) old.replaceWith(node);
      if (old && old === at) at = node;
      if (node === at) at = at.nextSibling;
      else this.sheet.insertBefore(node, at);
    }
  }

  private row(number: number): HTMLElement {
    const [line, state] = [this.lines.get(number), this.events.rowState(number)];
    const current = this.rows.get(number);
    const label = this.lines.number(number);
    const key = `${label}${state.isAfterGap} ${state.mark?.severity}${state.mark?.dataLine}${state.annotations?.length ?? 0}${state.isSelected}${state.isCurrent}${state.isMatch}${state.isCause}${state.spans}${line?.text.length}${line?.fullLength}`;
    if (current?.key === key && current.line === line) return current.node;
    const node = rowOf(label, line, state);
    this.rows.set(number, { node, key, line });
    return node;
  }

  /** Shift the rows by the hidden share of the first one. At the end of the log, align the last row with the bottom. */
  private shift(first: HTMLElement | undefined): void {
    const hidden = first ? first.offsetTop + (this.map.line % 1) * first.offsetHeight : 0;
    const last = this.rows.get(this.map.lines - 1)?.node;
    const max = last ? Math.max(0, last.offsetTop + last.offsetHeight - this.map.viewPx) : hidden;
    const offset = last ? (this.isPinned ? max : Math.min(hidden, max)) : hidden;
    this.sheet.style.transform = `translateY(${-offset}px)`;
  }

  /** Keep the width of the widest row so far, so that the horizontal bar does not jump while scrolling. */
  private widen(): void {
    const width = this.sheet.offsetWidth;
    if (this.map.isWrapped || width <= this.widestPx) return;
    this.widestPx = width;
    this.space.style.minWidth = `${width}px`;
  }

  private requestLines(first: number, end: number): void {
    clearTimeout(this.fetchTimer);
    const [from, to] = [Math.max(0, first - AHEAD_ROWS), Math.min(this.lines.total, end + AHEAD_ROWS)];
    this.fetchTimer = window.setTimeout(() => {
      this.lines.ensureLoaded(from, to, () => this.update()).catch((error: unknown) => this.events.failed(error));
    }, FETCH_MS);
  }
}
