/** The dialog that confirms a change of a pipeline: it explains the effect, and shows why the change failed. */

import type { Processing } from "../api";
import { el, fill, name } from "../dom";
import { time as formatTime } from "../format";
import { dialog } from "../ui/dialogs";
import { changeError, replayTime, type Change, type Message } from "./messages";

const HOUR_MS = 3_600_000;
const MINUTE_MS = 60_000;

export const render = (message: Message): (Node | string)[] => message.map((part) => (typeof part === "string" ? part : name(part.userText)));
const VERBS = { enable: "Enable", disable: "Disable", replay: "Replay" };

/** Show the dialog, and send the change when it is confirmed. The dialog stays open until the response; it shows an error. */
export function confirm(change: Change, pipeline: Processing, send: (body: Record<string, string>) => Promise<void>): void {
  const time = change.action === "replay" ? new TimeField() : null;
  const wrong = el("p", { role: "alert", class: "wrong", hidden: true });
  const submit = el("button", { type: "submit", class: "primary" }, VERBS[change.action]);
  const cancel = el("button", { type: "button", onclick: () => node.close() }, "Cancel");
  const form = el("form", {}, ...change.effects.map((effect) => el("p", {}, ...render(effect))), time?.element, wrong, el("p", { class: "actions" }, cancel, submit));
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    const from = time?.read();
    if (submit.getAttribute("aria-disabled") || from === null) return;
    wrong.hidden = true;
    submit.setAttribute("aria-disabled", "true");
    void send({ ...(change.handler !== undefined && { handler: change.handler }), ...(from !== undefined && { from }) })
      .then(() => node.close(), (error: unknown) => {
        fill(wrong, ...render(changeError(error, pipeline.name)));
        wrong.hidden = false;
        submit.removeAttribute("aria-disabled");
      });
  });
  const node: HTMLDialogElement = dialog(el("span", {}, ...render(change.title)), "change", form);
}

/** The input of the time to replay from, with a sentence that explains it. */
class TimeField {
  private readonly input = el("input", { id: "from", type: "datetime-local", step: 1, value: local(Date.now() - HOUR_MS), required: true, "aria-describedby": "from-means", oninput: () => this.update() });
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

const local = (ms: number): string => formatTime(ms - (ms % MINUTE_MS)).replace(" ", "T");
