/** Links between the lists of runs and of pipelines. */

import { el } from "../dom";
import { addressOf } from "../place";

export function tabs(current: "runs" | "pipelines"): HTMLElement {
  const tab = (id: string, label: string, href: string) => el("a", { href, "data-go": true, "aria-current": id === current ? "page" : null }, label);
  return el("nav", { class: "tabs", "aria-label": "Lists" }, tab("runs", "Runs", addressOf({})), tab("pipelines", "Pipelines", addressOf({ isList: true })));
}
