"""Attempts of a run: each has a log of its own, and its number is allocated by a conditional PUT (decision 0039).

An orchestrator retries under the same run id, while the log of the first attempt is closed. Attempt 1 of run ``R`` is stored as run ``R``,
attempt 2 as run ``R~2``: to everything else they are runs of the same pipeline. ``{run}/events/start`` holds the start of an attempt::

    client A    PUT R/events/start    -> stored: attempt 1
    client B    PUT R/events/start    -> 412: A's     PUT R~2/events/start -> stored: attempt 2
    client C    PUT R/events/start    -> 412: A's     PUT R~2/events/start -> 412: B's     PUT R~3/events/start -> stored: attempt 3

A supervisor of a command starts an attempt of its own. A library that only writes joins the newest attempt that is open (``is_joining``), and
starts one if there is none.

A client presents an id of its own with each start. A repeated request finds the start with its id and gets the same attempt, so a lost
response allocates no second one.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from chalicelib.errors import AttemptTakenError, DamagedLogError, ObjectNotFoundError, PreconditionFailedError
from chalicelib.ports import ABSENT, Clock, ObjectStore, PutOptions, Run, RunStart
from chalicelib.runlog.conflicts import put_settled
from chalicelib.runlog.layout import ATTEMPT_MARK, Layout, checked_run
from chalicelib.runlog.tail import Tail

if TYPE_CHECKING:
    from chalicelib.runlog.writer import Writer

MAX_ATTEMPTS = 1000
"""Of one run id: one listing finds them all."""
_RECENT = 20
"""How many of the newest attempts are read to find a start that is repeated."""
_JSON = PutOptions(content_type="application/json")


@dataclass(frozen=True, slots=True)
class StartRequest:
    """``start_id``: unique to the process that starts. ``number``: the attempt to start, None: the next free one. ``age_ms``: how long ago the
    command began, by the client's own clock, so that a wrong clock does no harm. ``is_joining``: any open attempt will do. ``heartbeat_s``: see
    ``RunStart``."""

    start_id: str
    host: str = ""
    command: str = ""
    age_ms: int = 0
    number: int | None = None
    is_joining: bool = False
    heartbeat_s: int = 0


@dataclass(frozen=True, slots=True)
class Attempt:
    """A started attempt: the run that its log is stored as, and the position of its first batch."""

    run: Run
    start: RunStart
    position: str


class Attempts:
    """Starts attempts. Holds no state."""

    def __init__(self, store: ObjectStore, layout: Layout, writer: Writer, clock: Clock) -> None:
        self._store, self._layout, self._writer, self._clock = store, layout, writer, clock

    def start(self, run: Run, request: StartRequest) -> Attempt:
        """Start an attempt of a run: the run itself while it is open and has no other start, else the next attempt that is free.

        A query, a LIST or two and a PUT for the first attempt; a LIST, a GET for each of the newest attempts and a PUT more for a later one.
        Repeatable with the same ``start_id``. Raises AttemptTakenError (the number asked for is taken, or there are ``MAX_ATTEMPTS``),
        InvalidNameError, UnavailableError (started or not: repeat it).
        """
        self._layout.check_new(run)
        if request.number is not None:
            return self._take_number(run, request, request.number)
        tail = self._writer.tails.find(run)
        if request.is_joining and tail.exists and not tail.seal:
            return self._joined(run, request, tail)
        if attempt := self._take(run, self._start_of(run, request, 1), tail):
            return attempt
        first = self._first_attempt(run)
        numbers = self._numbers(first)
        for number in numbers:
            if own := self._own(_attempt_run(first, number), request.start_id):
                return own
        newest = numbers[0] if numbers else 1
        if request.is_joining and (joined := self._join(_attempt_run(first, newest), request)):
            return joined
        return self._take_next(first, request, newest + 1)

    def _take_next(self, first: Run, request: StartRequest, number: int) -> Attempt:
        for free in range(number, MAX_ATTEMPTS + 1):
            attempt_run = _attempt_run(first, free)
            self._layout.check_new(attempt_run)
            attempt = self._take(attempt_run, self._start_of(first, request, free), Tail())
            if attempt is None and request.is_joining:
                attempt = self._join(attempt_run, request)
            if attempt:
                return attempt
        raise AttemptTakenError(f"a run has at most {MAX_ATTEMPTS} attempts run={first.fqn}/{first.run_id}")

    def _take_number(self, run: Run, request: StartRequest, number: int) -> Attempt:
        attempt_run = _attempt_run(run, number)
        self._layout.check_new(attempt_run)
        attempt = self._take(attempt_run, self._start_of(run, request, number), self._writer.tails.find(attempt_run))
        if attempt is None:
            raise AttemptTakenError(f"the attempt is taken: leave the number out for the next free one attempt={number}")
        return attempt

    def _take(self, run: Run, start: RunStart, tail: Tail) -> Attempt | None:
        """The attempt, if its log is open and no other process started it."""
        if not tail.seal:
            try:
                key = self._layout.start(run)
                put_settled(self._store, key, json.dumps(_document(start)).encode(), _JSON, ABSENT)
                return Attempt(run, start, self._writer.position_at(run, tail))
            except PreconditionFailedError:
                pass
        return self._own(run, start.start_id, tail)

    def _join(self, run: Run, request: StartRequest) -> Attempt | None:
        """The attempt, if its log is open."""
        tail = self._writer.tails.find(run)
        return None if tail.seal else self._joined(run, request, tail)

    def _joined(self, run: Run, request: StartRequest, tail: Tail) -> Attempt:
        start = read_start(self._store, self._layout, run) or self._start_of(run, request, 1)
        return Attempt(run, start, self._writer.position_at(run, tail))

    def _own(self, run: Run, start_id: str, tail: Tail | None = None) -> Attempt | None:
        """The attempt, if the start with this id has it."""
        stored = read_start(self._store, self._layout, run)
        if stored is None or stored.start_id != start_id:
            return None
        return Attempt(run, stored, self._writer.position_at(run, tail or self._writer.tails.find(run)))

    def _start_of(self, run: Run, request: StartRequest, number: int) -> RunStart:
        now_ms = self._clock.now_ms()
        return RunStart(
            start_id=request.start_id,
            first_run_id=run.run_id,
            attempt=number,
            host=request.host,
            command=request.command,
            started_ms=max(now_ms - request.age_ms, 0),
            registered_ms=now_ms,
            heartbeat_s=request.heartbeat_s,
        )

    def _first_attempt(self, run: Run) -> Run:
        """The run of attempt 1, where ``run`` is a later one itself: by its start, never by its name."""
        stored = read_start(self._store, self._layout, run)
        return replace(run, run_id=stored.first_run_id) if stored else run

    def _numbers(self, first: Run) -> list[int]:
        """Numbers of the attempts after the first whose logs or starts exist, the newest first, at most ``_RECENT`` of them."""
        folders = self._store.list_folders(self._layout.later_attempts(first)).names
        return sorted((number for name in folders if (number := _number_of(name))), reverse=True)[:_RECENT]


def read_start(store: ObjectStore, layout: Layout, run: Run) -> RunStart | None:
    """The start of a run; None of a run without one, as all runs of earlier releases. One GET. Raises DamagedLogError."""
    key = layout.start(run)
    try:
        document = json.loads(store.get(key).body)
        return RunStart(
            start_id=str(document["startId"]),
            first_run_id=checked_run(run.fqn, str(document["runId"])).run_id,
            attempt=int(document["attempt"]),
            host=str(document["host"]),
            command=str(document["command"]),
            started_ms=int(document["startedMs"]),
            registered_ms=int(document["registeredMs"]),
            heartbeat_s=int(document.get("heartbeatS", 0)),
        )
    except ObjectNotFoundError:
        return None
    except (ValueError, LookupError, TypeError, AttributeError) as error:
        raise DamagedLogError(f"the start of a run cannot be read key={key}") from error


def _document(start: RunStart) -> dict[str, Any]:
    return {
        "startId": start.start_id,
        "runId": start.first_run_id,
        "attempt": start.attempt,
        "host": start.host,
        "command": start.command,
        "startedMs": start.started_ms,
        "registeredMs": start.registered_ms,
        "heartbeatS": start.heartbeat_s,
    }


def _attempt_run(first: Run, number: int) -> Run:
    """The run that an attempt is stored as. Raises InvalidNameError."""
    return first if number == 1 else checked_run(first.fqn, f"{first.run_id}{ATTEMPT_MARK}{number}")


def _number_of(folder: str) -> int:
    """The attempt that a folder is of; 0 of a run whose id only looks similar."""
    digits = folder.rpartition(ATTEMPT_MARK)[2]
    return int(digits) if digits.isascii() and digits.isdecimal() and not digits.startswith("0") and len(digits) <= 4 else 0
