/** Inputs of a page's filter, whose values are fields of its URL. */

import { el } from "../dom";
import { localInput } from "../format";

/** Attributes of an input of names or patterns, which a browser must not change or suggest. */
export const PLAIN = { spellcheck: "false", autocapitalize: "off", autocomplete: "off" };

type Control = HTMLInputElement | HTMLSelectElement;

/** An input with its label. `read` and `write` convert between what it shows and the URL's value; "" is no value. */
export interface Field { id: string; element: HTMLElement; control: Control; read(): string; write(value: string): void }

const labelled = (id: string, label: string, ...controls: HTMLElement[]): HTMLElement => el("div", {}, el("label", { for: id }, label), ...controls);

export function textField(id: string, label: string, placeholder = "", list?: HTMLDataListElement): Field {
  const control = el("input", { id, placeholder, list: list?.id, ...PLAIN });
  return { id, element: labelled(id, label, control, ...(list ? [list] : [])), control, read: () => control.value.trim(), write: (value) => (control.value = value) };
}

/** A time in the browser's zone; its value is ISO 8601 in UTC. */
export function timeField(id: string, label: string): Field {
  const control = el("input", { id, type: "datetime-local", step: 1 });
  const read = (): string => {
    const ms = new Date(control.value).getTime();
    return Number.isNaN(ms) ? "" : new Date(ms).toISOString();
  };
  const write = (value: string): void => {
    const ms = Date.parse(value);
    control.value = Number.isNaN(ms) ? "" : localInput(ms);
  };
  return { id, element: labelled(id, label, control), control, read, write };
}

export function choiceField(id: string, label: string, choices: readonly string[], all: string): Field {
  const control = el("select", { id }, el("option", { value: "" }, all), ...choices.map((each) => el("option", { value: each }, each)));
  return { id, element: labelled(id, label, control), control, read: () => control.value, write: (value) => (control.value = choices.includes(value) ? value : "") };
}

/** The form of the fields. `onChange` is called when a value has changed. */
export function filterForm(label: string, fields: Field[], onChange: () => void): HTMLElement {
  const form = el("form", { role: "search", class: "filter fields", "aria-label": label, onsubmit: (event: Event) => (event.preventDefault(), onChange()) },
    ...fields.map((field) => field.element), el("button", { type: "submit" }, "Show"));
  for (const { control } of fields) control.addEventListener("change", () => onChange());
  return form;
}

/** The values of fields by their ids. */
export const valuesOf = (fields: Field[]): Record<string, string> => Object.fromEntries(fields.map((field) => [field.id, field.read()]).filter(([, value]) => value !== ""));

/** An input that finds text in what is loaded. */
export function findField(value: string, onInput: (text: string) => void): { element: HTMLElement; input: HTMLInputElement } {
  const input = el("input", { type: "search", id: "find", value, ...PLAIN });
  input.addEventListener("input", () => onInput(input.value));
  return { input, element: el("div", { class: "find" }, el("label", { for: "find" }, "Find in the loaded rows"), input) };
}
