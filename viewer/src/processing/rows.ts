/** A pipeline in the table: a row of figures, and a row with its handlers. An update changes only cells with other values. */

import type { Handler, Processing } from "../api";
import { arrange, el, fill, name } from "../dom";
import { count, duration, plural } from "../format";
import { addressOf } from "../place";
import { when } from "../ui/facts";
import { render } from "../ui/message";
import { detailsOf, handlerDetails, handlerState, handlerToggleChange, isOff, replayChange, stateOf, toggleChange, type Change, type State } from "./messages";

export const HEAD = ["Pipeline", "State", "Lag in events", "Lag in time", "Processed", "Errors", "Actions"];
type OnChange = (change: Change, pipeline: Processing) => void;

const badge = ([kind, label, reason]: State): HTMLElement => el("span", { class: `badge ${kind}`, title: reason }, label);

export class PipelineRows {
  readonly element: HTMLElement;
  private readonly cells = HEAD.slice(1, -1).map((label, at) => el("td", { "data-label": label, ...(at > 0 && { class: "figure" }) }));
  private readonly toggle = el("button", { onclick: () => this.onChange(toggleChange(this.status), this.status) });
  private readonly again = el("button", { onclick: () => this.onChange(replayChange(this.status), this.status) }, "Replay…");
  private readonly details = el("p", { class: "soft" });
  private readonly error = el("p", { class: "last-error" });
  private readonly list = el("ul", { class: "handlers" });
  private readonly items = new Map<string, HandlerItem>();

  constructor(private status: Processing, private readonly onChange: OnChange) {
    const actions = el("td", { class: "figure acts" }, this.toggle, " ", this.again);
    const figures = el("tr", {}, el("th", { scope: "rowgroup", "data-label": HEAD[0] }, name(status.name)), ...this.cells, actions);
    const detail = el("tr", { class: "detail" }, el("td", { colspan: HEAD.length }, this.details, this.error, this.list));
    this.element = el("tbody", {}, figures, detail);
    this.list.setAttribute("aria-label", `Handlers of ${status.name}`);
    this.again.setAttribute("aria-label", `Replay… ${status.name}`);
    this.update(status);
  }

  update(status: Processing): void {
    this.status = status;
    const hasRun = status.told_at !== null;
    const figures = hasRun ? [count(status.lag_events), duration(status.lag_s * 1000), count(status.events), count(status.errors)] : [];
    const reported = hasRun ? el("span", { class: "soft" }, " reported ", when(Date.parse(status.told_at ?? ""))) : null;
    this.cells.forEach((cell, at) => (at ? fill(cell, figures[at - 1] ?? "") : fill(cell, badge(stateOf(status)), reported)));
    this.cells[4]?.classList.toggle("wrong", status.errors > 0);
    this.updateDetails(status);
    const label = status.state === "disabled" ? "Enable" : "Disable";
    fill(this.toggle, label);
    this.toggle.setAttribute("aria-label", `${label} ${status.name}`);
  }

  private updateDetails(status: Processing): void {
    const letters = el("a", { href: addressOf({ letters: { pipeline: status.name } }), "data-go": true }, "Dead letters");
    fill(this.details, detailsOf(status), status.dead_letters > 0 && [". ", letters]);
    fill(this.error, status.last_error !== null && ["Last error: ", name(status.last_error)]);
    const items = status.handlers.map((handler) => {
      const item = this.items.get(handler.name) ?? new HandlerItem((of) => this.onChange(handlerToggleChange(this.status, of), this.status));
      this.items.set(handler.name, item);
      item.update(handler, status.name);
      return item.element;
    });
    arrange(this.list, items);
  }
}

class HandlerItem {
  private handler: Handler | null = null;
  private readonly head = el("span", { class: "of" });
  private readonly details = el("span", { class: "why" });
  private readonly toggle = el("button", { onclick: () => this.handler && this.onChange(this.handler) });
  readonly element = el("li", {}, this.head, this.details, this.toggle);

  constructor(private readonly onChange: (handler: Handler) => void) {}

  update(handler: Handler, pipeline: string): void {
    this.handler = handler;
    const errors = handler.errors ? el("span", { class: "wrong" }, " ", plural(handler.errors, "error")) : null;
    fill(this.head, name(handler.name), " ", badge(handlerState(handler)), errors);
    fill(this.details, ...render(handlerDetails(handler)));
    const label = isOff(handler) ? "Enable" : "Disable";
    fill(this.toggle, label);
    this.toggle.setAttribute("aria-label", `${label} ${handler.name} of ${pipeline}`);
  }
}
