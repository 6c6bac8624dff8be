/** The data of an event below its first line, shown and hidden by a button. */

import { el } from "../dom";
import { count } from "../format";

// Control characters and invisible characters.
const INVISIBLE = /[\p{Cc}\p{Cf}\p{Zl}\p{Zp}]/gu;

interface Source { source?: string }
interface RawJson { rawJSON?: (text: string) => unknown }

/** Data as JSON with one field per line. Numbers keep their digits if the browser supports it; invisible characters are escaped. */
export function dataText(body: string): string | null {
  const raw = (JSON as unknown as RawJson).rawJSON;
  const exact = (_name: string, value: unknown, context?: Source) => (typeof value === "number" && raw && context?.source ? raw(context.source) : value);
  const { events } = JSON.parse(body, exact) as { events: { data?: unknown }[] };
  const data = events[0]?.data;
  return data === undefined ? null : jsonText(data, 2);
}

/** A value as JSON whose invisible characters are escaped. `indent`: spaces; 0: on one line. */
export function jsonText(value: unknown, indent = 0): string {
  return JSON.stringify(value, null, indent).replace(INVISIBLE, (char) => (char === "\n" ? char : escaped(char)));
}

function escaped(char: string): string {
  return char.split("").map((unit) => `\\u${unit.charCodeAt(0).toString(16).padStart(4, "0")}`).join("");
}

export function dataButton(line: number): HTMLElement {
  return el("button", { type: "button", class: "data-button", "data-data": true, "aria-expanded": "false", "aria-label": `Data of line ${count(line + 1)}`, title: "Data of this event" }, "{…}");
}

/** Show or hide the data below the line, until it is scrolled out of view. `fetch` returns the response body with this event. */
export async function toggleData(button: HTMLElement, fetch: () => Promise<string>): Promise<void> {
  const [row, id] = [button.closest<HTMLElement>(".row"), `data-${button.closest<HTMLElement>(".row")?.dataset["line"]}`];
  const text = row?.querySelector<HTMLElement>(".text");
  const existing = text?.querySelector(".data");
  if (button.hasAttribute("aria-busy") || !text) return;
  if (!existing) {
    button.setAttribute("aria-busy", "true");
    const content = await fetch().then(dataText).finally(() => button.removeAttribute("aria-busy"));
    text.append(el("pre", { class: "data", id, tabindex: 0, role: "region", dir: "ltr", "aria-label": button.getAttribute("aria-label") }, content ?? "The event has no data."));
    button.setAttribute("aria-controls", id);
  } else existing.remove(), button.removeAttribute("aria-controls");
  button.setAttribute("aria-expanded", String(!existing));
}
