"""Attempts of a run: each has a separate log, and a conditional PUT allocates its number (decision 0039).

An orchestrator retries under the same run id, after the log of the first attempt was closed. Attempt 1 of run ``R`` is stored as run ``R``,
attempt 2 as run ``R~2``: all other code sees two runs of one pipeline. ``{run}/events/start`` stores the start of an attempt::

    client A    PUT R/events/start    -> stored: attempt 1
    client B    PUT R/events/start    -> 412: A's     PUT R~2/events/start -> stored: attempt 2
    client C    PUT R/events/start    -> 412: A's     PUT R~2/events/start -> 412: B's     PUT R~3/events/start -> stored: attempt 3

A supervisor of a command starts a new attempt. A library that only writes joins the newest running attempt (``is_joining``), and starts one
if none is running. The newest one has the highest number: the clocks of two functions differ, the numbers do not.

The stored start makes a run an attempt of ``R``, never the name: ``R~7`` may be an unrelated run, and then only its number is unavailable.

Each start carries an id that the client generated. A repeated request finds the start with this id and returns the same attempt, so a lost
response does not allocate a second one.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from chalicelib.errors import AttemptTakenError, DamagedLogError, ObjectNotFoundError, PreconditionFailedError
from chalicelib.ports import ABSENT, Clock, ObjectStore, PutOptions, Run, RunStart
from chalicelib.runlog.conflicts import put_retrying_conflicts
from chalicelib.runlog.layout import ATTEMPT_MARK, Layout, checked_run
from chalicelib.runlog.log_end import LogEnd
from chalicelib.runlog.zone import ZONE, settled_zone

if TYPE_CHECKING:
    from chalicelib.runlog.writer import Writer

MAX_ATTEMPTS = 1000
"""Per run id: one LIST returns them all."""
_RECENT = 20
"""Number of attempts, from the highest number down, whose starts are read to find the running ones and a repeated start."""
_MAX_READ = 100
"""Upper bound of the starts read for it, including those of runs whose names only look like attempts."""
_MAX_PAGES = 10
"""Upper bound of LIST pages, of 1,000 run ids that begin like an attempt's."""
_JSON = PutOptions(content_type="application/json")


@dataclass(frozen=True, slots=True)
class StartRequest:
    """``start_id``: unique to the starting process. ``number``: the attempt to start; None: the next free one. ``age_ms``: time since the
    command began, measured by the client, so that a wrong clock does no harm. ``is_joining``: a running attempt is joined. ``heartbeat_s``
    and ``zone``: see ``RunStart``."""

    start_id: str
    host: str = ""
    command: str = ""
    age_ms: int = 0
    number: int | None = None
    is_joining: bool = False
    heartbeat_s: int = 0
    zone: str = ""


@dataclass(frozen=True, slots=True)
class Attempt:
    """A started attempt: the run that stores its log, and the position of its first batch. ``is_joined``: another process started it."""

    run: Run
    start: RunStart
    position: str
    is_joined: bool = False


class Attempts:
    """Starts attempts. Stateless."""

    def __init__(self, store: ObjectStore, layout: Layout, writer: Writer, clock: Clock) -> None:
        self._store, self._layout, self._writer, self._clock = store, layout, writer, clock

    def start(self, run: Run, request: StartRequest) -> Attempt:
        """Start an attempt of a run: the run itself while it is open and has no other start, else the next free attempt. A writer that joins
        gets the running attempt with the highest number, and starts one only if none is running.

        Requests: a query, one or two LISTs and a PUT for the first attempt. A later one adds a LIST (up to 10 if thousands of run ids begin
        with this one and ``~``), a GET for each of the newest 20 attempts and for other runs with such ids (at most 100 in total), and a PUT.
        A writer that joins also makes a query, a LIST and at most one HEAD for each attempt down to the one that is running, of the newest
        20 and the first, and a PUT only if no attempt has a line. S3 decides what is running; the catalog, which may lag, does not.
        Idempotent for the same ``start_id``. Raises AttemptTakenError (the requested number is taken, or there are ``MAX_ATTEMPTS``),
        OtherZoneError (the attempt has another zone than the request), InvalidNameError, UnavailableError (outcome unknown: repeat it).
        """
        self._layout.check_new(run)
        if request.number is not None:
            return self._take_number(run, request, request.number)
        if not request.is_joining and (attempt := self._take(run, self._start_of(run, request, 1), self._writer.tails.find(run))):
            return attempt
        stored = read_start(self._store, self._layout, run)
        first = replace(run, run_id=stored.first_run_id) if stored else run
        named = self._named_alike(first)
        attempts = self._starts(first, named)
        for each in (*attempts, *([stored] if stored else [])):
            if each.start_id == request.start_id:
                own = _attempt_run(first, each.attempt)
                return self._started(own, each, self._writer.tails.find(own), request.zone)
        if request.is_joining and (joined := self._join_newest(first, attempts, request)):
            return joined
        newest = attempts[0].attempt if attempts else 1
        return self._take_next(first, request, newest, named)

    def _join_newest(self, first: Run, later: Sequence[RunStart], request: StartRequest) -> Attempt | None:
        """The first running attempt of ``later`` (descending), else attempt 1: joined while it is running, started if it does not exist."""
        for each in later:
            run = _attempt_run(first, each.attempt)
            if not (tail := self._writer.tails.find(run)).seal:
                return self._joined(run, each, request, tail)
        tail = self._writer.tails.find(first)
        if tail.seal:
            return None
        attempt = None if tail.exists else self._take(first, self._start_of(first, request, 1), tail)
        return attempt or self._joined(first, read_start(self._store, self._layout, first), request, tail)

    def _take_next(self, first: Run, request: StartRequest, newest: int, named: _NamedAlike) -> Attempt:
        """Start the first free number after the newest attempt, else the lowest free one."""
        for number in (*range(newest + 1, MAX_ATTEMPTS + 1), *range(2, newest)):
            if number in named.numbers:
                continue
            attempt_run = _attempt_run(first, number)
            self._layout.check_new(attempt_run)
            tail = LogEnd() if named.are_all else self._writer.tails.find(attempt_run)
            attempt = self._take(attempt_run, self._start_of(first, request, number), tail)
            if attempt is None and request.is_joining:
                attempt = self._join(first, number, request)
            if attempt:
                return attempt
        raise AttemptTakenError(f"a run has at most {MAX_ATTEMPTS} attempts run={first.fqn}/{first.run_id}")

    def _take_number(self, run: Run, request: StartRequest, number: int) -> Attempt:
        attempt_run = _attempt_run(run, number)
        self._layout.check_new(attempt_run)
        attempt = self._take(attempt_run, self._start_of(run, request, number), self._writer.tails.find(attempt_run))
        if attempt is None:
            raise AttemptTakenError(f"the attempt is taken: omit the number to start the next free one attempt={number}")
        return attempt

    def _take(self, run: Run, start: RunStart, tail: LogEnd) -> Attempt | None:
        """The attempt, if no other process started it and its log is open. The log of a later attempt must be empty, else it is another run."""
        if not tail.seal and (start.attempt == 1 or not tail.exists):
            if tail.exists and start.zone not in ("", tail.zone) and read_start(self._store, self._layout, run) is None:
                settled_zone(start.zone, tail.zone, is_settled=True)
            options = replace(_JSON, metadata={ZONE: start.zone} if start.zone else {})
            try:
                put_retrying_conflicts(self._store, self._layout.start(run), json.dumps(_document(start)).encode(), options, ABSENT)
                return self._started(run, start, tail, start.zone)
            except PreconditionFailedError:
                pass
        return self._own(run, start, tail)

    def _join(self, first: Run, number: int, request: StartRequest) -> Attempt | None:
        """The attempt, if it belongs to this run and its log is open."""
        run = _attempt_run(first, number)
        stored = read_start(self._store, self._layout, run)
        if number > 1 and (stored is None or stored.first_run_id != first.run_id):
            return None
        tail = self._writer.tails.find(run)
        return None if tail.seal else self._joined(run, stored, request, tail)

    def _joined(self, run: Run, stored: RunStart | None, request: StartRequest, tail: LogEnd) -> Attempt:
        return self._started(run, stored or self._start_of(run, replace(request, zone=""), 1), tail, request.zone, is_joined=True)

    def _started(self, run: Run, start: RunStart, tail: LogEnd, stated: str, *, is_joined: bool = False) -> Attempt:
        """An attempt whose start is stored, or which began without one. Raises OtherZoneError."""
        known = tail.zone if tail.exists else start.zone
        zone = settled_zone(stated, known, is_settled=tail.exists)
        return Attempt(run, start, self._writer.position_at(run, replace(tail, zone=zone)), is_joined)

    def _own(self, run: Run, start: RunStart, tail: LogEnd) -> Attempt | None:
        """The attempt, if this very start created it."""
        stored = read_start(self._store, self._layout, run)
        if stored is None or (stored.start_id, stored.first_run_id) != (start.start_id, start.first_run_id):
            return None
        return self._started(run, stored, tail, start.zone)

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
            zone=request.zone,
        )

    def _named_alike(self, first: Run) -> _NamedAlike:
        """Attempt numbers in the names of existing runs, whether or not these are attempts."""
        prefix, numbers, start_after = self._layout.later_attempts(first), set[int](), ""
        mark = prefix.rpartition("/")[2]
        for _ in range(_MAX_PAGES):
            page = self._store.list_folders(prefix, start_after=start_after)
            numbers |= {number for name in page.names if (number := _number_of(name.removeprefix(mark)))}
            if page.start_after is None:
                return _NamedAlike(numbers, are_all=True)
            start_after = page.start_after
        return _NamedAlike(numbers, are_all=False)

    def _starts(self, first: Run, named: _NamedAlike) -> list[RunStart]:
        """Starts of the later attempts, descending, at most ``_RECENT``."""
        starts: list[RunStart] = []
        for number in sorted(named.numbers, reverse=True)[:_MAX_READ]:
            stored = read_start(self._store, self._layout, _attempt_run(first, number))
            if stored is not None and stored.first_run_id == first.run_id:
                starts.append(stored)
            if len(starts) == _RECENT:
                break
        return starts


@dataclass(frozen=True, slots=True)
class _NamedAlike:
    """``are_all``: the listing is complete."""

    numbers: AbstractSet[int]
    are_all: bool


def read_start(store: ObjectStore, layout: Layout, run: Run) -> RunStart | None:
    """The start of a run; None if it has none, like the runs of OpenMetadata's connectors. One GET. Raises DamagedLogError."""
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
            heartbeat_s=int(document["heartbeatS"]),
            zone=str(document.get("zone", "")),
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
        "zone": start.zone,
    }


def _attempt_run(first: Run, number: int) -> Run:
    """The run that stores an attempt. Raises InvalidNameError."""
    return first if number == 1 else checked_run(first.fqn, f"{first.run_id}{ATTEMPT_MARK}{number}")


def _number_of(digits: str) -> int:
    """The attempt number after the mark in a run id; 0 if it is no valid number."""
    is_number = digits.isascii() and digits.isdecimal() and not digits.startswith("0") and len(digits) <= len(str(MAX_ATTEMPTS))
    return int(digits) if is_number and 1 < int(digits) <= MAX_ATTEMPTS else 0
