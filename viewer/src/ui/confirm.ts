/** The dialog that confirms a change: it explains the effect, and shows why the change failed. */

import { el, fill } from "../dom";
import { dialog } from "./dialogs";
import { type Message, render } from "./message";

/** A change to confirm. `read` returns what the field holds, null if it is invalid; `explain`: why the change failed. */
export interface Question<Value> {
  title: Message;
  effects: Message[];
  verb: string;
  field?: HTMLElement | undefined;
  read(): Value | null;
  send(value: Value): Promise<void>;
  explain(error: unknown): Message;
}

/** Show the dialog, and send the change, once, when it is confirmed. The dialog stays open until the response; it shows an error. */
export function confirm<Value>(question: Question<Value>): void {
  const wrong = el("p", { role: "alert", class: "wrong", hidden: true });
  const submit = el("button", { type: "submit", class: "primary" }, question.verb);
  const cancel = el("button", { type: "button", onclick: () => node.close() }, "Cancel");
  const form = el("form", {}, ...question.effects.map((effect) => el("p", {}, ...render(effect))), question.field, wrong, el("p", { class: "actions" }, cancel, submit));
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    const value = question.read();
    if (submit.getAttribute("aria-disabled") || value === null) return;
    wrong.hidden = true;
    submit.setAttribute("aria-disabled", "true");
    void question.send(value).then(() => node.close(), (error: unknown) => {
      fill(wrong, ...render(question.explain(error)));
      wrong.hidden = false;
      submit.removeAttribute("aria-disabled");
    });
  });
  const node: HTMLDialogElement = dialog(el("span", {}, ...render(question.title)), "change", form);
}
