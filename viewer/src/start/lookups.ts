/** What the list of runs does not have and a row shows: the pipeline's last results, and the number of errors of a failed run. Both are
 * requested for rows in view only, histories for many pipelines at once. */

import { api, type ListedRun, type RunResult } from "../api";
import { batches } from "../paging";
import { keyOf } from "./order";

const GATHER_MS = 60;
/** A history without a reason to be read again is read again after this time. */
const HISTORY_MS = 60_000;
const CONCURRENT = 4;
const WITH_ERRORS: readonly ListedRun["outcome"][] = ["failed", "lost", "cancelled"];

interface History { results: RunResult[]; atMs: number }

export class Lookups {
  private readonly observer = new IntersectionObserver((entries) => this.seen(entries), { rootMargin: "80px" });
  private readonly rows = new Map<Element, ListedRun>();
  private readonly inView = new Set<Element>();
  private readonly histories = new Map<string, History>();
  private readonly errors = new Map<string, number | null>();
  private readonly requested = new Set<string>();
  private readonly stop = new AbortController();
  private timer = 0;

  /** `onChange` is called with the pipeline whose rows have something new to show. */
  constructor(private readonly onChange: (fqn: string) => void) {}

  watch(row: Element, run: ListedRun): void {
    if (!this.rows.has(row)) this.observer.observe(row);
    this.rows.set(row, run);
  }

  forget(row: Element): void {
    this.observer.unobserve(row);
    this.rows.delete(row);
    this.inView.delete(row);
  }

  historyOf(fqn: string): RunResult[] | undefined {
    return this.histories.get(fqn)?.results;
  }

  /** The number of errors in the log; null or undefined: not known. */
  errorsOf(run: ListedRun): number | null | undefined {
    return this.errors.get(errorsKey(run));
  }

  /** The list has other runs of this pipeline than before. */
  outdated(fqn: string): void {
    const history = this.histories.get(fqn);
    if (history) history.atMs = 0;
  }

  /** Request what rows in view lack. */
  update(): void {
    clearTimeout(this.timer);
    this.timer = window.setTimeout(() => this.request(), GATHER_MS);
  }

  leave(): void {
    clearTimeout(this.timer);
    this.observer.disconnect();
    this.stop.abort();
  }

  private seen(entries: IntersectionObserverEntry[]): void {
    for (const { target, isIntersecting } of entries) {
      if (isIntersecting) this.inView.add(target);
      else this.inView.delete(target);
    }
    this.update();
  }

  private request(): void {
    const runs = [...this.inView].flatMap((row) => this.rows.get(row) ?? []);
    const wanted = [...new Set(runs.map((run) => run.fqn))].filter((fqn) => this.isDue(fqn));
    for (const batch of batches(wanted)) void this.loadHistories(batch);
    void this.loadErrors(runs.filter((run) => WITH_ERRORS.includes(run.outcome) && !this.errors.has(errorsKey(run))));
  }

  private isDue(fqn: string): boolean {
    return !this.requested.has(fqn) && Date.now() - (this.histories.get(fqn)?.atMs ?? 0) > HISTORY_MS;
  }

  /** A failed request is repeated with the next refresh of the list. */
  private async loadHistories(fqns: string[]): Promise<void> {
    fqns.forEach((fqn) => this.requested.add(fqn));
    const answer = await api.histories(fqns, this.stop.signal).catch(() => null);
    fqns.forEach((fqn) => this.requested.delete(fqn));
    for (const { fqn, runs } of answer?.pipelines ?? []) {
      this.histories.set(fqn, { results: runs, atMs: Date.now() });
      this.onChange(fqn);
    }
  }

  private async loadErrors(runs: ListedRun[]): Promise<void> {
    const waiting = runs.filter((run) => !this.requested.has(errorsKey(run)));
    waiting.forEach((run) => this.requested.add(errorsKey(run)));
    const next = async (): Promise<void> => {
      for (let run = waiting.shift(); run; run = waiting.shift()) {
        const histogram = await api.histogram(run.fqn, run.runId, 1, this.stop.signal).catch(() => null);
        this.requested.delete(errorsKey(run));
        if (!histogram) continue;
        this.errors.set(errorsKey(run), histogram.buckets.reduce<number | null>((sum, { errors }) => (sum === null || errors === null ? null : sum + errors), 0));
        this.onChange(run.fqn);
      }
    };
    await Promise.all(Array.from({ length: CONCURRENT }, next));
  }
}

/** A run that goes on after it was abandoned may have more errors. */
const errorsKey = (run: ListedRun): string => `${keyOf(run)}${run.lines}`;
