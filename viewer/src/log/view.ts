/**
 * Lines in view, out of millions: an element as tall as the bar wants it, and in it a pane that stays in place and holds the rows that
 * can be seen. What a row needs is asked for when it is needed.
 */

import { el } from "../dom";
import type { Line, LineSource } from "./lines";
import { rowOf, type Look } from "./row";
import { ScrollMap } from "./scroll";

const AHEAD_ROWS = 60;
const SETTLE_MS = 150;
const FETCH_MS = 50;

export interface ViewEvents {
  look(line: number): Look;
  /** Whoever reads moved the log by hand. */
  moved(isAtEnd: boolean): void;
  /** The first line in view changed. */
  seen(line: number): void;
  failed(error: unknown): void;
}

export class LogView {
  readonly map = new ScrollMap();
  private readonly sheet = el("div", { class: "sheet", role: "list", "aria-label": "Lines" });
  private readonly pane = el("div", { class: "pane" }, this.sheet);
  private readonly space = el("div", { class: "space" }, this.pane);
  readonly element = el("div", { class: "log", tabindex: 0, role: "region", "aria-label": "Log" }, this.space);
  private readonly watcher = new ResizeObserver(() => this.measure());
  private awaited = -1; // where we put the bar ourselves
  private frame = 0;
  private settling = 0;
  private fetchTimer = 0;
  private widestPx = 0;
  private isPinned = false;
  private readonly rows = new Map<number, { node: HTMLElement; key: string; line: Line | undefined }>();

  constructor(private readonly lines: LineSource, private readonly events: ViewEvents) {
    this.element.addEventListener("scroll", () => this.scrolled(), { passive: true });
    this.watcher.observe(this.element);
  }

  /** Lines in view, the first and the one behind the last. */
  get range(): [number, number] {
    const rows = Math.ceil(this.map.viewPx / this.map.rowPx) + 1;
    const first = Math.floor(this.map.line);
    return [first, Math.min(this.map.lines, first + rows)];
  }

  /** Stay at the end, whatever comes. */
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

  /** Bring a line to the top, or (`share`) so far down. */
  show(line: number, share = 0): void {
    this.map.lines = this.lines.total;
    const rows = (this.map.viewPx / this.map.rowPx) * share;
    this.place(this.map.show(Math.max(0, line - rows)));
    this.draw();
  }

  /** There are more lines, or some look otherwise. */
  update(): void {
    const hasGrown = this.map.lines !== this.lines.total;
    this.map.lines = this.lines.total;
    if (this.isPinned && hasGrown) this.place(this.map.show(this.map.lines));
    else if (hasGrown) this.place(this.map.settle());
    this.draw();
  }

  draw(): void {
    this.frame ||= requestAnimationFrame(() => {
      this.frame = 0;
      this.render();
    });
  }

  destroy(): void {
    this.watcher.disconnect();
    cancelAnimationFrame(this.frame);
    clearTimeout(this.settling);
    clearTimeout(this.fetchTimer);
  }

  private measure(): void {
    const wasAtEnd = this.map.range > 0 && this.map.isAtEnd; // whoever sees the last line goes on seeing it
    const style = getComputedStyle(this.element);
    this.map.rowPx = parseFloat(style.getPropertyValue("--row")) || 20;
    this.map.viewPx = this.element.clientHeight || 600;
    this.pane.style.height = `${this.map.viewPx}px`;
    if (this.isPinned || wasAtEnd) this.show(this.lines.total);
    else this.place(this.map.settle());
    this.draw();
  }

  private place(bar: number): void {
    this.space.style.height = `${this.map.heightPx}px`;
    if (Math.abs(this.element.scrollTop - bar) < 1) return;
    this.element.scrollTop = bar;
    this.awaited = this.element.scrollTop;
  }

  private scrolled(): void {
    const bar = this.element.scrollTop;
    if (Math.abs(bar - this.awaited) < 1) {
      this.awaited = -1;
      return;
    }
    const before = this.map.top;
    this.map.scrolled(bar);
    if (this.map.top !== before) this.events.moved(this.map.isAtEnd);
    clearTimeout(this.settling);
    this.settling = window.setTimeout(() => this.place(this.map.settle()), SETTLE_MS);
    this.draw();
  }

  private render(): void {
    const [first, behind] = this.range;
    const start = this.map.isWrapped ? Math.max(0, Math.min(first, this.map.lines - (behind - first) - 20)) : first;
    this.fill(start, behind);
    this.sheet.style.setProperty("--digits", `${Math.max(4, String(this.map.lines).length)}ch`);
    this.shift(this.rows.get(first)?.node);
    this.widen();
    this.events.seen(first);
    this.ask(first, behind);
  }

  /** Rows that stay as they are stay in place: what somebody has selected in them stays selected. */
  private fill(start: number, behind: number): void {
    for (const [number, { node }] of this.rows) if (number < start || number >= behind) this.rows.delete(number), node.remove();
    let at = this.sheet.firstChild;
    for (let number = start; number < behind; number += 1) {
      const old = this.rows.get(number)?.node;
      const node = this.row(number);
      if (old && old !== node) old.replaceWith(node);
      if (old && old === at) at = node;
      if (node === at) at = at.nextSibling;
      else this.sheet.insertBefore(node, at);
    }
  }

  private row(number: number): HTMLElement {
    const [line, look] = [this.lines.get(number), this.events.look(number)];
    const known = this.rows.get(number);
    const key = `${look.mark?.severity}${look.mark?.dataLine}${look.notes?.length ?? 0}${look.isSelected}${look.isCurrent}${look.isMatch}${look.spans}${line?.text.length}${line?.cut}`;
    if (known?.key === key && known.line === line) return known.node;
    const node = rowOf(number, line, look);
    this.rows.set(number, { node, key, line });
    return node;
  }

  /** The share of the first row that is above the pane; at the end of the log, the last row stands at the bottom. */
  private shift(first: HTMLElement | undefined): void {
    const hidden = first ? first.offsetTop + (this.map.line % 1) * first.offsetHeight : 0;
    const last = this.rows.get(this.map.lines - 1)?.node;
    const most = last ? Math.max(0, last.offsetTop + last.offsetHeight - this.map.viewPx) : hidden;
    const offset = last ? (this.isPinned ? most : Math.min(hidden, most)) : hidden;
    this.sheet.style.transform = `translateY(${-offset}px)`;
  }

  /** The bar below must not jump while lines of other lengths pass: the widest so far counts. */
  private widen(): void {
    const width = this.sheet.offsetWidth;
    if (this.map.isWrapped || width <= this.widestPx) return;
    this.widestPx = width;
    this.space.style.minWidth = `${width}px`;
  }

  private ask(first: number, behind: number): void {
    clearTimeout(this.fetchTimer);
    const [from, to] = [Math.max(0, first - AHEAD_ROWS), Math.min(this.lines.total, behind + AHEAD_ROWS)];
    this.fetchTimer = window.setTimeout(() => {
      this.lines.want(from, to, () => this.update()).catch((error: unknown) => this.events.failed(error));
    }, FETCH_MS);
  }
}
