/** Texts of the page of processing pipelines: states, details, and the dialogs that confirm changes. */

import type { Action, Handler, Processing } from "../api";
import { ago, count, plural, time } from "../format";
import { changeFailure, type Message } from "../ui/message";
import type { ErrorContext } from "../ui/notice";

/** A state as a badge: its CSS class, label and tooltip. */
export type State = [kind: string, label: string, reason: string];
/** A change with the texts of its dialog: title, effects, and the confirmation when it is `done`. */
export interface Change { action: Action; handler?: string; title: Message; effects: Message[]; done: Message }

export const ERROR_CONTEXT: ErrorContext = {
  forbidden: "You lack permission to see the processing pipelines",
  token: "administer pipelines (scope admin for names pipelines/…)",
};

const STATES: Record<Processing["state"], State> = {
  new: ["done", "New", "It has never run"],
  running: ["live", "Running", "Its worker reported in the last ten minutes"],
  silent: ["abandoned", "Silent", "Its worker has not reported for ten minutes"],
  disabled: ["done", "Disabled", "Disabled by an operator"],
};
const HANDLER_STATES: Record<Handler["state"], State> = {
  enabled: ["done", "Enabled", "Receives events"],
  disabled: ["bad", "Disabled", "Receives no events until it is enabled"],
  failed: ["bad", "Not started", "Could not be started; each start of the pipeline retries"],
  replaying: ["live", "Catching up", "Receives the events it missed"],
};

/** An unknown state, of a newer server, is shown by its name. */
export const stateOf = (pipeline: Processing): State => STATES[pipeline.state] ?? ["done", pipeline.state, ""];
export const handlerState = (handler: Handler): State => HANDLER_STATES[handler.state] ?? ["done", handler.state, ""];
export const isOff = (handler: Handler): boolean => handler.state === "disabled" || handler.state === "failed";

/** Details of a pipeline below its figures: exceptions only, such as late events. */
export function detailsOf(pipeline: Processing): string {
  const { runs, late, dropped, dead_letters: dead, replay_from: from } = pipeline;
  const details = [
    runs > 0 && plural(runs, "active run"),
    late > 0 && plural(late, "late event"),
    dropped > 0 && `${plural(dropped, "event")} of deleted logs dropped`,
    dead > 0 && `${plural(dead, "event")} stored as dead letters below _dead/`,
    from !== null && `a replay from ${time(Date.parse(from))} on is pending`,
  ].filter(Boolean).join(" · ");
  return details.replace(/^a/, "A");
}

/** Why a handler receives no events, since when, and from which event. */
export function handlerDetails(handler: Handler, now = Date.now()): Message {
  const { reason, since, at } = handler;
  if (handler.state === "enabled") return [];
  return [
    ...(reason ? [{ userText: reason }, ". "] : []),
    ...(since ? [`Since ${time(Date.parse(since))}, ${ago(Date.parse(since), now)}`] : []),
    ...(at ? [`${since ? ", at" : "At"} line ${count(at.line + 1)} of `, { userText: at.run }] : []),
    ...(since || at ? ["."] : []),
  ];
}

const TIMING = "This takes effect at the worker's next checkpoint or start.";

export function toggleChange(pipeline: Processing): Change {
  const named = { userText: pipeline.name };
  if (pipeline.state !== "disabled") {
    const effects: Message[] = [["Its handlers receive no more events. When it is enabled, it continues from its checkpoint; no event is lost unless its log expires first."], [TIMING]];
    return { action: "disable", title: ["Disable ", named, "?"], effects, done: [named, " is disabled."] };
  }
  const waiting = pipeline.lag_events ? ` At least ${plural(pipeline.lag_events, "event")} ${pipeline.lag_events === 1 ? "is" : "are"} waiting.` : "";
  return { action: "enable", title: ["Enable ", named, "?"], effects: [[`It continues from its checkpoint.${waiting}`], [TIMING]], done: [named, " is enabled."] };
}

export function handlerToggleChange(pipeline: Processing, handler: Handler): Change {
  const named = { userText: handler.name };
  const of: Message = [named, " of ", { userText: pipeline.name }];
  if (!isOff(handler)) {
    const others = pipeline.handlers.length > 1 ? "The pipeline's other handlers continue. " : "It is the pipeline's only handler. ";
    const effects: Message[] = [["This handler receives no more events. ", others, "When it is enabled, it receives the events it missed, unless their logs have expired."], [TIMING]];
    return { action: "disable", handler: handler.name, title: ["Disable ", ...of, "?"], effects, done: [...of, " is disabled."] };
  }
  const start: Message = handler.at ? [`, from line ${count(handler.at.line + 1)} of `, { userText: handler.at.run }, " on"] : [];
  const cause: Message = handler.reason ? ["It stopped because of: ", { userText: handler.reason }, ". If the cause remains, it will stop again."] : [];
  const effects: Message[] = [["It receives the events it missed", ...start, ", then new ones. Some events may be delivered twice."], ...(cause.length ? [cause] : []), [TIMING]];
  return { action: "enable", handler: handler.name, title: ["Enable ", ...of, "?"], effects, done: [...of, " is enabled and receives the events it missed."] };
}

export function replayChange(pipeline: Processing): Change {
  const named = { userText: pipeline.name };
  const handlers = pipeline.handlers.length === 1 ? "Its handler receives" : `All ${count(pipeline.handlers.length)} handlers receive`;
  const effects: Message[] = [
    [`${handlers} all events from that time on again; output that was already written or sent is written or sent again. This cannot be undone.`],
    ["Only runs with a stored checkpoint are replayed."],
  ];
  if (pipeline.replay_from !== null) effects.push([`It replaces the pending replay from ${time(Date.parse(pipeline.replay_from))} on.`]);
  effects.push([pipeline.state === "disabled" ? "The pipeline is disabled: the replay begins after it is enabled." : TIMING]);
  return { action: "replay", title: ["Replay ", named, "?"], effects, done: ["The replay of ", named, " was requested."] };
}

/** The time of an input (`2026-11-21T09:00`, in the browser's zone) with a message; `ms` is null if it is invalid. */
export function replayTime(input: string, now = Date.now()): { ms: number | null; message: string } {
  const ms = new Date(input).getTime();
  if (!input || Number.isNaN(ms)) return { ms: null, message: "Enter a date and a time." };
  if (ms > now) return { ms: null, message: `${time(ms)} is in the future: there is nothing to replay.` };
  return { ms, message: `All events from ${time(ms)} on, ${ago(ms, now)}.` };
}

/** Why a change failed, or that its result is unknown. */
export const changeError = (error: unknown, pipeline: string): Message => changeFailure(error, "status", {
  403: ["Changing this pipeline requires the scope admin for ", { userText: `pipelines/${pipeline}` }, "."],
  404: ["The pipeline does not exist anymore: its file may have been deleted."],
});
