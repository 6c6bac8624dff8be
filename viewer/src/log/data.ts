/** The data of an event, below its first line: text that a button shows and hides. */

import { el } from "../dom";
import { count } from "../format";

// What a terminal or a browser would act on, and what looks like nothing.
const UNSEEN = /[\p{Cc}\p{Cf}\p{Zl}\p{Zp}]/gu;

interface Source { source?: string }
interface RawJson { rawJSON?: (text: string) => unknown }

/** JSON with one field on a line. Numbers as they were sent, where the browser can; characters that would act on the page as escapes. */
export function dataText(body: string): string | null {
  const raw = (JSON as unknown as RawJson).rawJSON;
  const exact = (_name: string, value: unknown, context?: Source) => (typeof value === "number" && raw && context?.source ? raw(context.source) : value);
  const { events } = JSON.parse(body, exact) as { events: { data?: unknown }[] };
  const data = events[0]?.data;
  return data === undefined ? null : JSON.stringify(data, null, 2).replace(UNSEEN, (char) => (char === "\n" ? char : escaped(char)));
}

function escaped(char: string): string {
  return char.split("").map((unit) => `\\u${unit.charCodeAt(0).toString(16).padStart(4, "0")}`).join("");
}

export function dataButton(line: number): HTMLElement {
  return el("button", { type: "button", class: "data-button", "data-data": true, "aria-expanded": "false", "aria-label": `Data of line ${count(line + 1)}`, title: "Data of this event" }, "{…}");
}

/** Show the data below the line, or hide it, for as long as the line is in view. `fetch` answers the page of this event. */
export async function toggleData(button: HTMLElement, fetch: () => Promise<string>): Promise<void> {
  const [row, id] = [button.closest<HTMLElement>(".row"), `data-${button.closest<HTMLElement>(".row")?.dataset["line"]}`];
  const text = row?.querySelector<HTMLElement>(".text");
  const shown = text?.querySelector(".data");
  if (button.hasAttribute("aria-busy") || !text) return;
  if (!shown) {
    button.setAttribute("aria-busy", "true");
    const told = await fetch().then(dataText).finally(() => button.removeAttribute("aria-busy"));
    text.append(el("pre", { class: "data", id, tabindex: 0, role: "region", dir: "ltr", "aria-label": button.getAttribute("aria-label") }, told ?? "It has none."));
    button.setAttribute("aria-controls", id);
  } else shown.remove(), button.removeAttribute("aria-controls");
  button.setAttribute("aria-expanded", String(!shown));
}
