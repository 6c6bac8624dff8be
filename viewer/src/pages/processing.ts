/** The processing pipelines: how each is, told anew while the page is open, and what an operator may do about it. */

import { api, ApiError, type Processing, type ProcessingList } from "../api";
import type { App, View } from "../app";
import { arrange, el, fill, name } from "../dom";
import { clock } from "../format";
import { confirm, shown } from "../processing/confirm";
import { HEAD, PipelineRows } from "../processing/rows";
import { ABOUT, type Change } from "../processing/words";

const REFRESH_MS = 10_000;

export const processingPage = (app: App): View => new ProcessingPage(app);

class ProcessingPage implements View {
  readonly element: HTMLElement;
  private readonly rows = new Map<string, PipelineRows>();
  private readonly head = el("thead", {}, el("tr", {}, ...HEAD.map((title) => el("th", { scope: "col" }, title))));
  private readonly table = el("table", { "aria-label": "Processing pipelines", class: "processing", hidden: true }, this.head);
  private readonly told = el("p", { class: "soft told" }, "Loading…");
  private readonly said = el("p", { role: "status", class: "outcome" });
  private readonly trouble = el("div");
  private readonly problems = el("div");
  private readonly timer = window.setInterval(() => this.tick(), REFRESH_MS);
  private readonly seen = () => this.tick();
  private stop = new AbortController();
  /** A request is under way, or has failed in a way that this page cannot go on from by itself. */
  private isBusy = false;
  private isStopped = false;
  private toldMs = 0;

  constructor(private readonly app: App) {
    const again = el("button", { class: "quiet", onclick: () => void this.load() }, "Refresh");
    this.element = el("div", { class: "page" },
      el("div", { class: "title" }, el("h1", {}, "Processing pipelines"), again), this.told, this.said, this.table, this.problems, this.trouble);
    document.addEventListener("visibilitychange", this.seen);
    void this.load();
  }

  leave(): void {
    clearInterval(this.timer);
    document.removeEventListener("visibilitychange", this.seen);
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
    this.toldMs = Date.now();
    const bodies = pipelines.map((pipeline) => this.rowsOf(pipeline).element);
    const names = new Set(pipelines.map((pipeline) => pipeline.name));
    for (const gone of [...this.rows.keys()].filter((each) => !names.has(each))) this.rows.delete(gone);
    arrange(this.table, [this.head, ...bodies]);
    this.table.hidden = pipelines.length === 0;
    this.told.classList.remove("wrong");
    this.told.textContent = pipelines.length === 0 ? "There is no pipeline that you may administer." : `As of ${clock(this.toldMs)}. Figures are those since each pipeline's worker started.`;
    const told = problems.map(({ file, reason }) => el("li", {}, name(file), ": ", name(reason)));
    fill(this.problems, told.length > 0 && [el("h2", {}, "Files that are no pipelines"), el("ul", { class: "problems" }, ...told)]);
  }

  private rowsOf(pipeline: Processing): PipelineRows {
    const known = this.rows.get(pipeline.name);
    known?.tell(pipeline);
    const rows = known ?? new PipelineRows(pipeline, (change, of) => confirm(change, of, (body) => this.send(change, of, body)));
    this.rows.set(pipeline.name, rows);
    return rows;
  }

  /** What was told before the change must not overwrite what it answered. */
  private async send(change: Change, { name: pipeline }: Processing, body: Record<string, string>): Promise<void> {
    const changed = await api.change(pipeline, change.action, body);
    this.stop.abort();
    this.isBusy = false;
    this.rows.get(pipeline)?.tell(changed);
    fill(this.said, ...shown(change.done));
  }

  /** While the server is away what it told last stands there, and says so. */
  private failed(error: unknown): void {
    if (error instanceof ApiError && error.isPassing && this.toldMs) {
      this.told.textContent = `The server does not answer. This is how it was at ${clock(this.toldMs)}; this page goes on trying.`;
      this.told.classList.add("wrong");
      return;
    }
    this.isStopped = true;
    this.toldMs = 0;
    this.rows.clear();
    arrange(this.table, [this.head]);
    this.table.hidden = true;
    this.told.textContent = "";
    fill(this.problems);
    fill(this.said);
    this.app.fail(this.trouble, error, () => void this.load(), ABOUT);
  }
}
