/**
 * The live stream of a run: delivers each new line once, until the run ends. When a response ends, the next request continues after its
 * last line. While the server is unavailable, requests are retried with exponential backoff. Uses fetch, because EventSource supports no
 * token and exposes no status.
 */

import { api, ApiError } from "../api";
import { FrameParser } from "./frames";

const FIRST_WAIT_MS = 500;
const MAX_WAIT_MS = 10_000;

export type FeedState = { kind: "live" } | { kind: "unavailable"; retryAtMs: number } | { kind: "ended"; reason: string };

export interface FeedEvents {
  /** Number of the next line. */
  next(): number;
  lines(first: number, texts: string[], next: number): void;
  state(state: FeedState): void;
  /** Reports an error that a retry cannot resolve. */
  failed(error: unknown): void;
}

interface StreamEvent { eventType: string; logs?: string; after?: string; reason?: string; message?: string }

export class Feed {
  private stop: AbortController | null = null;
  private wake: (() => void) | null = null;

  constructor(private readonly fqn: string, private readonly runId: string, private readonly events: FeedEvents) {}

  get isRunning(): boolean {
    return this.stop !== null;
  }

  start(): void {
    if (this.stop) return;
    this.stop = new AbortController();
    void this.run(this.stop.signal);
  }

  end(): void {
    this.stop?.abort();
    this.stop = null;
    this.wake?.();
  }

  /** Retry immediately. */
  retryNow(): void {
    this.wake?.();
  }

  private async run(signal: AbortSignal): Promise<void> {
    let failures = 0;
    while (!signal.aborted) {
      try {
        const waitMs = await this.response(signal, () => (failures = 0));
        if (waitMs === null) return;
        await this.sleep(waitMs);
      } catch (error) {
        if (signal.aborted) return;
        if (error instanceof ApiError && !error.isTransient) {
          this.end();
          return this.events.failed(error);
        }
        failures += 1;
        const waitMs = Math.min(MAX_WAIT_MS, FIRST_WAIT_MS * 2 ** (failures - 1));
        this.events.state({ kind: "unavailable", retryAtMs: Date.now() + waitMs });
        await this.sleep(waitMs);
      }
    }
  }

  /** Read one response. Returns the delay until the next request; null after the end of the stream. */
  private async response(signal: AbortSignal, onResponse: () => void): Promise<number | null> {
    const response = await api.stream(this.fqn, this.runId, this.events.next(), signal);
    onResponse();
    this.events.state({ kind: "live" });
    const parser = new FrameParser();
    const reader = response.body?.pipeThrough(new TextDecoderStream()).getReader();
    for (let chunk = await reader?.read(); chunk && !chunk.done; chunk = await reader?.read()) {
      for (const frame of parser.push(chunk.value)) if (this.take(JSON.parse(frame.data) as StreamEvent)) return null;
    }
    return parser.retryMs ?? FIRST_WAIT_MS;
  }

  /** Handle an event. Returns whether it ends the stream. */
  private take(event: StreamEvent): boolean {
    if (event.eventType === "interrupted") throw new ApiError(503, event.message ?? "the stream was interrupted");
    if (event.eventType === "error") throw new ApiError(200, event.message ?? "the stream failed");
    if (event.eventType === "logs" && event.logs !== undefined) {
      const texts = event.logs.replace(/\n$/, "").split("\n");
      const next = Number(event.after);
      this.events.lines(Math.max(0, next - texts.length), texts, next);
    }
    if (event.eventType !== "complete") return false;
    const isEnd = event.reason === "runFinished" || event.reason === "idleTimeout";
    if (isEnd) this.end();
    if (isEnd) this.events.state({ kind: "ended", reason: event.reason ?? "" });
    return isEnd; // otherwise the response reached a limit, and the next one continues
  }

  private sleep(ms: number): Promise<void> {
    return new Promise((resolve) => {
      const timer = setTimeout(resolve, ms);
      this.wake = () => {
        clearTimeout(timer);
        resolve();
      };
    });
  }
}
