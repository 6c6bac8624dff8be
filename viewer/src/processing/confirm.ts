/** The question before a pipeline is changed: what will happen, and what went wrong. */

import type { Processing } from "../api";
import { el, fill, name } from "../dom";
import { time } from "../format";
import { dialog } from "../ui/dialogs";
import { refusal, replayTime, type Change, type Words } from "./words";

const HOUR_MS = 3_600_000;
const MINUTE_MS = 60_000;

export const shown = (words: Words): (Node | string)[] => words.map((word) => (typeof word === "string" ? word : name(word.foreign)));
const VERBS = { enable: "Enable", disable: "Disable", replay: "Replay" };

/** Ask, and send it where it is confirmed. The question stands until the answer is there; a failure is said in it. */
export function confirm(change: Change, pipeline: Processing, send: (body: Record<string, string>) => Promise<void>): void {
  const moment = change.action === "replay" ? new Moment() : null;
  const wrong = el("p", { role: "alert", class: "wrong", hidden: true });
  const submit = el("button", { type: "submit", class: "primary" }, VERBS[change.action]);
  const cancel = el("button", { type: "button", onclick: () => node.close() }, "Not now");
  const form = el("form", {}, ...change.says.map((words) => el("p", {}, ...shown(words))), moment?.element, wrong, el("p", { class: "actions" }, cancel, submit));
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    const from = moment?.read();
    if (submit.getAttribute("aria-disabled") || from === null) return;
    wrong.hidden = true;
    submit.setAttribute("aria-disabled", "true");
    void send({ ...(change.handler !== undefined && { handler: change.handler }), ...(from !== undefined && { from }) })
      .then(() => node.close(), (error: unknown) => {
        fill(wrong, ...shown(refusal(error, pipeline.name)));
        wrong.hidden = false;
        submit.removeAttribute("aria-disabled");
      });
  });
  const node: HTMLDialogElement = dialog(el("span", {}, ...shown(change.title)), "change", form);
}

/** The time to replay from, and in words what it means. */
class Moment {
  private readonly input = el("input", { id: "from", type: "datetime-local", step: 1, value: local(Date.now() - HOUR_MS), required: true, "aria-describedby": "from-means", oninput: () => this.tell() });
  private readonly means = el("p", { id: "from-means", class: "soft", role: "status" });
  readonly element = el("div", { class: "moment" }, el("label", { for: "from" }, `From (${Intl.DateTimeFormat().resolvedOptions().timeZone})`), this.input, this.means);

  constructor() {
    this.tell();
  }

  /** ISO 8601 in UTC; null: there is none, and it says so. */
  read(): string | null {
    const { ms } = this.tell();
    if (ms === null) this.input.focus();
    return ms === null ? null : new Date(ms).toISOString();
  }

  private tell(): ReturnType<typeof replayTime> {
    const told = replayTime(this.input.value);
    this.means.textContent = told.said;
    this.means.classList.toggle("wrong", told.ms === null);
    return told;
  }
}

const local = (ms: number): string => time(ms - (ms % MINUTE_MS)).replace(" ", "T");
