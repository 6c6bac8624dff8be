/** The page of a run: facts, log, search, histogram, steps. Connects the components of log/ and steps/. */

import { ApiError, api, type Clock, linesOf, type RunDetails, type Step } from "../api";
import type { App, View } from "../app";
import { el } from "../dom";
import { clockName, count, plural, zone } from "../format";
import { copyable } from "../log/ansi";
import { copyText, fetchLines, MAX_COPIED_LINES } from "../log/clipboard";
import { confirmDeletion } from "../log/deletion";
import { download } from "../log/download";
import { type FoundError, nextError, previousError } from "../log/errors";
import { Feed, type FeedState } from "../log/feed";
import { lastLine } from "../log/groups";
import { HistogramView } from "../log/histogram";
import { toggleData } from "../log/data";
import { Lines } from "../log/lines";
import { parseTarget } from "../log/moment";
import { RunOutline } from "../log/outline";
import { type RowState, showFullLine } from "../log/row";
import { Search } from "../log/search";
import { SearchBox } from "../log/searchbox";
import { Summary } from "../log/summary";
import { LogView } from "../log/view";
import { VisibleLines } from "../log/visible";
import { addressOf, type Lines as Range, type Place, type SearchQuery } from "../place";
import { RunHead } from "../log/head";
import { rangesOf } from "../steps/ranges";
import { RunSteps } from "../steps/steps";
import { hasFailed } from "../ui/facts";
import { errorText, GONE } from "../ui/notice";

const FACTS_MS = 10_000;
const SETTLE_MS = 1000;
const HISTOGRAM_MS = 30_000;
const HISTOGRAM_BARS = 80;
const FIRST_LINES = 200;
const AHEAD_LINES = 100; // lines above and below the view whose levels are fetched too
const MAX_OUTLINED_LINES = 2_000;
const SHARE_ABOVE = 0.3; // share of the view above the target of a jump
const SHARE_ABOVE_CAUSE = 0.15; // the histogram, shown later, makes the view smaller
const WRAP_KEY = "runlake.wrap";

export function runPage(app: App, fqn: string, runId: string, place: Place): View {
  return new RunPage(app, fqn, runId, place);
}

class RunPage implements View {
  private facts: RunDetails | null = null;
  private selected: Range | undefined;
  private isFollowing = false;
  private readonly timers: number[] = [];
  private ticking = 0;
  private readonly stopping = new AbortController();
  private readonly trouble = el("div", { class: "trouble" });
  private query: SearchQuery | undefined;
  private arrival: number | undefined; // line of the URL, until its search is done
  private readonly lines: Lines;
  private readonly visible: VisibleLines;
  private readonly outline: RunOutline;
  private readonly view: LogView;
  private readonly feed: Feed;
  private readonly search: Search;
  private readonly box: SearchBox;
  private readonly histogram: HistogramView;
  private readonly head: RunHead;
  private readonly steps: RunSteps;
  private opening: Promise<void>;
  private readonly summary = new Summary((line) => this.goTo(line));
  private isExplanationRequested = false;
  private isFindingError = false;
  private reachedError: { by: 1 | -1; line: number; first: number } | null = null; // where a search for errors goes on, if the view has not moved
  readonly element: HTMLElement;

  constructor(private readonly app: App, private readonly fqn: string, private readonly runId: string, place: Place) {
    this.lines = new Lines((after, limit, signal) => api.page(fqn, runId, { after, limit }, signal));
    this.outline = new RunOutline((after, signal) => api.outline(fqn, runId, after, signal));
    this.visible = new VisibleLines(this.lines, (line) => this.search.textOf(line));
    this.view = new LogView(this.visible, {
      rowState: (index) => this.rowState(this.visible.number(index), this.visible.isAfterGap(index)),
      scrolled: (isAtEnd) => this.follow(isAtEnd && this.feed.isRunning),
      rangeChanged: () => this.rangeChanged(),
      failed: (error) => this.failed(error),
    });
    this.feed = new Feed(fqn, runId, {
      next: () => this.lines.total,
      lines: (first, texts) => this.append(first, texts),
      state: (state) => this.feedChanged(state),
      failed: (error) => app.fail(this.trouble, error, () => this.feed.start()),
    });
    this.search = new Search(fqn, runId, () => this.searchChanged(), (error) => this.head.showMessage(errorText(error).next));
    this.box = new SearchBox({
      submit: (query) => void this.find(query),
      only: (context) => this.showOnly(context),
      step: (by) => this.step(by),
      resume: () => void this.search.resume(),
    });
    this.histogram = new HistogramView((line) => this.jump(line), () => void this.stepError(1));
    this.head = new RunHead(this.box.element, {
      jump: (typed) => void this.jumpTo(typed),
      follow: () => this.toggleFollow(),
      wrap: (isWrapped) => this.wrap(isWrapped),
      copy: () => void this.copy(),
      download: () => void this.download(),
      remove: () => confirmDeletion(fqn, runId, (message) => this.deleted(message)),
      retry: () => this.feed.retryNow(),
    });
    this.steps = new RunSteps(fqn, runId, this.view, {
      opened: (step, lines) => this.opened(step?.step, lines),
      loaded: (steps) => this.stepsLoaded(steps),
      goTo: (line) => this.jump(line),
      rangeChanged: (...range) => this.head.showRange(...range),
      failed: (error) => this.failed(error),
    });
    this.element = el("div", { class: "run" }, this.summary.element, this.head.element, this.histogram.element, this.trouble, this.steps.element, this.head.foot);
    this.view.element.addEventListener("click", (event) => this.click(event));
    this.selected = place.step === undefined ? place.lines : undefined;
    this.query = place.search;
    if (this.query) this.box.show(this.query);
    this.wrap(localStorage.getItem(WRAP_KEY) === "yes");
    this.opening = this.open(place);
  }

  key(event: KeyboardEvent): boolean {
    const actions: Record<string, () => void> = {
      "/": () => this.box.input.focus(),
      n: () => this.step(1),
      N: () => this.step(-1),
      m: () => this.showOnly(this.query?.only === undefined ? 0 : undefined),
      e: () => void this.stepError(1),
      E: () => void this.stepError(-1),
      g: () => this.head.focusTarget(),
      f: () => this.toggleFollow(),
      w: () => this.wrap(!this.head.isWrapped),
      c: () => void this.copy(),
      d: () => void this.download(),
      s: () => void this.steps.focus(),
      j: () => this.steps.view.element.scrollBy(0, this.view.map.rowPx),
      k: () => this.steps.view.element.scrollBy(0, -this.view.map.rowPx),
      Home: () => (this.steps.pane ? this.steps.pane.show(0) : this.jump(this.visible.number(0), 0)),
      End: () => (this.steps.pane ? void this.steps.pane.end() : this.jump(this.lines.total, 0)),
      Escape: () => this.escape(),
    };
    const action = actions[event.key];
    action?.();
    return action !== undefined;
  }

  navigate(place: Place): void {
    if (JSON.stringify(place.search) !== JSON.stringify(this.query)) this.restoreSearch(place);
    const step = place.step === undefined ? undefined : this.steps.find(place.step);
    if (step) return this.steps.open(step, place.lines);
    this.selected = place.lines;
    if (this.steps.pane) this.steps.open(null);
    if (place.lines && this.arrival === undefined) this.jump(place.lines.from);
    this.view.update();
  }

  private get isClosed(): boolean {
    return this.stopping.signal.aborted;
  }

  leave(): void {
    this.stopping.abort();
    this.steps.leave();
    this.feed.end();
    this.search.clear();
    this.lines.stop();
    this.outline.stop();
    this.view.destroy();
    this.timers.forEach((timer) => clearInterval(timer));
    clearInterval(this.ticking);
  }

  // Opening

  /** Load the facts and the first visible lines in parallel. Unless the URL names lines, a running run opens at its end, and a failed one
   * at the line that explains it. */
  private async open(place: Place): Promise<void> {
    this.head.showMessage("Loading…");
    try {
      const lines = place.step === undefined ? place.lines : undefined;
      const first = lines ? Math.max(0, lines.from - 50) : 0;
      const [facts, page] = await Promise.all([api.facts(this.fqn, this.runId), api.page(this.fqn, this.runId, { after: first, limit: FIRST_LINES })]);
      if (this.isClosed) return;
      this.lines.putPage(first, page);
      this.lines.total = Math.max(this.lines.total, page.total);
      const explained = this.showFacts(facts);
      this.head.showMessage("");
      this.view.update();
      if (place.search && this.search.state === "none") this.restoreSearch(place);
      if (lines && place.search?.only === undefined) this.jump(lines.from);
      else if (place.step === undefined) void explained.then(() => this.openAtCause());
      if (facts.status === "open") this.watch(!lines && !place.search);
      else void this.loadHistogram();
      void this.steps.start(facts.status === "open", place.step, place.step === undefined ? undefined : place.lines);
      if (!this.element.contains(document.activeElement)) this.view.element.focus({ preventScroll: true }); // the user may be typing already
    } catch (error) {
      if (this.isClosed) return;
      if (error instanceof ApiError && error.status === 410) this.deleted(GONE);
      else this.app.fail(this.trouble, error, () => (this.opening = this.open(place)));
    }
  }

  private watch(isAtEnd: boolean): void {
    this.feed.start();
    this.follow(isAtEnd);
    this.ticking = window.setInterval(() => this.head.showDuration(), 1_000);
    this.timers.push(window.setInterval(() => void this.refresh(), FACTS_MS), window.setInterval(() => void this.loadHistogram(), HISTOGRAM_MS));
    void this.loadHistogram();
  }

  private async refresh(): Promise<void> {
    const facts = await api.facts(this.fqn, this.runId).catch(() => null);
    if (facts && !this.isClosed) void this.showFacts(facts);
  }

  private async loadHistogram(): Promise<void> {
    if (document.hidden) return;
    const histogram = await api.histogram(this.fqn, this.runId, HISTOGRAM_BARS).catch(() => null); // the log is usable without it
    if (histogram && !this.isClosed) this.histogram.show(histogram);
  }

  /** Resolves when the candidates of a failed run are known. */
  private async showFacts(facts: RunDetails): Promise<void> {
    this.facts = facts;
    this.head.showFacts(facts, this.lines.total);
    if (!hasFailed(facts)) return;
    this.summary.show(facts, facts.candidates);
    if (facts.candidates.length || this.isExplanationRequested) return;
    this.isExplanationRequested = true;
    try {
      const { candidates } = await api.explanation(this.fqn, this.runId);
      if (this.isClosed) return;
      this.summary.show(facts, candidates);
      this.view.draw();
    } catch (error) {
      this.isExplanationRequested = false;
      this.failed(error);
    }
  }

  /** Show the best candidate, unless the user is somewhere else already. */
  private openAtCause(): void {
    const line = this.summary.candidates[0]?.line;
    const isElsewhere = this.isClosed || this.selected !== undefined || this.query !== undefined || this.steps.pane !== null || this.view.range[0] > 0;
    if (line !== undefined && !isElsewhere) this.jump(line, SHARE_ABOVE_CAUSE);
  }

  // New lines

  private append(first: number, texts: string[]): void {
    this.lines.put(first, texts);
    this.view.update();
    if (this.facts) this.head.showFacts(this.facts, this.lines.total);
  }

  private feedChanged(state: FeedState): void {
    this.trouble.replaceChildren();
    this.head.live(state);
    if (state.kind !== "ended") return;
    this.timers.forEach((timer) => clearInterval(timer));
    this.follow(false);
    const hasEnded = state.reason === "runFinished";
    void this.settle(hasEnded).then(() => this.head.showMessage(hasEnded ? "The run has ended." : "No new lines for a while: press f to follow again."));
    void this.loadHistogram();
    this.steps.ended();
  }

  /** Refresh the facts until they show the run's end: the catalog has it slightly later than the stream. */
  private async settle(hasEnded: boolean): Promise<void> {
    await this.refresh();
    if (hasEnded && this.facts?.status === "open" && !this.isClosed) this.timers.push(window.setTimeout(() => void this.settle(true), SETTLE_MS));
  }

  /** Show why lines, steps or the explanation are missing. */
  private failed(error: unknown): void {
    if (!this.isClosed) this.app.fail(this.trouble, error, () => this.loadMissing());
  }

  private loadMissing(): void {
    this.view.update();
    this.steps.retry();
    if (this.facts && !this.isExplanationRequested) void this.showFacts(this.facts);
  }

  // Position in the log

  private follow(isFollowing: boolean): void {
    this.isFollowing = isFollowing;
    this.head.following(isFollowing, this.feed.isRunning);
    this.view.pin(isFollowing);
  }

  private toggleFollow(): void {
    if (!this.feed.isRunning && this.facts?.status === "open") this.feed.start();
    if (this.feed.isRunning) this.follow(!this.isFollowing);
    else this.jump(this.lines.total, 0);
  }

  private goTo(line: number): void {
    this.select({ from: line, to: line });
    this.jump(line);
    this.view.element.focus({ preventScroll: true });
  }

  private jump(line: number, share = SHARE_ABOVE): void {
    if (this.steps.pane) this.steps.open(null); // line numbers refer to the run's log
    this.follow(false);
    if (line < this.lines.total && !this.visible.has(line)) this.reveal(line);
    this.view.show(line < this.lines.total ? this.visible.index(line) : this.visible.total, share);
  }

  private reveal(line: number): void {
    if (this.visible.isFiltered) this.showOnly(undefined);
    this.visible.folds.reveal(line);
  }

  private stepsLoaded(steps: Step[]): void {
    this.visible.folds.setSteps(rangesOf(steps));
    this.view.update();
  }

  private toggleStep(line: number): void {
    this.visible.folds.toggleStep(line);
    this.view.folded(line, "step");
  }

  /** Fold or show the lines of a group. The server finds its end. */
  private async toggleGroup(line: number): Promise<void> {
    try {
      if (this.visible.folds.group(line).isFolded) this.visible.folds.unfoldGroup(line);
      else {
        const search = (q: string, after: number) => api.grep(this.fqn, this.runId, { q, regex: true, after, limit: 1 }, this.stopping.signal);
        const last = await lastLine(line, this.lines.get(line)?.text ?? "", search);
        if (last === null) return this.head.showMessage("The end of these lines is not found.");
        this.visible.folds.foldGroup(line, last);
      }
      this.view.folded(line, "group");
    } catch (error) {
      if (!this.isClosed) this.head.showMessage(errorText(error).next);
    }
  }

  /** Jump to the entered line or time, once the run's facts and size are known. The server finds the line of a time. */
  private async jumpTo(typed: string): Promise<void> {
    await this.opening;
    if (this.isClosed) return;
    const target = parseTarget(typed, this.histogram.fromMs ?? this.facts?.startedMs ?? Date.now());
    if (!target) return this.head.showMessage("Not a line number or a time: try 1200, 10:05 or 2026-11-21 10:05.");
    const { line, clock } = "line" in target ? { line: target.line, clock: undefined } : await this.lineAt(target.ms);
    if (line === null) return;
    const at = Math.max(0, Math.min(line, this.lines.total - 1));
    this.goTo(at);
    const end = line > at ? `The log ends at line ${count(at + 1)}.` : "";
    this.head.showMessage([end, clock && "ms" in target && `Found by ${clockName(clock)}, ${zone(target.ms)}.`].filter(Boolean).join(" "));
  }

  private async lineAt(ms: number): Promise<{ line: number | null; clock?: Clock | undefined }> {
    try {
      const page = await api.page(this.fqn, this.runId, { since: ms, clock: "lines", limit: 1 });
      const end = page.after === null ? page.total : Number(page.after);
      return { line: page.logs === "" && page.after === null ? page.total : Math.max(0, end - linesOf(page).length), clock: page.clock };
    } catch (error) {
      this.head.showMessage(errorText(error).next);
      return { line: null };
    }
  }

  /** Go to the next or previous error. A search that finds none within its requests goes on when it is repeated. */
  private async stepError(by: 1 | -1): Promise<void> {
    if (this.isFindingError) return;
    if (this.histogram.errors === 0 && this.facts?.status !== "open") return this.head.showMessage("The log has no errors.");
    this.isFindingError = true;
    this.head.showMessage("Searching for errors…");
    try {
      const find = by === 1 ? nextError : previousError;
      const found = await find((after) => api.outline(this.fqn, this.runId, after, this.stopping.signal), this.errorOrigin(by));
      if (!this.isClosed) this.showError(by, found);
    } catch (error) {
      if (!this.isClosed) this.head.showMessage(errorText(error).next);
    } finally {
      this.isFindingError = false;
    }
  }

  private showError(by: 1 | -1, { line, reached, isEnd }: FoundError): void {
    const side = by === 1 ? "below" : "above";
    if (line !== null) this.goTo(line);
    this.reachedError = line === null && !isEnd ? { by, line: reached, first: this.shownRange[0] } : null;
    this.head.showMessage(line !== null ? "" : isEnd ? `No more errors ${side}.` : `No error ${side} up to line ${count(reached + 1)}: press ${by === 1 ? "e" : "E"} to search further.`);
  }

  /** The line from which errors are searched: the selected or explaining one if it is in view, otherwise the first in view. */
  private errorOrigin(by: 1 | -1): number {
    const [first, end] = this.shownRange;
    if (this.reachedError?.by === by && this.reachedError.first === first) return this.reachedError.line;
    const inView = [this.selected?.from, this.summary.candidates[0]?.line].find((line) => line !== undefined && line >= first && line < end);
    return inView ?? (by === 1 ? first - 1 : first);
  }

  /** A step's log was opened in place of the run's log, or closed. */
  private opened(step: string | undefined, lines: Range | undefined): void {
    this.setPlace(step, step === undefined ? this.selected : lines);
    if (step === undefined) this.view.update();
    else this.follow(false);
  }

  private setPlace(step: string | undefined, lines: Range | undefined): void {
    const place: Place = { fqn: this.fqn, runId: this.runId, ...(this.query && { search: this.query }) };
    this.app.setPlace({ ...place, ...(step !== undefined && { step }), ...(lines && { lines }) });
  }

  /** Lines of the log in view: first, and exclusive end. */
  private get shownRange(): [number, number] {
    const [first, end] = this.view.range;
    return [this.visible.number(first), end > first ? this.visible.number(end - 1) + 1 : this.visible.number(end)];
  }

  private rangeChanged(): void {
    if (this.steps.pane) return;
    const [first, end] = this.shownRange;
    const parts = this.visible.parts(...this.view.range, AHEAD_LINES);
    const isNear = parts.reduce((lines, [from, to]) => lines + to - from, 0) < MAX_OUTLINED_LINES; // otherwise matches in view are far apart
    if (isNear) this.outline.ensureLoaded(parts, () => this.view.draw());
    this.head.showRange(first, end, this.lines.total);
    this.histogram.mark(first);
  }

  // Highlighted lines

  private rowState(line: number, isAfterGap: boolean): RowState {
    const isSelected = this.selected !== undefined && line >= this.selected.from && line <= this.selected.to;
    const isMatch = this.search.isMatch(line);
    const raw = isMatch ? this.lines.get(line)?.text ?? this.search.textOf(line) ?? "" : "";
    return { isSelected, isMatch, isAfterGap, isCause: this.summary.has(line), isCurrent: this.search.currentLine === line, spans: isMatch ? this.search.spansOf(line, raw) : [], mark: this.outline.get(line) };
  }

  private select(range: Range | undefined): void {
    this.selected = range;
    this.setPlace(undefined, range);
    this.view.draw();
  }

  private click(event: MouseEvent): void {
    const target = event.target as HTMLElement;
    const line = Number(target.closest<HTMLElement>("[data-line]")?.dataset["line"] ?? -1);
    const kind = target.closest<HTMLElement>("[data-fold]")?.dataset["fold"];
    if (kind === "group") void this.toggleGroup(line);
    if (kind === "step") this.toggleStep(line);
    if (target.closest("[data-more]")) void this.showFullLine(line, target.closest<HTMLElement>(".text"));
    const data = target.closest<HTMLElement>("[data-data]");
    if (data) void toggleData(data, () => api.eventBody(this.fqn, this.runId, line)).catch((error: unknown) => this.head.showMessage(errorText(error).next));
    if (!target.closest(".number") || event.ctrlKey || event.metaKey) return;
    event.preventDefault();
    const other = event.shiftKey && this.selected ? this.selected.from : line;
    const isAgain = this.selected?.from === line && this.selected.to === line;
    this.select(isAgain ? undefined : { from: Math.min(other, line), to: Math.max(other, line) });
  }

  private async showFullLine(line: number, container: HTMLElement | null): Promise<void> {
    try {
      const page = await api.page(this.fqn, this.runId, { after: line, limit: 1 });
      showFullLine(line, container, page.logs);
    } catch (error) {
      this.head.showMessage(errorText(error).next);
    }
  }

  // Searching

  private async find(query: SearchQuery): Promise<void> {
    this.query = query.text ? { ...query, only: this.query?.only } : undefined;
    if (!this.query) this.showOnly(undefined);
    this.arrival = undefined;
    this.setPlace(this.steps.pane?.step.step, this.selected);
    await this.search.start(query);
    this.step(1, true);
  }

  /** Start the search of a URL. It leaves the view at the lines that the URL names. */
  private restoreSearch({ search, lines, step }: Place): void {
    this.query = search;
    this.arrival = step === undefined ? lines?.from : -1;
    const query = search ?? { text: "", isRegex: false, isCaseIgnored: true };
    this.box.show(query);
    void this.search.start(query);
  }

  private searchChanged(): void {
    this.box.update(this.search, this.lines.total);
    this.filter();
    if (this.arrival !== undefined) return this.arrive(this.arrival);
    const hasReachedView = (this.search.lines.at(-1) ?? -1) >= this.shownRange[0]; // otherwise a match in or below the view may follow
    if (hasReachedView && this.search.current < 0) this.step(1, true);
    this.view.update();
  }

  private arrive(line: number): void {
    if (line >= 0 && this.visible.isFiltered && this.visible.has(line)) this.view.show(this.visible.index(line), SHARE_ABOVE);
    this.view.update();
    if (this.search.state !== "searching") this.arrival = undefined;
  }

  private filter(): void {
    const only = this.search.state === "none" ? undefined : this.query?.only;
    this.visible.filter(only === undefined ? null : this.search.lines, only);
  }

  /** Show only matches with lines of context, or (undefined) all lines. The current match, the selected or the first
   * line in view stays in view. */
  private showOnly(context: number | undefined): void {
    if (!this.query && context !== undefined) return;
    const [first, end] = this.shownRange;
    const line = [this.search.currentLine, this.selected?.from].find((each) => each !== undefined && each >= first && each < end) ?? first;
    if (this.query) this.query = { ...this.query, only: context };
    this.box.showOnly(context);
    this.filter();
    if (!this.visible.has(line)) this.visible.folds.reveal(line);
    if (this.steps.pane && context !== undefined) this.steps.open(null);
    this.setPlace(this.steps.pane?.step.step, this.selected);
    this.view.update();
    if (!this.view.isPinned) this.view.show(this.visible.index(line), SHARE_ABOVE);
  }

  /** Go to the next or previous match. `isFirst`: only if no match is current yet. */
  private step(by: 1 | -1, isFirst = false): void {
    if (isFirst && this.search.current >= 0) return;
    const line = this.search.step(by, this.shownRange[0]);
    if (line === undefined) return;
    this.box.update(this.search, this.lines.total);
    const [first, end] = this.shownRange;
    if (line < first || line >= end - 2 || !this.visible.has(line)) this.jump(line);
    else this.view.draw();
  }

  private escape(): void {
    if (this.query?.only !== undefined) this.showOnly(undefined);
    else if (this.search.state !== "none") this.box.clear();
    else if (this.steps.pane) this.steps.open(null);
    else if (this.selected) this.select(undefined);
    this.steps.view.element.focus({ preventScroll: true });
  }

  // Wrapping, copying and downloading

  private wrap(isWrapped: boolean): void {
    localStorage.setItem(WRAP_KEY, isWrapped ? "yes" : "no");
    this.head.wrapped(isWrapped);
    this.view.setWrap(isWrapped);
    this.steps.wrap(isWrapped);
  }

  private async copy(): Promise<void> {
    if (this.steps.pane) return this.copied(this.steps.pane.texts());
    if (this.visible.isPartial && !this.selected) return this.copied(this.shownTexts());
    const [first, end] = this.shownRange;
    const { from, to } = this.selected ?? { from: first, to: end - 1 };
    try {
      const texts = await fetchLines((after, limit) => api.page(this.fqn, this.runId, { after, limit }), from, to);
      await this.copied(texts, to - from < MAX_COPIED_LINES);
    } catch (error) {
      this.head.showMessage(errorText(error).next);
    }
  }

  private shownTexts(): string[] {
    const [first, end] = this.view.range;
    return Array.from({ length: end - first }, (_, at) => this.visible.get(first + at)?.text ?? "");
  }

  private async copied(texts: string[], isAll = true): Promise<void> {
    try {
      await copyText(texts.map(copyable).join("\n") + "\n");
      this.head.showMessage(`Copied ${plural(texts.length, "line")}${isAll ? "" : ": this is the maximum, download the log for all lines"}.`);
    } catch {
      this.head.showMessage("The browser denied access to the clipboard: select the text and copy it.");
    }
  }

  private deleted(message: string): void {
    this.leave();
    this.element.replaceChildren(el("div", { class: "notice", role: "status" }, el("h2", {}, "Deleted"), el("p", {}, message),
      el("p", { class: "actions" }, el("a", { href: addressOf({ fqn: this.fqn }), "data-go": true }, "Runs of the pipeline"))));
  }

  private async download(): Promise<void> {
    try {
      await download(this.fqn, this.runId);
    } catch (error) {
      this.head.showMessage(errorText(error).next);
    }
  }
}

