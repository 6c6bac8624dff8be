"""The start of a run, as its client reports it. The archive allocates the attempt, and returns the run that stores its log.

A start has an id. The same start is reported again after a lost response and by each process that belongs to it, and all of them write to
one attempt. ``runlake exec`` passes the id on in ``RUNLAKE_START``, with the names that it is for, and closes the attempt itself: a process
that inherits a start closes no run.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from runlake.errors import SettingsError
from runlake.names import RunName
from runlake.settings import RUN_LOG

MAX_ATTEMPTS = 1000
MAX_MOVES = 20
"""How many attempts one writer tries, before its lines are left on disk: another process closes them all."""
MAX_AGE_MS = 10 * 366 * 86_400_000
"""Of a start: the archive accepts none that is older."""
_HOST_CHARS, _COMMAND_CHARS, _START_CHARS, _HEARTBEAT_DIGITS = 255, 2_000, 200, 5
_FQN, _RUN_ID, _START, _ATTEMPT = "RUNLAKE_FQN", "RUNLAKE_RUN_ID", "RUNLAKE_START", "RUNLAKE_ATTEMPT"
_START_ATTEMPT = "RUNLAKE_START_ATTEMPT"
"""The attempt of the start in RUNLAKE_START. RUNLAKE_ATTEMPT would also apply to other runs that the command starts, so it is empty there."""
_START_METHOD = "RUNLAKE_START_METHOD"
"""The logging method of the start in RUNLAKE_START. Other runs of the command have that of their own settings."""
_START_ZONE = "RUNLAKE_START_ZONE"
"""The zone of the start in RUNLAKE_START."""
_START_HEARTBEAT = "RUNLAKE_START_HEARTBEAT_S"
"""The interval of the heartbeats that ``exec`` sends: the archive keeps the promise of who reports the start first, which may be the command."""


@dataclass(frozen=True)
class Start:
    """``command``: its text, or a function that returns it. ``began_ms``: by this machine's clock. ``attempt``: the number to start, None for the
    next free one. ``is_joining``: an open attempt of another start is acceptable, as for a handler that only writes. ``heartbeat_s``: the interval
    of the heartbeats that this process promises, 0: none; another process that reports this start later sends none. ``began_s``: by the monotonic
    clock, None in another process. ``method``: the logging method, which the archive stores with the attempt."""

    start_id: str
    command: str | Callable[[], str] = ""
    host: str = ""
    began_ms: int = 0
    attempt: int | None = None
    is_joining: bool = False
    heartbeat_s: int = 0
    began_s: float | None = None
    method: str = RUN_LOG

    @classmethod
    def now(
        cls,
        run: RunName,
        command: str | Callable[[], str],
        attempt: int | None = None,
        *,
        is_joining: bool = False,
        heartbeat_s: int = 0,
        method: str = RUN_LOG,
    ) -> Start:
        """A start of this process; in the command of ``runlake exec`` for the same run, that of ``exec`` with its attempt. Raises SettingsError."""
        inherited = inherited_start_id(run)
        host = os.uname().nodename[:_HOST_CHARS]
        asked = _attempt_of_environment(_START_ATTEMPT if inherited else _ATTEMPT)
        number = asked if attempt is None or inherited else checked_attempt(attempt)
        start_id = inherited or new_start_id()
        heartbeat_s = heartbeat_s or (_heartbeat_of_exec() if inherited else 0)
        return cls(start_id, command, host, _now_ms(), number, is_joining, heartbeat_s, time.monotonic(), method)

    def again(self, heartbeat_s: int = 0) -> Start:
        """Another start, for the next free attempt, since that of this start accepts no more lines. It begins now, so that it is the newer one.
        The process that reports it closes the attempt."""
        another = replace(self, start_id=new_start_id(), attempt=None, heartbeat_s=heartbeat_s)
        return replace(another, began_ms=_now_ms(), began_s=time.monotonic())

    def body(self, *, has_details: bool = True) -> dict[str, Any]:
        """The request's body. It has the age, not the time: a wrong clock does no harm. Without details: what selects attempt and method."""
        number = {} if self.attempt is None else {"attempt": self.attempt}
        join = {"join": True} if self.is_joining else {}
        selection = number | join | ({} if self.method == RUN_LOG else {"method": self.method})
        if not has_details:
            return selection
        heartbeat = {"heartbeatS": self.heartbeat_s} if self.heartbeat_s else {}
        return {"host": self.host, "command": self._text(), "ageMs": self._age_ms(), **selection, **heartbeat}

    def environment(self, run: RunName, zone: str = "") -> dict[str, str]:
        """The environment variables that make a child process write to the same attempt, and the child's other runs to their own. ``zone``: of times
        without one in the run's lines."""
        number = "" if self.attempt is None else str(self.attempt)
        of_start = {_START: self.start_id, _START_ATTEMPT: number, _START_METHOD: self.method, _START_ZONE: zone}
        of_start[_START_HEARTBEAT] = str(self.heartbeat_s)
        return environment_of(run) | of_start | {_ATTEMPT: ""}

    def facts(self) -> dict[str, Any]:
        """The JSON for another process."""
        began_ms = _now_ms() - self._age_ms()  # the clock may have changed since
        of_process = {"id": self.start_id, "command": self._text(), "host": self.host, "beganMs": began_ms}
        return of_process | {"attempt": self.attempt, "join": self.is_joining, "method": self.method}

    @classmethod
    def of(cls, facts: Mapping[str, Any]) -> Start:
        """The inverse of ``facts``. Raises LookupError, TypeError."""
        where = (facts["id"], facts["command"], facts["host"])
        return cls(*where, facts["beganMs"], facts["attempt"], facts["join"], method=facts["method"])

    def _text(self) -> str:
        return (self.command if isinstance(self.command, str) else self.command())[:_COMMAND_CHARS]

    def _age_ms(self) -> int:
        """In another process by the wall clock: if that was changed meanwhile, an age of 0 is better than one of decades."""
        age_ms = _now_ms() - self.began_ms if self.began_s is None else int((time.monotonic() - self.began_s) * 1000)
        return plausible_age_ms(age_ms)


@dataclass(frozen=True)
class StartedRun:
    """The response to a start: the run that stores the log, its attempt number, the position of the first batch. ``is_joined``: another start
    opened the attempt. ``refusal``: why the details of the start are not stored. ``instance_id``: the archive's, for the data of events."""

    run: RunName
    attempt: int
    position: str
    is_joined: bool = False
    refusal: str = ""
    instance_id: str = ""

    def __str__(self) -> str:
        return f"{self.run} (attempt {self.attempt})" if self.attempt > 1 else str(self.run)


def environment_of(run: RunName) -> dict[str, str]:
    """The environment variables that make a child process write to the same run."""
    return {_FQN: run.fqn, _RUN_ID: run.run_id}


def plausible_age_ms(age_ms: int) -> int:
    """An age that the archive accepts: 0 instead of one that only a change of the clock explains."""
    return age_ms if 0 <= age_ms <= MAX_AGE_MS else 0


def _now_ms() -> int:
    return int(time.time() * 1000)


def inherited_start_id(run: RunName) -> str | None:
    """The start id that ``runlake exec`` passes on for this run; None if this process is not its command, or the id is invalid."""
    names, start_id = (os.environ.get(_FQN), os.environ.get(_RUN_ID)), os.environ.get(_START, "")
    is_id = 0 < len(start_id) <= _START_CHARS and start_id.isprintable()
    return start_id if is_id and names == (run.fqn, run.run_id) else None


def inherited_method(run: RunName) -> str | None:
    """The logging method of the start that ``runlake exec`` passes on for this run; None if this process is not its command."""
    return os.environ.get(_START_METHOD) if inherited_start_id(run) else None


def inherited_zone(run: RunName) -> str:
    """The zone of the start that ``runlake exec`` passes on for this run; empty: it states none, or this process is not its command."""
    return os.environ.get(_START_ZONE, "") if inherited_start_id(run) else ""


def _heartbeat_of_exec() -> int:
    text = os.environ.get(_START_HEARTBEAT, "")
    return int(text) if text.isascii() and text.isdecimal() and len(text) <= _HEARTBEAT_DIGITS else 0


def new_start_id() -> str:
    """A unique start id."""
    return os.urandom(8).hex()


def checked_attempt(number: int) -> int:
    """The number, if it is valid. Raises SettingsError."""
    if not 1 <= number <= MAX_ATTEMPTS:
        following = "leave it out: the archive takes the next free number"
        raise SettingsError(f"an attempt must be an integer from 1 to {MAX_ATTEMPTS} attempt={number}", next_step=following)
    return number


def _attempt_of_environment(name: str) -> int | None:
    text = os.environ.get(name, "")
    if not text:
        return None
    if not (text.isascii() and text.isdecimal()):
        raise SettingsError(f"{name} must be an integer value={text!r}", next_step=f"correct {name}, or unset it")
    return checked_attempt(int(text))
