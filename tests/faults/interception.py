"""Ports with something in between: every call passes a gate, which decides whether it takes effect, when, and what the caller hears.

A fault is a pair (moment, how). Moments:

- ``BEFORE``: the call is not made.
- ``AFTER``: the call took effect, and its answer is lost.
- ``LATE``: a write whose caller stops waiting; it takes effect right after the next write of whoever goes on.
- ``LATER``: the same, and it takes effect when the test says so (``land``).
- ``THROTTLED``: a read is not answered; writes go through.
- ``CONFLICT``: a conditional write, or a transaction, meets another one at the same key (S3: 409, DynamoDB: TransactionConflict).

How: ``"error"``, an adapter's error, once; ``"outage"``, the same for each later call too; ``"crash"``, the process ends.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from threading import Lock
from typing import Any

from botocore.exceptions import ClientError

from chalicelib.errors import OutcomeUnknownError, RunlakeError, StoreUnavailableError, UnavailableError, WriteConflictError
from chalicelib.ports import ANY, Condition

WRITES = frozenset({
    "put", "delete", "delete_many", "delete_versions", "create_multipart", "upload_part", "copy_part", "complete_multipart", "abort_multipart",
    "put_many", "transact",  # of a Database
    "record_start", "record_segment", "record_compaction", "record_finalization", "record_legacy_artifact",
    "record_heartbeat", "record_explanation", "remove_explanation", "mark_retired", "forget", "mark_deleted",  # of a RunCatalog
    "claim",  # of a SegmentIndex
    "create", "replace",  # of a store of partitions
    "publish",  # of a Publisher
    "post", "put_log_events", "create_log_stream", "create_log_group",  # to a target of events
})  # fmt: skip
CONDITIONAL = frozenset({"put", "complete_multipart"})
BEFORE, AFTER, LATE, LATER, THROTTLED, CONFLICT = "before", "after", "late", "later", "throttled", "conflict"
FAULTS = (
    *((moment, how) for moment in (BEFORE, AFTER, LATE, LATER) for how in ("error", "crash")),
    (BEFORE, "outage"), (THROTTLED, "outage"), (CONFLICT, "error"), (CONFLICT, "outage"),
)  # fmt: skip
"""Every fault that an operation has to survive. A single throttled read is among the errors ``BEFORE`` a call."""


class Crash(BaseException):
    """The process dies here: no handler of the code under test may catch it."""


@dataclass(frozen=True)
class Call:
    """One call of a port, not made yet."""

    method: Callable[..., Any]
    arguments: tuple[Any, ...]
    options: dict[str, Any]

    def __call__(self) -> Any:
        return self.method(*self.arguments, **self.options)


class Intercepted:
    """A port whose calls go through ``gate(operation, call)``: it makes the call when it likes, or raises instead.

    A publisher does not raise: an error of the gate is the answer for each of the messages.
    """

    def __init__(self, inner: Any, gate: Callable[[str, Callable[[], Any]], Any]) -> None:
        self._inner, self._gate = inner, gate

    def __getattr__(self, operation: str) -> Any:
        method = getattr(self._inner, operation)
        if operation.startswith("presign"):  # makes no request
            return method

        def gated(*args: Any, **kwargs: Any) -> Any:
            return self._gate(operation, Call(method, args, kwargs))

        def gated_publish(messages: Any) -> Any:
            try:
                return gated(messages)
            except UnavailableError as error:
                return [error] * len(messages)

        return gated_publish if operation == "publish" else gated


class StopAt:
    """Lets calls through, counts them, and stops at one of them: the ``number``-th of those that the fault can meet.

    ``calls``: every call, by operation. ``fired``: whether there was such a call.
    """

    def __init__(self, number: int, moment: str, how: str) -> None:
        self.calls: list[str] = []
        self.fired = False
        self._number, self._moment, self._how = number, moment, how
        self._candidates = 0
        self._late: Callable[[], Any] | None = None
        self._lock = Lock()

    def __call__(self, operation: str, call: Callable[[], Any]) -> Any:
        if self.fired and self._how == "crash":
            raise Crash(operation)  # a dead process makes no further calls
        if not self._is_due(operation, call):
            return self.successor(operation, call)
        if self._moment in (LATE, LATER):
            self._late = call
        raise failed(operation, call, self._moment, self._how)

    def successor(self, operation: str, call: Callable[[], Any]) -> Any:
        """A gate for whoever goes on after the stop: behind their first write a ``LATE`` one takes effect."""
        try:
            return call()
        finally:
            if self._moment == LATE and operation in WRITES:
                self.land()

    def land(self) -> None:
        """Let a write that is late take effect. Nobody hears its answer."""
        late, self._late = self._late, None
        if late:
            with suppress(RunlakeError, ClientError):
                late()

    @property
    def candidates(self) -> int:
        """How many calls came that a fault of this moment can meet."""
        return self._candidates

    def _is_due(self, operation: str, call: Callable[[], Any]) -> bool:
        with self._lock:  # several threads of a process may call at once
            self.calls.append(operation)
            if not can_meet(operation, call, self._moment):
                return False
            number = self._candidates
            self._candidates += 1
            is_due = number == self._number or (number > self._number and self._how == "outage")
            self.fired = self.fired or is_due
            return is_due


def can_meet(operation: str, call: Callable[[], Any], moment: str) -> bool:
    """Whether a fault of this moment can happen to a call."""
    if moment in (LATE, LATER):
        return operation in WRITES
    if moment == THROTTLED:
        return operation not in WRITES
    if moment == CONFLICT:
        return operation == "transact" or (operation in CONDITIONAL and _is_conditional(call))
    return True


def failed(operation: str, call: Callable[[], Any], moment: str, how: str) -> BaseException:
    """What the caller meets. The call is made first where the fault says so."""
    if moment == AFTER:
        call()
    if how == "crash":
        return Crash(operation)
    if moment == CONFLICT:
        return WriteConflictError(f"injected operation={operation}")
    is_doubtful = moment in (AFTER, LATE, LATER) and operation in WRITES
    return (OutcomeUnknownError if is_doubtful else StoreUnavailableError)(f"injected operation={operation} moment={moment}")


def _is_conditional(call: Callable[[], Any]) -> bool:
    arguments = (*call.arguments, *call.options.values()) if isinstance(call, Call) else ()
    return any(isinstance(each, Condition) and each != ANY for each in arguments)
