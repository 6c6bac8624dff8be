/** Links between pages of the same kind. */

import { el } from "../dom";
import { addressOf, type Place } from "../place";

type Tab<Id> = [id: Id, label: string, place: Place];

export const listTabs = (current: "runs" | "pipelines"): HTMLElement =>
  tabs("Lists", current, [["runs", "Runs", {}], ["pipelines", "Pipelines", { isList: true }]]);

/** Pages about processing. The first and the last one need the scope `admin`. */
export const adminTabs = (current: "processing" | "files" | "letters" | "configuration"): HTMLElement =>
  tabs("Administration", current, [
    ["processing", "Processing", { isProcessing: true }], ["files", "Files", { files: {} }], ["letters", "Dead letters", { letters: {} }],
    ["configuration", "Configuration", { isConfiguration: true }],
  ]);

function tabs<Id>(label: string, current: Id, all: Tab<Id>[]): HTMLElement {
  return el("nav", { class: "tabs", "aria-label": label },
    ...all.map(([id, text, place]) => el("a", { href: addressOf(place), "data-go": true, "aria-current": id === current ? "page" : null }, text)));
}
