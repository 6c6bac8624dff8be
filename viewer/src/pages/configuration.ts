/** The page of the configuration: what is set, which plugins are installed, and what is chosen for the name of a pipeline. */

import { api, ApiError, type Choice, type Configuration, type Plugin } from "../api";
import type { App, View } from "../app";
import { el, fill, name } from "../dom";
import { jsonText } from "../log/data";
import { cell, fact } from "../ui/facts";
import { PLAIN } from "../ui/fields";
import { errorText, type ErrorContext } from "../ui/notice";
import { adminTabs } from "../ui/tabs";

const TYPING_MS = 300;
/** An invalid name, and one that the user may not administer. */
const NAME_STATUSES = [400, 403];
const ERROR_CONTEXT: ErrorContext = {
  forbidden: "You lack permission to see the configuration",
  token: "see the configuration (scope admin)",
};

export const configurationPage = (app: App, fqn: string): View => new ConfigurationPage(app, fqn);

class ConfigurationPage implements View {
  readonly element: HTMLElement;
  private readonly input: HTMLInputElement;
  private readonly answer = el("div", { class: "answer", role: "status" });
  private readonly content = el("div", {}, el("p", { class: "soft" }, "Loading…"));
  private readonly trouble = el("div");
  private stop = new AbortController();
  private typing = 0;
  private isShown = false;

  constructor(private readonly app: App, fqn: string) {
    this.input = el("input", { type: "search", id: "fqn", value: fqn, placeholder: "shop.orders", ...PLAIN, "aria-describedby": "fqn-hint" });
    this.input.addEventListener("input", () => {
      clearTimeout(this.typing);
      this.typing = window.setTimeout(() => this.submit(), TYPING_MS);
    });
    const form = el("form", { class: "find", onsubmit: (event: Event) => (event.preventDefault(), this.submit()) },
      el("label", { for: "fqn" }, "Name of a pipeline"), this.input, el("p", { class: "soft", id: "fqn-hint" }, "Shows what is chosen for its runs."));
    this.element = el("div", { class: "page configuration" }, adminTabs("configuration"), el("h1", {}, "Configuration"), form, this.answer, this.content, this.trouble);
    void this.load();
  }

  key(event: KeyboardEvent): boolean {
    if (event.key !== "/") return false;
    this.input.focus();
    return true;
  }

  leave(): void {
    clearTimeout(this.typing);
    this.stop.abort();
  }

  private submit(): void {
    clearTimeout(this.typing);
    const fqn = this.input.value.trim();
    this.app.setPlace({ isConfiguration: true, ...(fqn && { chosenFor: fqn }) });
    void this.load();
  }

  /** A name that the server rejects leaves the rest of the page as it is. */
  private async load(): Promise<void> {
    this.stop.abort();
    this.stop = new AbortController();
    const [{ signal }, fqn] = [this.stop, this.input.value.trim()];
    try {
      this.show(await api.configuration(fqn, signal));
    } catch (error) {
      if (signal.aborted) return;
      const isOfName = fqn && error instanceof ApiError && NAME_STATUSES.includes(error.status);
      if (isOfName) await this.rejected(error, signal);
      else this.failed(error);
    }
  }

  private async rejected(error: ApiError, signal: AbortSignal): Promise<void> {
    try {
      if (!this.isShown) this.show(await api.configuration("", signal));
      this.input.setAttribute("aria-invalid", "true");
      fill(this.answer, el("p", { class: "wrong", dir: "auto" }, errorText(error).next));
    } catch (failure) {
      if (!signal.aborted) this.failed(failure);
    }
  }

  private show(document: Configuration): void {
    this.isShown = true;
    this.trouble.replaceChildren();
    this.input.removeAttribute("aria-invalid");
    fill(this.answer, document.chosen && choiceOf(document.chosen));
    fill(this.content, sectionsOf(document));
  }

  private failed(error: unknown): void {
    this.isShown = false;
    fill(this.answer);
    fill(this.content);
    this.app.fail(this.trouble, error, () => void this.load(), ERROR_CONTEXT);
  }
}

function choiceOf(chosen: Choice): HTMLElement {
  const locator = chosen.locator === null ? "None matches: the defaults" : name(chosen.locator);
  return el("dl", { class: "facts" }, fact("Browser", name(chosen.browser)), fact("Outputs", namesOf(chosen.outputs)), fact("Locator", locator));
}

function sectionsOf({ browser, outputs, locators, plugins }: Configuration): HTMLElement[] {
  return [
    section("Defaults", el("dl", { class: "facts" }, fact("Browser", name(browser)))),
    section("Locators", table("Locators", ["Pattern", "Browser", "Outputs"],
      locators.map((each) => [name(each.pattern), name(each.browser), namesOf(each.outputs)]), "None: the defaults apply to all pipelines.")),
    section("Outputs", table("Outputs", ["Name", "Kind", "Options"], outputs.map(outputCells), "None: no other system gets copies of events.")),
    section("Plugins", table("Plugins", ["Name", "Kind", "Protocol", "State"], plugins.map(pluginCells), "None is installed.")),
  ];
}

/** An output is an operator's object. Secrets are hidden by the server. */
function outputCells(output: unknown): (Node | string)[] {
  const { name: id, kind, ...options } = typeof output === "object" && output !== null ? (output as Record<string, unknown>) : { kind: output };
  return [name(String(id ?? kind ?? "")), name(String(kind ?? "")), el("code", { dir: "ltr" }, Object.keys(options).length ? jsonText(options) : "")];
}

function pluginCells({ name: id, kind, protocol, problem, fallback }: Plugin): (Node | string)[] {
  const instead = fallback === null ? "" : el("span", {}, ", ", name(fallback), " is used instead");
  const state = problem === null ? el("span", { class: "badge done" }, "Ready") : el("span", {}, el("span", { class: "badge bad" }, "Problem"), " ", name(problem), instead);
  return [name(id), kind, String(protocol ?? ""), state];
}

function section(title: string, content: HTMLElement): HTMLElement {
  return el("section", {}, el("h2", {}, title), content);
}

function table(label: string, head: string[], rows: (Node | string)[][], empty: string): HTMLElement {
  if (!rows.length) return el("p", { class: "soft" }, empty);
  const cells = (row: (Node | string)[]) => row.map((value, at) => {
    const node = cell(value);
    node.dataset["label"] = head[at] ?? "";
    return node;
  });
  return el("table", { "aria-label": label }, el("thead", {}, el("tr", {}, ...head.map((title) => el("th", { scope: "col" }, title)))),
    el("tbody", {}, ...rows.map((row) => el("tr", {}, ...cells(row)))));
}

function namesOf(names: string[]): HTMLElement {
  return el("span", {}, ...(names.length ? names.flatMap((each, at) => [at ? ", " : "", name(each)]) : ["none"]));
}
