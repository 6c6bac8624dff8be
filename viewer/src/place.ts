/** The page's location as parsed from its URL: `?p=PIPELINE&r=RUN&s=STEP&q=TEXT&regex&case&only=CONTEXT#L10-L20`, `?list&q=TEXT` for pipelines,
 * `?pipelines` for processing pipelines, `?files&namespace=…` for their files, `?dead&…` for dead letters, `?configuration&fqn=PIPELINE` for the configuration, otherwise the start page with its filter. The URL counts lines from 1: lines of the step if it names one, otherwise of the run. */

import { DEFAULT, formatFilter, parseFilter, type Filter } from "./start/filter";

/** A search in a run's log, and whether only its matches are shown: with how many lines before and after each. */
export interface SearchQuery { text: string; isRegex: boolean; isCaseIgnored: boolean; only?: number | undefined }

const MAX_CONTEXT = 30;
/** The lines of context that the page offers. */
export const CONTEXTS = [0, 1, 3, 10, MAX_CONTEXT];

/** The page of pipeline files: of which application, which events (times in ISO 8601), the opened file, or (`read`) all files merged; `find`: the
 * text to find in loaded rows. */
const FILES_FIELDS = ["namespace", "app", "base", "level", "from", "to", "key", "read", "find"] as const;
export type FilesQuery = Partial<Record<(typeof FILES_FIELDS)[number], string>>;
/** The page of dead letters; the page of one if `line` (from 0, as in the API) and the names are set. */
const LETTERS_FIELDS = ["pipeline", "handler", "fqn", "run", "line", "from", "to", "find"] as const;
export type LettersQuery = Partial<Record<(typeof LETTERS_FIELDS)[number], string>>;

export interface Lines {
  /** From 0, as in the API; both inclusive. */
  from: number;
  to: number;
}

export interface Place {
  /** The page of processing pipelines; all other fields are undefined. */
  isProcessing?: true;
  /** The page of pipeline files. */
  files?: FilesQuery;
  /** The page of dead letters. */
  letters?: LettersQuery;
  /** The page of the configuration, and the pipeline whose choice it shows. */
  isConfiguration?: true;
  chosenFor?: string;
  /** The page of pipelines, and the part of their names to show. */
  isList?: true;
  contains?: string;
  /** The start page; all other fields are undefined. */
  filter?: Filter;
  fqn?: string;
  runId?: string;
  step?: string;
  search?: SearchQuery;
  lines?: Lines;
}

export function parsePlace(search: string, hash: string): Place {
  const query = new URLSearchParams(search);
  if (query.has("pipelines") && !query.has("p")) return { isProcessing: true };
  if (query.has("files") && !query.has("p")) return { files: Object.fromEntries(filled(FILES_FIELDS, (field) => query.get(field))) };
  if (query.has("dead") && !query.has("p")) return { letters: Object.fromEntries(filled(LETTERS_FIELDS, (field) => query.get(field))) };
  const chosenFor = query.get("fqn");
  if (query.has("configuration") && !query.has("p")) return { isConfiguration: true, ...(chosenFor && { chosenFor }) };
  const place: Place = {};
  const [contains, fqn, runId, step] = [query.get("q"), query.get("p"), query.get("r"), query.get("s")];
  if (!fqn && (query.has("list") || contains)) return { isList: true, ...(contains && { contains }) };
  if (!fqn) return { filter: parseFilter(query) };
  place.fqn = fqn;
  if (runId) place.runId = runId;
  if (runId && step) place.step = step;
  if (runId && contains) place.search = parseSearch(contains, query);
  const lines = parseLines(hash);
  if (lines) place.lines = lines;
  return place;
}

export function addressOf(place: Place): string {
  if (place.isProcessing) return "?pipelines";
  if (place.files) return fieldsAddress("files", FILES_FIELDS, place.files);
  if (place.letters) return fieldsAddress("dead", LETTERS_FIELDS, place.letters);
  if (place.isConfiguration) return place.chosenFor ? `?configuration&${new URLSearchParams({ fqn: place.chosenFor })}` : "?configuration";
  if (place.isList) return place.contains ? `?list&${new URLSearchParams({ q: place.contains })}` : "?list";
  const query = formatFilter(place.filter ?? DEFAULT);
  if (place.fqn) query.set("p", place.fqn);
  if (place.fqn && place.runId) query.set("r", place.runId);
  if (place.fqn && place.runId && place.step) query.set("s", place.step);
  if (place.runId && place.search) formatSearch(query, place.search);
  const parameters = query.toString().replaceAll("%2C", ",");
  return (parameters ? `?${parameters}` : "./") + (place.lines ? formatLines(place.lines) : "");
}

/** The fields that have a value, in this order; "" is no value. */
const filled = <Field extends string>(fields: readonly Field[], valueOf: (field: Field) => string | null | undefined): [Field, string][] =>
  fields.map((field): [Field, string] => [field, valueOf(field) ?? ""]).filter(([, value]) => value !== "");

const fieldsAddress = <Field extends string>(page: string, fields: readonly Field[], values: Partial<Record<Field, string>>): string =>
  `?${[page, ...filled(fields, (field) => values[field]).map((entry) => new URLSearchParams([entry]))].join("&")}`;

function parseSearch(text: string, query: URLSearchParams): SearchQuery {
  const only = query.get("only");
  const context = only === null ? undefined : CONTEXTS.findLast((each) => each <= Number(only)) ?? 0;
  return { text, isRegex: query.has("regex"), isCaseIgnored: !query.has("case"), ...(context !== undefined && { only: context }) };
}

function formatSearch(query: URLSearchParams, { text, isRegex, isCaseIgnored, only }: SearchQuery): void {
  query.set("q", text);
  if (isRegex) query.set("regex", "1");
  if (!isCaseIgnored) query.set("case", "1");
  if (only !== undefined) query.set("only", String(only));
}

export function parseLines(hash: string): Lines | undefined {
  const match = /^#?L(\d{1,15})(?:-L?(\d{1,15}))?$/.exec(hash);
  if (!match) return undefined;
  const ends = [Number(match[1]), Number(match[2] ?? match[1])].map((line) => Math.max(0, line - 1)).sort((a, b) => a - b);
  return { from: ends[0] ?? 0, to: ends[1] ?? 0 };
}

export function formatLines({ from, to }: Lines): string {
  return from === to ? `#L${from + 1}` : `#L${from + 1}-L${to + 1}`;
}
