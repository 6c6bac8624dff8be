/** A pipeline in the table: a row of figures, and one of its handlers. What is told anew changes only what differs. */

import type { Handler, Processing } from "../api";
import { arrange, el, fill, name } from "../dom";
import { count, duration, plural } from "../format";
import { when } from "../ui/facts";
import { shown } from "./confirm";
import { handlerNotes, handlerState, isOff, notesOf, replaying, stateOf, switching, switchingHandler, type Change, type State } from "./words";

export const HEAD = ["Pipeline", "State", "Lag in events", "Lag in time", "Processed", "Errors", "Actions"];
type Ask = (change: Change, pipeline: Processing) => void;

const badge = ([kind, word, why]: State): HTMLElement => el("span", { class: `badge ${kind}`, title: why }, word);

export class PipelineRows {
  readonly element: HTMLElement;
  private readonly cells = HEAD.slice(1, -1).map((label, at) => el("td", { "data-label": label, ...(at > 0 && { class: "figure" }) }));
  private readonly toggle = el("button", { onclick: () => this.ask(switching(this.told), this.told) });
  private readonly again = el("button", { onclick: () => this.ask(replaying(this.told), this.told) }, "Replay…");
  private readonly notes = el("p", { class: "soft" });
  private readonly error = el("p", { class: "last-error" });
  private readonly list = el("ul", { class: "handlers" });
  private readonly items = new Map<string, HandlerItem>();

  constructor(private told: Processing, private readonly ask: Ask) {
    const actions = el("td", { class: "figure acts" }, this.toggle, " ", this.again);
    const figures = el("tr", {}, el("th", { scope: "rowgroup", "data-label": HEAD[0] }, name(told.name)), ...this.cells, actions);
    const detail = el("tr", { class: "detail" }, el("td", { colspan: HEAD.length }, this.notes, this.error, this.list));
    this.element = el("tbody", {}, figures, detail);
    this.list.setAttribute("aria-label", `Handlers of ${told.name}`);
    this.again.setAttribute("aria-label", `Replay… ${told.name}`);
    this.tell(told);
  }

  tell(told: Processing): void {
    this.told = told;
    const hasRun = told.told_at !== null;
    const figures = hasRun ? [count(told.lag_events), duration(told.lag_s * 1000), count(told.events), count(told.errors)] : [];
    const heard = hasRun ? el("span", { class: "soft" }, " told ", when(Date.parse(told.told_at ?? ""))) : null;
    this.cells.forEach((cell, at) => (at ? fill(cell, figures[at - 1] ?? "") : fill(cell, badge(stateOf(told)), heard)));
    this.cells[4]?.classList.toggle("wrong", told.errors > 0);
    this.tellMore(told);
    const word = told.state === "disabled" ? "Enable" : "Disable";
    fill(this.toggle, word);
    this.toggle.setAttribute("aria-label", `${word} ${told.name}`);
  }

  private tellMore(told: Processing): void {
    fill(this.notes, notesOf(told));
    fill(this.error, told.last_error !== null && ["Last error: ", name(told.last_error)]);
    const items = told.handlers.map((handler) => {
      const item = this.items.get(handler.name) ?? new HandlerItem((of) => this.ask(switchingHandler(this.told, of), this.told));
      this.items.set(handler.name, item);
      item.tell(handler, told.name);
      return item.element;
    });
    arrange(this.list, items);
  }
}

class HandlerItem {
  private told: Handler | null = null;
  private readonly head = el("span", { class: "of" });
  private readonly notes = el("span", { class: "why" });
  private readonly toggle = el("button", { onclick: () => this.told && this.ask(this.told) });
  readonly element = el("li", {}, this.head, this.notes, this.toggle);

  constructor(private readonly ask: (handler: Handler) => void) {}

  tell(handler: Handler, pipeline: string): void {
    this.told = handler;
    const errors = handler.errors ? el("span", { class: "wrong" }, " ", plural(handler.errors, "error")) : null;
    fill(this.head, name(handler.name), " ", badge(handlerState(handler)), errors);
    fill(this.notes, ...shown(handlerNotes(handler)));
    const word = isOff(handler) ? "Enable" : "Disable";
    fill(this.toggle, word);
    this.toggle.setAttribute("aria-label", `${word} ${handler.name} of ${pipeline}`);
  }
}
