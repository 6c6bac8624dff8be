/** Reasons of dead letters, which a list of them does not have: requested for rows in view, or of all loaded rows when they are searched. */

import { api, type Letter } from "../api";
import { fill, name } from "../dom";
import { shown } from "../log/ansi";

const CONCURRENT = 4;
/** A larger letter is not fetched for its reason. */
const MAX_BYTES = 65_536;

export class Reasons {
  private readonly observer = new IntersectionObserver((entries) => this.seen(entries), { rootMargin: "80px" });
  private readonly letters = new Map<Element, Letter>();
  private readonly waiting: Element[] = [];
  private readonly stop = new AbortController();
  private active = 0;

  /** `onChange` is called when a cell has its reason. */
  constructor(private readonly onChange: () => void) {}

  /** Fill the cell with the reason: at once if rows are searched, otherwise once it is in view. */
  watch(cell: HTMLElement, letter: Letter, isSearched: boolean): void {
    if (letter.bytes > MAX_BYTES) return fill(cell, "Open it to see the reason.");
    fill(cell, "…");  // an empty cell is never in view on a narrow screen
    this.letters.set(cell, letter);
    if (!isSearched) return this.observer.observe(cell);
    this.enqueue(cell);
    this.start();
  }

  /** The list begins anew. */
  clear(): void {
    this.observer.disconnect();
    this.letters.clear();
    this.waiting.length = 0;
  }

  /** Request those of all rows. */
  loadAll(): void {
    for (const cell of this.letters.keys()) this.enqueue(cell);
    this.start();
  }

  leave(): void {
    this.clear();
    this.stop.abort();
  }

  private seen(entries: IntersectionObserverEntry[]): void {
    for (const { target, isIntersecting } of entries) if (isIntersecting) this.enqueue(target);
    this.start();
  }

  private enqueue(cell: Element): void {
    this.observer.unobserve(cell);
    if (!this.waiting.includes(cell)) this.waiting.push(cell);
  }

  private start(): void {
    while (this.active < CONCURRENT && this.waiting.length) void this.next();
  }

  private async next(): Promise<void> {
    this.active += 1;
    for (let cell = this.waiting.shift(); cell && !this.stop.signal.aborted; cell = this.waiting.shift()) await this.load(cell as HTMLElement);
    this.active -= 1;
  }

  /** The page of a letter that is gone since, or that cannot be read, says why. */
  private async load(cell: HTMLElement): Promise<void> {
    const letter = this.letters.get(cell);
    this.letters.delete(cell);
    if (!letter) return;
    const details = await api.letter(letter, this.stop.signal).catch(() => null);
    fill(cell, details ? name(shown(details.reason)) : "Not available: open it to see why.");
    this.onChange();
  }
}
