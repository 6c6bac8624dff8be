"""Parses paths under ``events/`` into run and action, from the right as those of logs (see ``paths``).

``{fqn}/{runId}``, optionally followed by ``log``, ``steps``, ``steps/{step}``, ``completeness``, ``writers/{writer}``,
``writers/{writer}/close``, ``starts/{start}`` or ``heartbeat``. A run whose id is one of these words cannot be addressed.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from chalice.app import NotFoundError

from chalicelib.ports import Run
from chalicelib.routes.paths import decode_name, routes_below, segments_below
from chalicelib.runlog.layout import checked_run

BASE = "/v1/events"
ROUTES = routes_below(BASE, least=2)
PUT_ROUTES = ROUTES[1:]
"""Routes of starts, heartbeats and writers: at least an FQN of one part, the run id and ``heartbeat``."""


class EventAction(StrEnum):
    """Operations on a run's events."""

    APPEND = "append"
    EVENTS = "events"
    LOG = "log"
    STEPS = "steps"
    UPDATE_STEP = "tell"
    COMPLETENESS = "completeness"
    OPEN = "open"
    CLOSE = "close"
    START = "start"
    HEARTBEAT = "heartbeat"


@dataclass(frozen=True, slots=True)
class EventPath:
    """A parsed path. ``name``: of the writer, the step or the start."""

    action: EventAction
    fqn: str
    run_id: str
    name: str = ""

    @property
    def run(self) -> Run:
        """The run. Raises InvalidNameError."""
        return checked_run(self.fqn, self.run_id)


def parse(method: str, path: str) -> EventPath:
    """Parse a path as sent, still percent-encoded. Raises NotFoundError, InvalidNameError."""
    segments = segments_below(path, BASE)
    parsed = {"POST": _post, "PUT": _put, "GET": _get}[method](segments)
    if parsed is None or not all(parsed[1]):
        raise NotFoundError(f"no such path: events are at events/{{fqn}}/{{runId}} method={method}")
    action, names = parsed
    return EventPath(action, *map(decode_name, names))


_Parsed = tuple[EventAction, tuple[str, ...]] | None


def _post(segments: list[str]) -> _Parsed:
    match segments:
        case [*fqn, run_id, "writers", writer, "close"] if fqn:
            return EventAction.CLOSE, ("/".join(fqn), run_id, writer)
        case [*fqn, run_id, "steps", step] if fqn:
            return EventAction.UPDATE_STEP, ("/".join(fqn), run_id, step)
        case [*fqn, run_id] if fqn:
            return EventAction.APPEND, ("/".join(fqn), run_id)
    return None


def _put(segments: list[str]) -> _Parsed:
    match segments:
        case [*fqn, run_id, "writers", writer] if fqn:
            return EventAction.OPEN, ("/".join(fqn), run_id, writer)
        case [*fqn, run_id, "starts", start] if fqn:
            return EventAction.START, ("/".join(fqn), run_id, start)
        case [*fqn, run_id, "heartbeat"] if fqn:
            return EventAction.HEARTBEAT, ("/".join(fqn), run_id)
    return None


def _get(segments: list[str]) -> _Parsed:
    words = {each.value: each for each in (EventAction.LOG, EventAction.STEPS, EventAction.COMPLETENESS)}
    match segments:
        case [*fqn, run_id, word] if fqn and word in words:
            return words[word], ("/".join(fqn), run_id)
        case [*fqn, run_id] if fqn:
            return EventAction.EVENTS, ("/".join(fqn), run_id)
    return None
