/** Client of the HTTP API, limited to what this page requests. The API's root is two levels above the page's URL. */

import { ApiError } from "./errors";
import { allPages, type Completeness, mergeCompleteness } from "./paging";
import { currentToken, isRenewed } from "./login";
import type { LoginConfig } from "./session";

export { ApiError };

export interface RunFacts {
  runId: string;
  status: "open" | "sealed" | "finalized";
  end: "closed" | "abandoned" | null;
  lines: number;
  bytes: number;
  startedMs: number;
  lastAppendMs: number;
  lastHeartbeatMs: number | null;
  /** Of a running run: until this response. */
  durationMs: number;
  complete: boolean;
  pendingBytes: number;
  outcome: "running" | "silent" | "succeeded" | "failed" | "cancelled" | "lost" | "unknown";
  /** The last sign of life of a silent run. */
  silentSinceMs: number | null;
  exitCode: number | null;
  signal: string | null;
  exception: string | null;
  failedStep: string | null;
  /** Lines that its client could not store. */
  lostLines: number;
  /** Number of the attempt of `firstRunId`, from 1. */
  attempt: number;
  firstRunId: string;
  host: string | null;
  command: string | null;
  /** The best candidate. */
  explanation: Candidate | null;
}
export interface RunDetails extends RunFacts {
  /** Lines whose segments were deleted too early. */
  lost: number;
  candidates: Candidate[];
  /** Address of the run in its orchestrator. */
  orchestratorUrl: string | null;
}
/** A line that may explain a failure, from 0. */
export interface Candidate { line: number; text: string; rule: string; score: number }
/** A run with its pipeline. */
export interface ListedRun extends RunFacts { fqn: string }
export interface RunResult { runId: string; outcome: RunFacts["outcome"]; startedMs: number; durationMs: number }
export interface Pipeline { fqn: string; last: RunFacts | null }
/** Source of times: timestamps in the lines, or the time of storage. */
export type Clock = "lines" | "arrival";
export interface Page { logs: string; after: string | null; total: number; streaming: boolean; clock?: Clock }
export interface Match { line: number; text: string; spans: [number, number][] }
export interface Grep { matches: Match[]; after: string | null; scannedLines: number; scannedBytes: number; total: number }
export interface Bucket { fromMs: number; toMs: number; line: number; lines: number; errors: number | null }
export interface Histogram { fromMs: number; toMs: number; buckets: Bucket[]; partial: boolean; clock: Clock }
export interface Step {
  step: string;
  name: string;
  parent: string | null;
  startedMs: number | null;
  endedMs: number | null;
  durationMs: number | null;
  lines: number;
  bytes: number;
  errors: number;
  firstLine: number | null;
  /** First and last lines of its longest ranges in the run's log. */
  lineRanges: [number, number][];
  status: "running" | "succeeded" | "failed" | null;
  complete: boolean;
}
/** Part of a step's log. `next`: the byte offset of the next part; `complete`: no text can follow. */
export interface StepText { text: string; next: number; complete: boolean }
export type Severity = "TRACE" | "DEBUG" | "INFO" | "WARNING" | "ERROR" | "CRITICAL";
/** An event without its text. `hasData`: data beyond what the archive adds to each event. */
export interface EventOutline { line: number; lines: number; severity: Severity | null; hasData: boolean }
export interface Event extends EventOutline { message: string; annotations: { position: number; note: unknown }[] }
export interface Events { events: Event[]; after: string | null }
export interface Config { auth: "jwt" | "iam" | "none"; version: string; login?: LoginConfig | null }

export interface Handler {
  name: string;
  state: "enabled" | "disabled" | "failed" | "replaying";
  reason: string | null;
  since: string | null;
  at: { run: string; line: number } | null;
  errors: number;
}
/** The last reported status of a processing pipeline. Times are ISO 8601. */
export interface Processing {
  name: string;
  state: "new" | "running" | "silent" | "disabled";
  told_at: string | null;
  lag_events: number;
  lag_s: number;
  runs: number;
  events: number;
  late: number;
  dropped: number;
  dead_letters: number;
  errors: number;
  last_error: string | null;
  replay_from: string | null;
  handlers: Handler[];
}
export interface ProcessingList { pipelines: Processing[]; problems: { file: string; reason: string }[] }
/** What is chosen for the runs of a pipeline. `locator`: the pattern that decided; null: none. */
export interface Choice { fqn: string; browser: string; outputs: string[]; locator: string | null }
export interface Locator { pattern: string; browser: string; outputs: string[] }
/** `problem`: why it cannot be used; `fallback`: what is used instead; `protocol` null: it is not installed. */
export interface Plugin { kind: "browser" | "output"; name: string; protocol: number | null; problem: string | null; fallback: string | null }
/** `chosen`: with the name of a pipeline. */
export interface Configuration { browser: string; outputs: unknown[]; locators: Locator[]; plugins: Plugin[]; chosen: Choice | null }
/** A file of a processing pipeline. Times in ms since the epoch. */
export interface PipelineFile { key: string; fqn: string; program: string; format: string; bytes: number; events: number; firstTime: number; lastTime: number; complete: boolean; url: string }
/** `fqn` is empty and `line` negative if the file's format has none. */
export interface FileEvent { time: number; level: string; logger: string; message: string; fqn: string; runId: string; line: number; truncated?: boolean }
export interface FileEvents { events: FileEvent[]; cursor: string | null; leftOut: number; unsupported: number }
/** What identifies a dead letter: the handler of a processing pipeline, and the event's first line in the run's log, from 0. */
export interface LetterId { pipeline: string; handler: string; fqn: string; runId: string; line: number }
export interface Letter extends LetterId { storedAt: string; bytes: number }
export interface LetterDetails {
  reason: string;
  /** null: only administrators of the pipeline see it. */
  trace: string | null;
  attempts: number;
  failedAt: string;
  /** A request that was not tried yet. */
  resendRequestedAt: string | null;
  event: { time: number; level: string; logger: string; message: string; step: string; data: Record<string, unknown> };
  truncated: boolean;
}
export type Action = "enable" | "disable" | "replay";

type Query = Record<string, string | number | boolean | null | undefined>;

const OUTLINE_EVENTS = 1_000;

export const base = new URL("../..", document.baseURI).href.replace(/\/$/, "");
const LOGS = "/v1/services/ingestionPipelines/logs";
const name = (text: string): string => encodeURIComponent(text);
const events = (fqn: string, runId: string): string => `/v1/events/${name(fqn)}/${name(runId)}`;
const FILES = "/v1/pipeline-files";
const LETTERS = "/v1/dead-letters";
const lettersOf = ({ pipeline }: LetterId): string => `${LETTERS}/${name(pipeline)}`;
const letterQuery = ({ fqn, runId, handler, line }: LetterId): Query => ({ fqn, runId, handler, line });
/** The answer to a deletion: "deleting" until the last call. */
export interface Deletion { state: "deleted" | "deleting"; counts: Record<string, number>; outstanding: { what: string; until: string }[] }

const run = (fqn: string, runId: string): string => `/v1/catalog/pipelines/${name(fqn)}/runs/${name(runId)}`;

/** Send a request, with the token if there is one, and once more if the token was refused and can be renewed. Throws ApiError unless the response
 * is successful, LoginError if the token has ended and the issuer does not respond. */
export async function request(path: string, query: Query = {}, init: RequestInit = {}): Promise<Response> {
  const entries = Object.entries(query).filter(([, value]) => value !== null && value !== undefined && value !== "");
  const parameters = new URLSearchParams(entries.map(([key, value]) => [key, String(value)])).toString();
  const address = `${base}${path}${parameters ? `?${parameters}` : ""}`;
  const token = await currentToken();
  let response = await send(address, init, token);
  if (response.status === 401 && token && (await isRenewed(token))) response = await send(address, init, await currentToken());
  if (!response.ok) throw new ApiError(response.status, await messageOf(response));
  return response;
}

function send(address: string, init: RequestInit, token: string): Promise<Response> {
  const headers = new Headers(init.headers);
  if (token) headers.set("Authorization", `Bearer ${token}`);
  return fetch(address, { ...init, headers }).catch((error: unknown) => {
    if (error instanceof DOMException && error.name === "AbortError") throw error;
    throw new ApiError(0, "no response");
  });
}

async function messageOf(response: Response): Promise<string> {
  const body = (await response.json().catch(() => ({}))) as { message?: unknown };
  return typeof body.message === "string" ? body.message : `status ${response.status}`;
}

async function json<Body>(path: string, query?: Query, signal?: AbortSignal, init: RequestInit = {}): Promise<Body> {
  return (await request(path, query, signal ? { ...init, signal } : init)).json() as Promise<Body>;
}

export const api = {
  config: () => json<Config>("/v1/ui/config"),
  recent: (query: Query, signal?: AbortSignal) => json<{ runs: ListedRun[]; cursor: string | null }>("/v1/catalog", query, signal),
  histories: (fqns: string[], signal?: AbortSignal) =>
    json<{ pipelines: { fqn: string; runs: RunResult[] }[] }>(`/v1/catalog/history?${fqns.map((fqn) => `fqn=${name(fqn)}`).join("&")}`, {}, signal),
  pipelines: (contains: string, cursor: string | null, signal?: AbortSignal, limit = 50) =>
    json<{ pipelines: Pipeline[]; cursor: string | null }>("/v1/catalog/pipelines", { contains, cursor, limit }, signal),
  runs: (fqn: string, cursor: string | null, signal?: AbortSignal) =>
    json<{ runs: RunFacts[]; cursor: string | null }>(`/v1/catalog/pipelines/${name(fqn)}/runs`, { cursor, limit: 50 }, signal),
  facts: (fqn: string, runId: string, signal?: AbortSignal) => json<RunDetails>(run(fqn, runId), {}, signal),
  explanation: (fqn: string, runId: string) => json<{ candidates: Candidate[] }>(`${run(fqn, runId)}/explanation`),
  page: (fqn: string, runId: string, query: Query, signal?: AbortSignal) => json<Page>(logPath(fqn, runId), query, signal),
  grep: (fqn: string, runId: string, query: Query, signal?: AbortSignal) => json<Grep>(`${run(fqn, runId)}/grep`, query, signal),
  histogram: (fqn: string, runId: string, buckets: number, signal?: AbortSignal) =>
    json<Histogram>(`${run(fqn, runId)}/histogram`, { buckets }, signal),
  steps: async (fqn: string, runId: string): Promise<Step[]> => (await allPages<{ steps: Step[] }>((after) => json(`${events(fqn, runId)}/steps`, { after }))).flatMap((page) => page.steps),
  completeness: async (fqn: string, runId: string): Promise<Completeness> => mergeCompleteness(await allPages<Completeness>((after) => json(`${events(fqn, runId)}/completeness`, { after }))),
  stepText: (fqn: string, runId: string, step: string, start: number, signal?: AbortSignal) =>
    json<StepText>(`${events(fqn, runId)}/log`, { step, start }, signal),
  events: (fqn: string, runId: string, query: Query, signal?: AbortSignal) => json<Events>(events(fqn, runId), query, signal),
  outline: (fqn: string, runId: string, after: number, signal: AbortSignal) =>
    json<{ events: EventOutline[]; after: string | null }>(events(fqn, runId), { after, limit: OUTLINE_EVENTS, outline: true }, signal),
  /** The response body for the event that begins at a line. */
  eventBody: async (fqn: string, runId: string, line: number): Promise<string> => (await request(events(fqn, runId), { after: line, limit: 1 })).text(),
  configuration: (fqn: string, signal?: AbortSignal) => json<Configuration>("/v1/configuration", { fqn }, signal),
  processing: (signal?: AbortSignal) => json<ProcessingList>("/v1/pipelines", {}, signal),
  change: (pipeline: string, action: Action, body: Record<string, string>) =>
    json<Processing>(`/v1/pipelines/${name(pipeline)}/${action}`, {}, undefined, { method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify(body) }),
  bases: (signal?: AbortSignal) => json<{ bases: string[] }>(`${FILES}/bases`, {}, signal),
  files: (query: Query, signal?: AbortSignal) => json<{ files: PipelineFile[]; cursor: string | null; leftOut: number }>(`${FILES}/files`, query, signal),
  fileEvents: (query: Query, signal?: AbortSignal) => json<FileEvents>(FILES, query, signal),
  letters: (query: Query, signal?: AbortSignal) => json<{ letters: Letter[]; cursor: string | null }>(LETTERS, query, signal),
  letter: (id: LetterId, signal?: AbortSignal) => json<LetterDetails>(lettersOf(id), letterQuery(id), signal),
  resend: (id: LetterId) => json<{ requestedAt: string }>(`${lettersOf(id)}/resend`, letterQuery(id), undefined, { method: "POST" }),
  drop: async (id: LetterId): Promise<void> => void (await request(lettersOf(id), letterQuery(id), { method: "DELETE" })),
  deleteRun: (fqn: string, runId: string, reason: string) => json<Deletion>(run(fqn, runId), { reason }, undefined, { method: "DELETE" }),
  link: (fqn: string, runId: string) => json<{ location: string | null }>(downloadPath(fqn, runId), { link: true }),
  stream: (fqn: string, runId: string, after: number, signal: AbortSignal) =>
    request(`${LOGS}/${name(fqn)}/stream/${name(runId)}`, { after }, { signal, headers: { Accept: "text/event-stream" }, cache: "no-store" }),
};

export const logPath = (fqn: string, runId: string): string => `${LOGS}/${name(fqn)}/${name(runId)}`;
export const downloadPath = (fqn: string, runId: string): string => `${logPath(fqn, runId)}/download`;

/** Lines of a page of the log. */
export function linesOf(page: Page): string[] {
  return page.logs === "" && page.after === null && page.total === 0 ? [] : page.logs.split("\n");
}
