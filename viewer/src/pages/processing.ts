/** The page of processing pipelines: their status, refreshed while the page is visible, and the operator's actions. */

import { api, ApiError, type Processing, type ProcessingList } from "../api";
import type { App, View } from "../app";
import { arrange, el, fill, name } from "../dom";
import { clock } from "../format";
import { confirmChange } from "../processing/confirm";
import { render } from "../ui/message";
import { adminTabs } from "../ui/tabs";
import { HEAD, PipelineRows } from "../processing/rows";
import { ERROR_CONTEXT, type Change } from "../processing/messages";

const REFRESH_MS = 10_000;

export const processingPage = (app: App): View => new ProcessingPage(app);

class ProcessingPage implements View {
  readonly element: HTMLElement;
  private readonly rows = new Map<string, PipelineRows>();
  private readonly head = el("thead", {}, el("tr", {}, ...HEAD.map((title) => el("th", { scope: "col" }, title))));
  private readonly table = el("table", { "aria-label": "Processing pipelines", class: "processing", hidden: true }, this.head);
  private readonly status = el("p", { class: "soft status" }, "Loading…");
  private readonly outcome = el("p", { role: "status", class: "outcome" });
  private readonly trouble = el("div");
  private readonly problems = el("div");
  private readonly timer = window.setInterval(() => this.tick(), REFRESH_MS);
  private readonly onVisible = () => this.tick();
  private stop = new AbortController();
  private isBusy = false;
  /** The last request failed with an error that an automatic retry cannot resolve. */
  private isStopped = false;
  private statusMs = 0;

  constructor(private readonly app: App) {
    const again = el("button", { class: "quiet", onclick: () => void this.load() }, "Refresh");
    this.element = el("div", { class: "page" }, adminTabs("processing"),
      el("div", { class: "title" }, el("h1", {}, "Processing pipelines"), again), this.status, this.outcome, this.table, this.problems, this.trouble);
    document.addEventListener("visibilitychange", this.onVisible);
    void this.load();
  }

  leave(): void {
    clearInterval(this.timer);
    document.removeEventListener("visibilitychange", this.onVisible);
    this.stop.abort();
  }

  private tick(): void {
    if (!document.hidden && !this.isBusy && !this.isStopped) void this.load();
  }

  private async load(): Promise<void> {
    this.stop.abort();
    this.stop = new AbortController();
    const { signal } = this.stop;
    this.isBusy = true;
    try {
      const list = await api.processing(signal);
      if (signal.aborted) return;
      this.show(list);
    } catch (error) {
      if (signal.aborted) return;
      this.failed(error);
    }
    this.isBusy = false;
  }

  private show({ pipelines, problems }: ProcessingList): void {
    this.isStopped = false;
    this.trouble.replaceChildren();
    this.statusMs = Date.now();
    const bodies = pipelines.map((pipeline) => this.rowsOf(pipeline).element);
    const names = new Set(pipelines.map((pipeline) => pipeline.name));
    for (const gone of [...this.rows.keys()].filter((each) => !names.has(each))) this.rows.delete(gone);
    arrange(this.table, [this.head, ...bodies]);
    this.table.hidden = pipelines.length === 0;
    this.status.classList.remove("wrong");
    this.status.textContent = pipelines.length === 0 ? "There are no processing pipelines that you can administer." : `As of ${clock(this.statusMs)}. Counters start with each pipeline's worker.`;
    const items = problems.map(({ file, reason }) => el("li", {}, name(file), ": ", name(reason)));
    fill(this.problems, items.length > 0 && [el("h2", {}, "Invalid pipeline files"), el("ul", { class: "problems" }, ...items)]);
  }

  private rowsOf(pipeline: Processing): PipelineRows {
    const known = this.rows.get(pipeline.name);
    known?.update(pipeline);
    const rows = known ?? new PipelineRows(pipeline, (change, of) => confirmChange(change, of, (body) => this.send(change, of, body)));
    this.rows.set(pipeline.name, rows);
    return rows;
  }

  /** Abort a running refresh: its status may be older than the response to the change. */
  private async send(change: Change, { name: pipeline }: Processing, body: Record<string, string>): Promise<void> {
    const changed = await api.change(pipeline, change.action, body);
    this.stop.abort();
    this.isBusy = false;
    this.rows.get(pipeline)?.update(changed);
    fill(this.outcome, ...render(change.done));
  }

  /** While the server is unavailable, keep the last status and show its time. */
  private failed(error: unknown): void {
    if (error instanceof ApiError && error.isTransient && this.statusMs) {
      this.status.textContent = `The server does not respond. Status as of ${clock(this.statusMs)}; this page keeps retrying.`;
      this.status.classList.add("wrong");
      return;
    }
    this.isStopped = true;
    this.statusMs = 0;
    this.rows.clear();
    arrange(this.table, [this.head]);
    this.table.hidden = true;
    this.status.textContent = "";
    fill(this.problems);
    fill(this.outcome);
    this.app.fail(this.trouble, error, () => void this.load(), ERROR_CONTEXT);
  }
}
