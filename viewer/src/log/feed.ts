/**
 * The live stream of a run: lines as they come, each once, until the run has ended. A response that ends is asked on where it ended;
 * while the server is away it is asked again, less and less often. By fetch, not EventSource, which can carry no token and tells no status.
 */

import { api, ApiError } from "../api";
import { FrameParser } from "./frames";

const FIRST_WAIT_MS = 500;
const LONGEST_WAIT_MS = 10_000;

export type FeedState = { kind: "live" } | { kind: "away"; retryAtMs: number } | { kind: "ended"; reason: string };

export interface FeedEvents {
  /** Where the next line to ask for is. */
  next(): number;
  lines(first: number, texts: string[], next: number): void;
  state(state: FeedState): void;
  /** What trying again does not help against. */
  failed(error: unknown): void;
}

interface Told { eventType: string; logs?: string; after?: string; reason?: string; message?: string }

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

  /** Try again at once. */
  hurry(): void {
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
        if (error instanceof ApiError && !error.isPassing) {
          this.end();
          return this.events.failed(error);
        }
        failures += 1;
        const waitMs = Math.min(LONGEST_WAIT_MS, FIRST_WAIT_MS * 2 ** (failures - 1));
        this.events.state({ kind: "away", retryAtMs: Date.now() + waitMs });
        await this.sleep(waitMs);
      }
    }
  }

  /** One response to its end. Answers how long to wait before the next one; null: there is none. */
  private async response(signal: AbortSignal, answered: () => void): Promise<number | null> {
    const response = await api.stream(this.fqn, this.runId, this.events.next(), signal);
    answered();
    this.events.state({ kind: "live" });
    const parser = new FrameParser();
    const reader = response.body?.pipeThrough(new TextDecoderStream()).getReader();
    for (let chunk = await reader?.read(); chunk && !chunk.done; chunk = await reader?.read()) {
      for (const frame of parser.push(chunk.value)) if (this.take(JSON.parse(frame.data) as Told)) return null;
    }
    return parser.retryMs ?? FIRST_WAIT_MS;
  }

  /** Whether that was the last frame of all. */
  private take(told: Told): boolean {
    if (told.eventType === "error") throw new ApiError(503, told.message ?? "the stream failed");
    if (told.eventType === "logs" && told.logs !== undefined) {
      const texts = told.logs.replace(/\n$/, "").split("\n");
      const next = Number(told.after);
      this.events.lines(Math.max(0, next - texts.length), texts, next);
    }
    if (told.eventType !== "complete") return false;
    const isOver = told.reason === "runFinished" || told.reason === "idleTimeout";
    if (isOver) this.end();
    if (isOver) this.events.state({ kind: "ended", reason: told.reason ?? "" });
    return isOver; // else a limit was reached: the next response goes on
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
