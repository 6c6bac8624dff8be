/** The page of pipeline files: the files of an application, the events in one of them, or the events of all of them merged by time. */

import { api, ApiError, type FileEvent, type PipelineFile } from "../api";
import type { App, View } from "../app";
import { el, fill, name } from "../dom";
import { count, plural, size, time } from "../format";
import { applicationOf } from "../files/application";
import { downloadFile, filesOf } from "../files/download";
import { EVENTS_HEAD, eventRow, FILES_HEAD, fileRow, stateOf } from "../files/rows";
import { loadUntil } from "../paging";
import { addressOf, type FilesQuery } from "../place";
import { fact } from "../ui/facts";
import { choiceField, filterForm, findField, textField, timeField, valuesOf, type Field } from "../ui/fields";
import { ListView } from "../ui/listing";
import { errorText, type ErrorContext } from "../ui/notice";
import { adminTabs } from "../ui/tabs";

const LEVELS = ["TRACE", "DEBUG", "INFO", "WARNING", "ERROR", "CRITICAL"];
const PAGE_FILES = 50;
const PAGE_EVENTS = 500;
const MAX_EVENTS = 10_000;
/** Requests until a page has events: each reads for a limited time. */
const MAX_REQUESTS = 5;
const DAY_MS = 86_400_000;
const SUGGESTED = 50;
const TYPING_MS = 300;
const ERROR_CONTEXT: ErrorContext = {
  forbidden: "You lack permission to read files of pipelines",
  token: "read logs (scope logs:read)",
};

export const filesPage = (app: App, query: FilesQuery): View => new FilesPage(app, query);

class FilesPage implements View {
  readonly element: HTMLElement;
  private readonly fields: Field[];
  private readonly find: ReturnType<typeof findField>;
  private readonly namespaces = el("datalist", { id: "namespaces" });
  private readonly apps = el("datalist", { id: "apps" });
  private readonly bases = el("datalist", { id: "bases" });
  private readonly message = el("p", { role: "status", class: "outcome-text" });
  private readonly content = el("div");
  private list: ListView<PipelineFile> | ListView<FileEvent> | null = null;
  private stop = new AbortController();
  private readonly suggesting = new AbortController();
  private typing = 0;
  /** The most files that a page left out: damaged ones, and those in a format that the server cannot read. */
  private leftOut = [0, 0];

  constructor(private readonly app: App, private query: FilesQuery) {
    const namespace = textField("namespace", "Namespace", "mysql", this.namespaces);
    namespace.control.addEventListener("input", () => this.type(namespace.read()));
    this.fields = [namespace, textField("app", "Application", "ingest", this.apps), textField("base", "Base", "pipeline-files", this.bases), choiceField("level", "Level of events", LEVELS, "All"), timeField("from", "From"), timeField("to", "To")];
    for (const field of this.fields) field.write(this.query[field.id as keyof FilesQuery] ?? "");
    this.find = findField(query.find ?? "", (text) => this.filter(text));
    this.element = el("div", { class: "page files" }, adminTabs("files"), el("h1", {}, "Pipeline files"),
      filterForm("Which files", this.fields, () => this.submit()), this.message, this.content);
    void this.suggestBases();
    this.type(namespace.read(), 0);
    this.open();
  }

  key(event: KeyboardEvent): boolean {
    const step = { j: 1, k: -1 }[event.key];
    if (step) return this.list?.move(step) ?? false;
    if (event.key !== "/") return false;
    (this.find.input.isConnected ? this.find.input : this.fields[0]!.control).focus();
    return true;
  }

  leave(): void {
    clearTimeout(this.typing);
    this.suggesting.abort();
    this.stop.abort();
    this.list?.leave();
  }

  /** The opened file stays open while its application is the same. */
  private submit(): void {
    const { namespace, app, base, key, read, find } = this.query;
    const query: FilesQuery = { ...valuesOf(this.fields), read, find };
    const isSame = namespace === query.namespace && app === query.app && base === query.base;
    const next = { ...query, ...(isSame && { key }) };
    if (addressOf({ files: next }) === addressOf({ files: this.query })) return;
    this.query = next;
    this.app.setPlace({ files: this.query });
    this.open();
  }

  private open(): void {
    this.stop.abort();
    this.stop = new AbortController();
    this.list?.leave();
    this.list = null;
    this.leftOut = [0, 0];
    fill(this.message);
    const { namespace, app, key, read } = this.query;
    if (!namespace || !app) return fill(this.content, el("p", {}, "Enter a namespace and an application: the first two parts of the name of a pipeline, such as mysql and ingest of mysql.ingest.daily."));
    if (key) void this.openFile(key);
    else if (read) this.readEvents(this.query, el("p", {}, "All files, merged by time. ", this.linkToList()));
    else this.listFiles();
  }

  private listFiles(): void {
    const list = new ListView<PipelineFile>({
      head: FILES_HEAD,
      label: "Files",
      empty: "There are no such files, or you lack permission to read their logs. Check namespace, application, times, and the base: a handler writes files when its pipeline runs.",
      row: (file) => fileRow(file, this.query, (key) => void this.download(key)),
      fetch: async (cursor, signal) => {
        const { files, cursor: next, leftOut } = await api.files({ ...filesOf(this.query), limit: PAGE_FILES, cursor }, signal);
        this.countLeftOut(leftOut, 0);
        return { items: files, cursor: next };
      },
      failed: (where, error, retry) => this.app.fail(where, error, retry, ERROR_CONTEXT),
    });
    const merged = el("a", { href: addressOf({ files: { ...this.query, read: "1" } }), "data-go": true }, "Read all files, merged by time");
    this.content.replaceChildren(el("p", {}, merged), this.find.element, list.element);
    this.start(list);
  }

  /** A file has the events of one day (UTC): the server looks at the files of this day only. */
  private async openFile(key: string): Promise<void> {
    const { signal } = this.stop;
    try {
      const { files: [file] } = await api.files(filesOf(this.query), signal);
      if (signal.aborted) return;
      if (!file) return fill(this.content, el("p", {}, "This file does not exist anymore, or has no event of these times: retention or a deletion may have removed it. ", this.linkToList()));
      const first = Math.max(0, Math.floor(file.firstTime / DAY_MS) * DAY_MS);
      const button = el("button", { onclick: () => void this.download(key) }, "Download");
      const facts = el("dl", { class: "facts" }, fact("Format", name(file.format)), fact("Size", size(file.bytes)), fact("Events", count(file.events)),
        fact("First event", time(file.firstTime)), fact("Last event", time(file.lastTime)), fact("State", stateOf(file)));
      this.readEvents({ ...this.query, from: String(first), to: String(first + DAY_MS) },
        el("div", {}, el("div", { class: "title" }, el("h2", {}, name(key)), button), facts, el("p", {}, this.linkToList())));
    } catch (error) {
      if (!signal.aborted) this.app.fail(this.content, error, () => this.open(), ERROR_CONTEXT);
    }
  }

  private readEvents(query: FilesQuery, head: HTMLElement): void {
    const list = new ListView<FileEvent>({
      head: EVENTS_HEAD,
      label: "Events",
      empty: "There are no such events.",
      eager: MAX_EVENTS,
      row: eventRow,
      fetch: (start, signal) => loadUntil(async (cursor) => {
        const page = await api.fileEvents({ ...filesOf(query), level: query.level, limit: PAGE_EVENTS, cursor }, signal);
        this.countLeftOut(page.leftOut, page.unsupported);
        return { items: page.events, cursor: page.cursor };
      }, start, 1, MAX_REQUESTS),
      failed: (where, error, retry) => this.app.fail(where, error, retry, ERROR_CONTEXT),
    });
    list.element.classList.add("events");
    this.content.replaceChildren(head, this.find.element, list.element);
    this.start(list);
  }

  private start(list: ListView<PipelineFile> | ListView<FileEvent>): void {
    this.list = list;
    list.filter(this.query.find ?? "");
    void list.load();
  }

  private linkToList(): HTMLElement {
    return el("a", { href: addressOf({ files: { ...this.query, key: "", read: "" } }), "data-go": true }, "List of files");
  }

  private filter(text: string): void {
    this.query = { ...this.query, find: text };
    this.app.setPlace({ files: this.query });
    this.list?.filter(text);
  }

  /** Pages count the files that they read, so they are not summed. */
  private countLeftOut(damaged: number, unsupported: number): void {
    this.leftOut = [Math.max(this.leftOut[0]!, damaged), Math.max(this.leftOut[1]!, unsupported)];
    const notes = [
      this.leftOut[0]! > 0 && `${plural(this.leftOut[0]!, "missing or damaged file")} left out. `,
      this.leftOut[1]! > 0 && `This server cannot read Parquet (${plural(this.leftOut[1]!, "file")}): download it, or read it with Spark or pyarrow.`,
    ];
    fill(this.message, ...notes);
  }

  private async download(key: string): Promise<void> {
    try {
      await downloadFile(this.query, key);
    } catch (error) {
      fill(this.message, error instanceof ApiError && error.status === 404 ? error.message : errorText(error, ERROR_CONTEXT).next);
    }
  }

  private async suggestBases(): Promise<void> {
    const answer = await api.bases(this.suggesting.signal).catch(() => null);
    fill(this.bases, ...(answer?.bases ?? []).map((value) => el("option", { value })));
  }

  /** Suggest the parts of names of pipelines. */
  private type(text: string, waitMs = TYPING_MS): void {
    clearTimeout(this.typing);
    this.typing = window.setTimeout(() => void this.suggestNames(text), waitMs);
  }

  private async suggestNames(text: string): Promise<void> {
    const answer = await api.pipelines(text, null, this.suggesting.signal, SUGGESTED).catch(() => null);
    const applications = (answer?.pipelines ?? []).flatMap(({ fqn }) => applicationOf(fqn) ?? []);
    const options = (values: string[]) => [...new Set(values)].map((value) => el("option", { value }));
    fill(this.namespaces, ...options(applications.map(({ namespace }) => namespace)));
    fill(this.apps, ...options(applications.map(({ app }) => app)));
  }
}
