/** Parses text/event-stream from chunks that may end anywhere, as EventSource does: for fetch, which can send a token. */

export interface Frame {
  /** The last id of the stream, possibly of an earlier frame. */
  id: string;
  data: string;
}

export class FrameParser {
  /** The last value of `retry:`, in milliseconds. */
  retryMs: number | null = null;
  private rest = "";
  private id = "";
  private data: string[] = [];

  /** Returns the frames that end in this chunk. */
  push(chunk: string): Frame[] {
    const lines = (this.rest + chunk).split(/\r\n|\n|\r(?!$)/);
    this.rest = lines.pop() ?? "";
    return lines.flatMap((line) => this.line(line));
  }

  private line(line: string): Frame[] {
    if (line === "") return this.dispatch();
    const colon = line.indexOf(":");
    const field = colon < 0 ? line : line.slice(0, colon);
    const value = colon < 0 ? "" : line.slice(colon + 1).replace(/^ /, "");
    if (field === "data") this.data.push(value);
    else if (field === "id" && !value.includes("\0")) this.id = value;
    else if (field === "retry" && /^\d+$/.test(value)) this.retryMs = Number(value);
    return []; // a comment (empty field) is a heartbeat
  }

  private dispatch(): Frame[] {
    if (this.data.length === 0) return [];
    const frame = { id: this.id, data: this.data.join("\n") };
    this.data = [];
    return [frame];
  }
}
