/** What is said of processing pipelines, and before something about them is changed. */

import type { Action, Handler, Processing } from "../api";
import { ApiError } from "../errors";
import { ago, count, plural, time } from "../format";
import type { About } from "../ui/notice";

/** Text of somebody else within ours. */
export interface Foreign { foreign: string }
export type Words = (string | Foreign)[];
/** How something is: the badge's kind, its word, and why. */
export type State = [kind: string, word: string, why: string];
/** A change, as it is asked for and confirmed. `from` says that it takes a time. */
export interface Change { action: Action; handler?: string; title: Words; says: Words[]; done: Words }

export const ABOUT: About = {
  missing: { title: "This server has no processing pipelines", next: "It is of a version before them: its operator can upgrade it. Logs are read as ever.", canRetry: true },
  forbidden: "You may not see the processing pipelines",
  token: "administer pipelines (scope admin of pipelines/… names)",
};

const STATES: Record<Processing["state"], State> = {
  new: ["done", "New", "It never ran"],
  running: ["live", "Running", "Its worker was heard of in the last ten minutes"],
  silent: ["abandoned", "Silent", "Nothing was heard of its worker for ten minutes"],
  disabled: ["done", "Disabled", "An operator let it stand still"],
};
const HANDLER_STATES: Record<Handler["state"], State> = {
  enabled: ["done", "Enabled", "It gets events"],
  disabled: ["bad", "Disabled", "It gets no events until it is enabled"],
  failed: ["bad", "Not started", "It could not be started, which is tried again at each start of the pipeline"],
  replaying: ["live", "Catching up", "It gets what it missed"],
};

/** A state of a later version is said as it is. */
export const stateOf = (pipeline: Processing): State => STATES[pipeline.state] ?? ["done", pipeline.state, ""];
export const handlerState = (handler: Handler): State => HANDLER_STATES[handler.state] ?? ["done", handler.state, ""];
export const isOff = (handler: Handler): boolean => handler.state === "disabled" || handler.state === "failed";
export const plain = (words: Words): string => words.map((word) => (typeof word === "string" ? word : word.foreign)).join("");

/** What there is beside the figures: only what is not as it always is. */
export function notesOf(pipeline: Processing): string {
  const { runs, late, dropped, dead_letters: dead, replay_from: from } = pipeline;
  const notes = [
    runs > 0 && `${plural(runs, "run")} in hand`,
    late > 0 && `${plural(late, "event")} came late`,
    dropped > 0 && `${plural(dropped, "event")} of deleted logs`,
    dead > 0 && `${plural(dead, "event")} put away below _dead/`,
    from !== null && `a replay from ${time(Date.parse(from))} on has not begun yet`,
  ].filter(Boolean).join(" · ");
  return notes.replace(/^a/, "A");
}

/** Why a handler gets nothing, since when, and from which event. */
export function handlerNotes(handler: Handler, now = Date.now()): Words {
  const { reason, since, at } = handler;
  if (handler.state === "enabled") return [];
  return [
    ...(reason ? [{ foreign: reason }, ". "] : []),
    ...(since ? [`Since ${time(Date.parse(since))}, ${ago(Date.parse(since), now)}`] : []),
    ...(at ? [`${since ? ", at" : "At"} line ${count(at.line + 1)} of `, { foreign: at.run }] : []),
    ...(since || at ? ["."] : []),
  ];
}

const WHEN = "This takes effect at its worker's next checkpoint, or when it starts next.";

export function switching(pipeline: Processing): Change {
  const named = { foreign: pipeline.name };
  if (pipeline.state !== "disabled") {
    const says: Words[] = [["Its handlers get nothing any more. It stays where it is, and goes on from there when it is enabled: nothing is missed, as long as the logs are kept."], [WHEN]];
    return { action: "disable", title: ["Disable ", named, "?"], says, done: [named, " is disabled."] };
  }
  const waiting = pipeline.lag_events ? ` ${plural(pipeline.lag_events, "event")} or more ${pipeline.lag_events === 1 ? "waits" : "wait"}.` : "";
  return { action: "enable", title: ["Enable ", named, "?"], says: [[`It goes on from where it stood.${waiting}`], [WHEN]], done: [named, " is enabled."] };
}

export function switchingHandler(pipeline: Processing, handler: Handler): Change {
  const named = { foreign: handler.name };
  const of: Words = [named, " of ", { foreign: pipeline.name }];
  if (!isOff(handler)) {
    const others = pipeline.handlers.length > 1 ? "The pipeline's other handlers go on. " : "It is the pipeline's only handler. ";
    const says: Words[] = [["This handler gets nothing any more. ", others, "When it is enabled it gets what it missed, as long as the logs are kept."], [WHEN]];
    return { action: "disable", handler: handler.name, title: ["Disable ", ...of, "?"], says, done: [...of, " is disabled."] };
  }
  const place: Words = handler.at ? [`, from line ${count(handler.at.line + 1)} of `, { foreign: handler.at.run }, " on"] : [];
  const why: Words = handler.reason ? ["It got nothing because of: ", { foreign: handler.reason }, ". If that is so still, it will be disabled again."] : [];
  const says: Words[] = [["It gets what it missed", ...place, ", and then all that comes. It may get some events twice."], ...(why.length ? [why] : []), [WHEN]];
  return { action: "enable", handler: handler.name, title: ["Enable ", ...of, "?"], says, done: [...of, " is enabled: it gets what it missed."] };
}

export function replaying(pipeline: Processing): Change {
  const named = { foreign: pipeline.name };
  const handlers = pipeline.handlers.length === 1 ? "Its handler gets" : `All ${count(pipeline.handlers.length)} handlers get`;
  const says: Words[] = [
    [`${handlers} all events from that time on once more: what they wrote or sent for them before, they write or send again. That cannot be taken back.`],
    ["It is of runs whose places are still kept."],
  ];
  if (pipeline.replay_from !== null) says.push([`It takes the place of the replay from ${time(Date.parse(pipeline.replay_from))} on, which has not begun yet.`]);
  says.push([pipeline.state === "disabled" ? "The pipeline is disabled: the replay begins after it is enabled." : WHEN]);
  return { action: "replay", title: ["Replay ", named, "?"], says, done: ["The replay of ", named, " is asked for."] };
}

/** The time that somebody gave (`2026-11-21T09:00`, in this zone), or why it is none. */
export function replayTime(given: string, now = Date.now()): { ms: number; said: string } | { ms: null; said: string } {
  const ms = new Date(given).getTime();
  if (!given || Number.isNaN(ms)) return { ms: null, said: "Give a day and a time." };
  if (ms > now) return { ms: null, said: `${time(ms)} is in the future: there is nothing to replay.` };
  return { ms, said: `Everything from ${time(ms)} on, ${ago(ms, now)}.` };
}

/** Why a change was not made, or that nobody knows. */
export function refusal(error: unknown, pipeline: string): Words {
  if (!(error instanceof ApiError)) return ["Something went wrong in this page: reload it, and look before you try again."];
  const said: Words = [" The server says: ", { foreign: error.message }, "."];
  if (error.status === 401) return ["You are not signed in.", ...said];
  if (error.status === 403) return ["You may not change this pipeline: that takes the scope admin of ", { foreign: `pipelines/${pipeline}` }, ".", ...said];
  if (error.status === 404) return ["There is no such pipeline any more: its file may be gone.", ...said];
  if (error.isPassing) return ["No answer came, or none that helps. The change may have been made all the same: look before you try again.", ...said];
  return ["The server refused it.", ...said];
}
