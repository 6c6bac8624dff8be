/** The dialog that confirms a change of a pipeline. */

import type { Processing } from "../api";
import { el } from "../dom";
import { localInput } from "../format";
import { confirm } from "../ui/confirm";
import { changeError, replayTime, type Change } from "./messages";

const HOUR_MS = 3_600_000;
const MINUTE_MS = 60_000;

const VERBS = { enable: "Enable", disable: "Disable", replay: "Replay" };

/** Show the dialog, and send the change when it is confirmed. */
export function confirmChange(change: Change, pipeline: Processing, send: (body: Record<string, string>) => Promise<void>): void {
  const time = change.action === "replay" ? new TimeField() : null;
  const handler: Record<string, string> = change.handler === undefined ? {} : { handler: change.handler };
  confirm({
    ...change, verb: VERBS[change.action], field: time?.element, send,
    read: (): Record<string, string> | null => {
      if (!time) return handler;
      const from = time.read();
      return from === null ? null : { ...handler, from };
    },
    explain: (error) => changeError(error, pipeline.name),
  });
}

/** The input of the time to replay from, with a sentence that explains it. */
class TimeField {
  private readonly input = el("input", { id: "from", type: "datetime-local", step: 1, value: recent(), required: true, "aria-describedby": "from-means", oninput: () => this.update() });
  private readonly means = el("p", { id: "from-means", class: "soft", role: "status" });
  readonly element = el("div", { class: "moment" }, el("label", { for: "from" }, `From (${Intl.DateTimeFormat().resolvedOptions().timeZone})`), this.input, this.means);

  constructor() {
    this.update();
  }

  /** The time as ISO 8601 in UTC; null if it is invalid: the field shows why. */
  read(): string | null {
    const { ms } = this.update();
    if (ms === null) this.input.focus();
    return ms === null ? null : new Date(ms).toISOString();
  }

  private update(): ReturnType<typeof replayTime> {
    const result = replayTime(this.input.value);
    this.means.textContent = result.message;
    this.means.classList.toggle("wrong", result.ms === null);
    return result;
  }
}

/** An hour ago, to the minute. */
function recent(): string {
  const ms = Date.now() - HOUR_MS;
  return localInput(ms - (ms % MINUTE_MS));
}
