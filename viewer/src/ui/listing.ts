/** A table that loads a list page by page, with a button for the next page. */

import { el } from "../dom";

export interface Listing<Item> {
  head: string[];
  row(item: Item): HTMLElement[];
  /** Shown below the row, across all columns. */
  below?(item: Item): HTMLElement | null;
  fetch(cursor: string | null, signal: AbortSignal): Promise<{ items: Item[]; cursor: string | null }>;
  empty: string;
  label: string;
  failed(container: HTMLElement, error: unknown, retry: () => void): void;
}

export class ListView<Item> {
  private readonly body = el("tbody");
  private readonly status = el("p", { class: "soft status", role: "status" });
  private readonly more = el("button", { hidden: true, onclick: () => void this.next() }, "Show more");
  private readonly trouble = el("div");
  private readonly table: HTMLElement;
  readonly element: HTMLElement;
  private cursor: string | null = null;
  private stop = new AbortController();

  constructor(private readonly listing: Listing<Item>) {
    const head = el("thead", {}, el("tr", {}, ...listing.head.map((title) => el("th", { scope: "col" }, title))));
    this.table = el("table", { "aria-label": listing.label, hidden: true }, head, this.body);
    this.element = el("div", { class: "listing" }, this.table, this.status, this.more, this.trouble);
  }

  /** Load the list from its start. */
  async load(): Promise<void> {
    this.stop.abort();
    this.stop = new AbortController();
    this.cursor = null;
    if (!this.body.childElementCount) this.status.textContent = "Loading…";
    await this.page(true);
  }

  leave(): void {
    this.stop.abort();
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
      if (isFirst) this.body.replaceChildren();
      this.body.append(...items.flatMap((item) => this.rows(item)));
      this.cursor = cursor;
      this.updateStatus(items.length);
    } catch (error) {
      if (signal.aborted) return;
      this.status.textContent = "";
      this.listing.failed(this.trouble, error, () => void this.page(isFirst));
    }
    this.more.disabled = false;
  }

  private rows(item: Item): HTMLElement[] {
    const cells = this.listing.row(item);
    cells.forEach((cell, index) => (cell.dataset["label"] = this.listing.head[index] ?? ""));
    const below = this.listing.below?.(item);
    return [el("tr", {}, ...cells), ...(below ? [el("tr", { class: "why" }, el("td", { colspan: cells.length }, below))] : [])];
  }

  /** `loaded`: number of items of the last fetch. If it is 0, the list may still have more items. */
  private updateStatus(loaded: number): void {
    const isEmpty = this.body.childElementCount === 0;
    const mayHaveMore = this.cursor !== null;
    this.table.hidden = isEmpty;
    this.more.hidden = !mayHaveMore;
    this.more.textContent = loaded > 0 ? "Show more" : "Search further";
    this.status.textContent = loaded > 0 ? "" : mayHaveMore ? "Nothing found so far." : isEmpty ? this.listing.empty : "";
  }
}
