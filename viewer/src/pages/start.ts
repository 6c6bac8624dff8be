/** The start page: recent runs of all pipelines, at first those that may need attention. It refreshes while it is visible, without moving what
 * the user reads. */

import { api, ApiError, base, type ListedRun } from "../api";
import type { App, View } from "../app";
import { arrange, el, fill } from "../dom";
import { clock, plural } from "../format";
import { loadUntil } from "../paging";
import { addressOf } from "../place";
import { CHIPS, emptyText, isAll, nextOrder, PERIODS, type Filter, type Period } from "../start/filter";
import { Lookups } from "../start/lookups";
import { groupOf, groups, keyOf, refreshed } from "../start/order";
import { HEAD, RunGroup } from "../start/rows";
import { PLAIN } from "../ui/fields";
import { moveFocus } from "../ui/listing";
import { listTabs } from "../ui/tabs";

/** A failure is listed about a second after it; with the refresh, within ten. */
const REFRESH_MS = 8_000;
const MAX_PAUSE_MS = 120_000;
const TYPING_MS = 250;
const PAGE_RUNS = 50;
/** Runs that a refresh reads again, as many as one request has. */
const MAX_REFRESHED = 100;
/** Requests until a page has runs: each examines a thousand of each outcome. */
const MAX_REQUESTS = 5;

export const startPage = (app: App, filter: Filter): View => new StartPage(app, filter);

/** Where a request starts: null is the newest run. A cursor is valid with the start of its period only. */
interface Start { cursor: string | null; since: number }

class StartPage implements View {
  readonly element: HTMLElement;
  private runs: ListedRun[] = [];
  private readonly rows = new Map<string, RunGroup>();
  private readonly lookups = new Lookups((fqn) => this.rows.forEach((row) => row.updateLookups(fqn)));
  private readonly input = el("input", { type: "search", id: "find", placeholder: "pipeline or run id", ...PLAIN, oninput: () => this.type() });
  private readonly period = el("select", { id: "within", onchange: () => this.choose({ period: this.period.value as Period }) },
    ...Object.entries(PERIODS).map(([value, { label }]) => el("option", { value }, label)));
  private readonly chips = CHIPS.map(({ label, next }) => el("button", { type: "button", class: "toggle", onclick: () => this.choose({ outcomes: next(this.filter.outcomes) }) }, label));
  private readonly headings = HEAD.map(([label, column]) => el("th", { scope: "col" }, column ? el("button", { class: "quiet", onclick: () => this.choose({ order: nextOrder(this.filter.order, column) }) }, label) : label));
  private readonly head = el("thead", {}, el("tr", {}, ...this.headings));
  private readonly table = el("table", { "aria-label": "Recent runs", class: "start", hidden: true }, this.head);
  private readonly asOf = el("p", { class: "soft status" });
  private readonly message = el("div", { role: "status" });
  private readonly more = el("button", { hidden: true, onclick: () => void this.next() });
  private readonly trouble = el("div");
  private readonly onVisible = () => this.wake();
  /** Where the list continues. */
  private rest: Start | null = null;
  private stop = new AbortController();
  private timer = 0;
  private typing = 0;
  private failures = 0;
  private loadedMs = 0;
  /** The list is that of the filter. */
  private isCurrent = false;
  /** The last request failed with an error that an automatic retry cannot resolve. */
  private isStopped = false;

  constructor(private readonly app: App, private filter: Filter) {
    this.input.value = filter.text;
    this.element = el("div", { class: "page" }, listTabs("runs"), el("h1", { class: "hidden" }, "Recent runs"),
      el("form", { role: "search", class: "filter", onsubmit: (event: Event) => event.preventDefault() },
        el("div", {}, el("label", { for: "find" }, "Name contains"), this.input), el("div", {}, el("label", { for: "within" }, "Active in the last"), this.period), el("div", { class: "chips", role: "group", "aria-label": "Outcomes" }, this.chips)),
      this.asOf, this.table, this.message, el("div", { class: "listing" }, this.more), this.trouble);
    document.addEventListener("visibilitychange", this.onVisible);
    this.showFilter();
    void this.load();
  }

  leave(): void {
    clearTimeout(this.timer);
    clearTimeout(this.typing);
    document.removeEventListener("visibilitychange", this.onVisible);
    this.stop.abort();
    this.lookups.leave();
  }

  key(event: KeyboardEvent): boolean {
    const step = { j: 1, ArrowDown: 1, k: -1, ArrowUp: -1 }[event.key];
    if (step) return moveFocus(this.links(), step);
    if (event.key !== "/") return false;
    this.input.focus();
    return true;
  }

  private links(): HTMLElement[] {
    return [...this.table.querySelectorAll<HTMLElement>("tr:not([hidden]) > td > a.open")];
  }

  private type(): void {
    clearTimeout(this.typing);
    this.typing = window.setTimeout(() => this.choose({ text: this.input.value }), TYPING_MS);
  }

  /** Change the filter. Only the order needs no request. */
  private choose(change: Partial<Filter>): void {
    this.filter = { ...this.filter, ...change };
    this.app.setPlace({ filter: this.filter });
    this.showFilter();
    if ("order" in change && this.isCurrent) {
      this.show();
      this.showStatus();
    } else void this.load();
  }

  private showFilter(): void {
    const { outcomes, period, order } = this.filter;
    this.chips.forEach((chip, at) => chip.setAttribute("aria-pressed", String(CHIPS[at]!.isPressed(outcomes))));
    this.period.value = period;
    this.headings.forEach((heading, at) => {
      const column = HEAD[at]![1];
      if (column) heading.setAttribute("aria-sort", order?.column !== column ? "none" : order.isDescending ? "descending" : "ascending");
    });
  }

  /** Load the list from its start. */
  private async load(): Promise<void> {
    const signal = this.begin();
    this.isCurrent = false;
    this.table.classList.add("old");
    if (this.runs.length === 0) fill(this.message, "Loading…");
    await this.attempt(signal, async () => {
      const start = this.newest();
      if (!this.loadedMs) await this.showEnded(start, signal);
      const { runs, rest } = await this.fetch(start, PAGE_RUNS, MAX_REQUESTS, signal);
      [this.runs, this.rest, this.isCurrent] = [runs, rest, true];
      this.show();
      if (runs.length === 0 && !rest) await this.explainEmpty(signal);
    });
  }

  /** Show the runs that have ended before the whole list: running ones take the server many queries. */
  private async showEnded(start: Start, signal: AbortSignal): Promise<void> {
    const ended = this.filter.outcomes.filter((each) => each !== "running" && each !== "silent");
    if (ended.length === 0 || ended.length === this.filter.outcomes.length) return;
    const { runs } = await this.fetch(start, PAGE_RUNS, 1, signal, ended);
    if (runs.length === 0) return;
    this.runs = runs;
    this.show();
    this.loadedMs = Date.now();
    this.asOf.textContent = "Loading runs that have not ended…";
  }

  /** Read the newest runs again. */
  private async refresh(): Promise<void> {
    const signal = this.begin();
    await this.attempt(signal, async () => {
      const limit = Math.min(MAX_REFRESHED, Math.max(PAGE_RUNS, this.runs.length));
      const { runs: fresh, rest } = await this.fetch(this.newest(), limit, 1, signal);
      this.markOutdated(fresh);
      const { runs, isKept } = refreshed(this.runs, fresh, rest === null, fresh.length === limit);
      this.runs = runs;
      if (!isKept) this.rest = rest;
      this.show();
      if (this.message.querySelector(".first-run")) await this.explainEmpty(signal);
    });
  }

  /** Load the next page. */
  private async next(): Promise<void> {
    if (!this.rest) return;
    const [signal, start] = [this.begin(), this.rest];
    this.more.disabled = true;
    await this.attempt(signal, async () => {
      const { runs, rest } = await this.fetch(start, PAGE_RUNS, MAX_REQUESTS, signal);
      const known = new Set(this.runs.map(keyOf));
      const last = this.links().at(-1);
      this.runs.push(...runs.filter((run) => !known.has(keyOf(run))));
      this.rest = rest;
      this.show();
      const links = this.links();
      links[links.indexOf(last!) + 1]?.focus();
    });
    this.more.disabled = false;
  }

  private begin(): AbortSignal {
    clearTimeout(this.timer);
    this.stop.abort();
    this.stop = new AbortController();
    return this.stop.signal;
  }

  private async attempt(signal: AbortSignal, request: () => Promise<void>): Promise<void> {
    try {
      await request();
      if (signal.aborted) return;
      [this.failures, this.isStopped, this.loadedMs] = [0, false, Date.now()];
      this.trouble.replaceChildren();
      this.showStatus();
    } catch (error) {
      if (signal.aborted) return;
      this.failed(error);
    }
    this.schedule();
  }

  private showStatus(): void {
    const more = this.rest ? (this.filter.order ? " with the latest activity, and more" : ", and more") : "";
    this.asOf.classList.remove("wrong");
    this.asOf.textContent = `${plural(this.runs.length, "run")}${more}. As of ${clock(this.loadedMs)}.`;
  }

  private newest(): Start {
    return { cursor: null, since: Date.now() - PERIODS[this.filter.period].ms };
  }

  private async fetch({ cursor: start, since }: Start, limit: number, maxRequests: number, signal: AbortSignal, outcomes = this.filter.outcomes): Promise<{ runs: ListedRun[]; rest: Start | null }> {
    const { text } = this.filter;
    const page = await loadUntil(async (cursor) => {
      const { runs, cursor: next } = await api.recent({ outcome: isAll(outcomes) ? null : outcomes.join(","), contains: text, since, limit, cursor }, signal);
      signal.throwIfAborted();
      return { items: runs, cursor: next };
    }, start, 1, maxRequests);
    return { runs: page.items, rest: page.cursor === null ? null : { cursor: page.cursor, since } };
  }

  /** Have the results of pipelines read again whose runs are new here or have changed. */
  private markOutdated(fresh: ListedRun[]): void {
    const known = new Map(this.runs.map((run) => [keyOf(run), run.outcome]));
    for (const run of fresh) if (known.get(keyOf(run)) !== run.outcome) this.lookups.outdated(run.fqn);
  }

  private show(): void {
    const isEmpty = this.runs.length === 0;
    this.keepPlace(() => {
      arrange(this.table, [this.head, ...this.bodies()]);
      this.table.hidden = isEmpty;
    });
    this.table.classList.remove("old");
    this.more.hidden = this.rest === null;
    this.more.textContent = isEmpty ? "Search further" : "Show more";
    if (!isEmpty) fill(this.message);
    else if (this.rest) fill(this.message, "Nothing found so far.");
    else if (!this.message.querySelector(".first-run")) fill(this.message, el("p", {}, emptyText(this.filter)));
    this.lookups.update();
  }

  private bodies(): HTMLElement[] {
    const listed = new Map(groups(this.runs, this.filter.order).map((runs) => [groupOf(runs[0]!), runs]));
    for (const [key, row] of this.rows) {
      if (listed.has(key)) continue;
      row.leave();
      this.rows.delete(key);
    }
    return [...listed].map(([key, runs]) => {
      const row = this.rows.get(key) ?? new RunGroup(this.lookups);
      this.rows.set(key, row);
      row.update(runs);
      return row.element;
    });
  }

  /** Change the table. The row that has the focus or selected text, otherwise the first visible one of a scrolled page, stays where it is on
   * the screen. */
  private keepPlace(change: () => void): void {
    const focused = this.table.contains(document.activeElement) ? (document.activeElement as HTMLElement) : null;
    const at = this.links().findIndex((link) => link === focused);
    const selection = getSelection();
    const selected = selection && !selection.isCollapsed && this.table.contains(selection.anchorNode) ? selection.anchorNode?.parentElement : null;
    const bodies = [...this.table.tBodies];
    const visible = scrollY > 0 ? bodies.find((body) => body.getBoundingClientRect().bottom > 0) : null;
    const anchor = (focused ?? selected)?.closest("tbody") ?? visible;
    const before = anchor?.getBoundingClientRect().top ?? 0;
    change();
    if (focused && document.activeElement !== focused) (focused.isConnected ? focused : this.links()[Math.min(at, this.links().length - 1)])?.focus({ preventScroll: true });
    if (anchor?.isConnected) scrollBy(0, anchor.getBoundingClientRect().top - before);
  }

  /** Without any pipeline, say how to send the first run; with the first one, no longer. */
  private async explainEmpty(signal: AbortSignal): Promise<void> {
    const { pipelines, cursor } = await api.pipelines("", null, signal, 1);
    if (signal.aborted) return;
    if (pipelines.length > 0 || cursor !== null) return fill(this.message, el("p", {}, emptyText(this.filter)));
    const command = `export RUNLAKE_URL=${base}\nrunlake exec my.pipeline -- echo hello`;
    fill(this.message, el("div", { class: "first-run" }, el("h2", {}, "No runs yet"),
      el("p", {}, "There are no runs, or you lack permission to read them. To send the first one:"), el("pre", {}, command),
      el("p", { class: "soft" }, "It is listed under All within seconds. ", el("a", { href: addressOf({ isList: true }), "data-go": true }, "Pipelines"))));
  }

  private schedule(): void {
    clearTimeout(this.timer);
    if (this.isStopped || document.hidden) return;
    this.timer = window.setTimeout(() => this.again(), Math.min(MAX_PAUSE_MS, REFRESH_MS * 2 ** this.failures));
  }

  private again(): void {
    void (this.isCurrent ? this.refresh() : this.load());
  }

  /** The page is visible again, or hidden: then it pauses. */
  private wake(): void {
    if (document.hidden) clearTimeout(this.timer);
    else if (!this.isStopped && Date.now() - this.loadedMs >= REFRESH_MS) this.again();
    else this.schedule();
  }

  /** While the server is unavailable, keep the last list and show its time. */
  private failed(error: unknown): void {
    if (error instanceof ApiError && error.isTransient && this.loadedMs) {
      this.failures += 1;
      this.asOf.textContent = `The server does not respond. Runs as of ${clock(this.loadedMs)}; this page keeps retrying.`;
      this.asOf.classList.add("wrong");
      return;
    }
    this.isStopped = true;
    [this.runs, this.rest, this.loadedMs] = [[], null, 0];
    this.show();
    fill(this.message);
    this.asOf.textContent = "";
    this.app.fail(this.trouble, error, () => void this.load());
  }
}
