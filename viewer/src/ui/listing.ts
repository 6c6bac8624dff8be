/** A table that loads a list page by page, with a button for the next page. */

import { el } from "../dom";
import { count } from "../format";

export interface Listing<Item> {
  head: string[];
  row(item: Item): HTMLElement[];
  /** Shown below the row, across all columns. */
  below?(item: Item): HTMLElement | null;
  fetch(cursor: string | null, signal: AbortSignal): Promise<{ items: Item[]; cursor: string | null }>;
  empty: string;
  label: string;
  /** Load the next page when the end is in view, up to this number of items, the most that the list shows. */
  eager?: number;
  failed(container: HTMLElement, error: unknown, retry: () => void): void;
}

/** Focus the link of the next or previous row: of the first one if none has the focus. Returns whether there is a link. */
export function moveFocus(links: HTMLElement[], step: number): boolean {
  const at = links.findIndex((link) => link.closest("tr")?.contains(document.activeElement));
  links[at < 0 ? 0 : Math.min(links.length - 1, Math.max(0, at + step))]?.focus();
  return links.length > 0;
}

export class ListView<Item> {
  private readonly body = el("tbody");
  private readonly status = el("p", { class: "soft status", role: "status" });
  private readonly more = el("button", { hidden: true, onclick: () => void this.next() }, "Show more");
  private readonly trouble = el("div");
  private readonly table: HTMLElement;
  readonly element: HTMLElement;
  private readonly observer = new IntersectionObserver((entries) => this.reached(entries.some((entry) => entry.isIntersecting)), { rootMargin: "600px" });
  private groups: HTMLElement[][] = [];
  private text = "";
  private cursor: string | null = null;
  private stop = new AbortController();

  constructor(private readonly listing: Listing<Item>) {
    const head = el("thead", {}, el("tr", {}, ...listing.head.map((title) => el("th", { scope: "col" }, title))));
    this.table = el("table", { "aria-label": listing.label, hidden: true }, head, this.body);
    this.element = el("div", { class: "listing" }, this.table, this.status, this.more, this.trouble);
    if (listing.eager) this.observer.observe(this.more);
  }

  /** Load the list from its start. */
  async load(): Promise<void> {
    this.stop.abort();
    this.stop = new AbortController();
    this.cursor = null;
    if (!this.groups.length) this.status.textContent = "Loading…";
    await this.page(true);
  }

  leave(): void {
    this.stop.abort();
    this.observer.disconnect();
  }

  /** Show only loaded items that contain a text, in upper or lower case. */
  filter(text: string): void {
    this.text = text.toLowerCase();
    for (const group of this.groups) this.hide(group);
    this.updateStatus(this.groups.length);
  }

  /** Focus the first link of the next or previous visible row. Returns whether there is one. */
  move(step: number): boolean {
    return moveFocus(this.groups.flatMap(([row]) => (row && !row.hidden ? row.querySelector("a") ?? [] : [])), step);
  }

  /** While the list is filtered, only the button continues: a text that is rare would load everything. */
  private reached(isInView: boolean): void {
    if (isInView && !this.text && !this.more.hidden && !this.more.disabled) void this.page(false);
  }

  private hide(group: HTMLElement[]): void {
    const isHidden = !group.some((row) => (row.textContent ?? "").toLowerCase().includes(this.text));
    for (const row of group) row.hidden = isHidden;
  }

  private async next(): Promise<void> {
    const last = this.body.lastElementChild;
    await this.page(false);
    last?.nextElementSibling?.querySelector("a")?.focus();
  }

  private async page(isFirst: boolean): Promise<void> {
    const { signal } = this.stop;
    this.trouble.replaceChildren();
    this.more.disabled = true;
    try {
      const { items, cursor } = await this.listing.fetch(this.cursor, signal);
      if (isFirst) this.groups = [];
      if (isFirst) this.body.replaceChildren();
      const added = items.map((item) => this.rows(item));
      added.forEach((group) => this.hide(group));
      this.groups.push(...added);
      this.body.append(...added.flat());
      this.cursor = cursor;
      this.updateStatus(items.length);
    } catch (error) {
      if (signal.aborted) return;
      this.status.textContent = "";
      if (this.listing.eager) this.more.hidden = true;  // otherwise it would repeat the request at once
      this.listing.failed(this.trouble, error, () => void this.page(isFirst));
    }
    this.more.disabled = false;
    if (this.listing.eager) {  // observed again, it reports whether it is still in view
      this.observer.unobserve(this.more);
      this.observer.observe(this.more);
    }
  }

  private rows(item: Item): HTMLElement[] {
    const cells = this.listing.row(item);
    cells.forEach((cell, index) => (cell.dataset["label"] = this.listing.head[index] ?? ""));
    const below = this.listing.below?.(item);
    return [el("tr", {}, ...cells), ...(below ? [el("tr", { class: "why" }, el("td", { colspan: cells.length }, below))] : [])];
  }

  /** `loaded`: number of items of the last fetch. If it is 0, the list may still have more items. */
  private updateStatus(loaded: number): void {
    const isEmpty = this.groups.length === 0;
    const isFull = this.listing.eager !== undefined && this.groups.length >= this.listing.eager;
    const mayHaveMore = this.cursor !== null && !isFull;
    this.table.hidden = isEmpty;
    this.more.hidden = !mayHaveMore;
    this.more.textContent = loaded > 0 ? "Show more" : "Search further";
    this.status.textContent = this.statusText(loaded, mayHaveMore, isFull && this.cursor !== null);
  }

  private statusText(loaded: number, mayHaveMore: boolean, isCut: boolean): string {
    if (isCut) return `These are the first ${count(this.groups.length)}, the most that this page shows.`;
    if (this.text) return `${count(this.groups.filter(([row]) => !row?.hidden).length)} of ${count(this.groups.length)} loaded rows contain the text.`;
    if (loaded > 0) return "";
    return mayHaveMore ? "Nothing found so far." : this.groups.length ? "" : this.listing.empty;
  }
}
