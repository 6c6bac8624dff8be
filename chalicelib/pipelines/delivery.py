"""Delivers events to handlers: routing, retries, dead letters, and disabling a handler that fails too often.

An exception of a handler (``sys.exit`` too) and an error that it caught itself (``handleError``) count for that handler and that
event: other handlers still receive the event. An error is retried at once, ``retries`` times with growing pauses; then the event
is stored under ``_dead/`` and the next one is delivered.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from chalicelib.errors import (
    DeadlineExceededError,
    LeaseError,
    PartitionNotOwnedError,
    RequestRefusedError,
    TargetUnavailableError,
    UnavailableError,
)
from chalicelib.pipelines.budget import ErrorBudget
from chalicelib.pipelines.configuration import Errors
from chalicelib.pipelines.context import Caught, LoggingContext, Swallowed
from chalicelib.pipelines.dead_letters import DeadLetters
from chalicelib.ports import Clock

FIRST_PAUSE_S, LONGEST_PAUSE_S = 0.05, 1.0
_FIRST_FLUSH_PAUSE_MS, LONGEST_FLUSH_PAUSE_MS = 500, 30_000
SUSPEND_AFTER_MS = 30_000
"""How long a handler's destination may be unavailable before the handler misses events, so that the others' checkpoints continue."""
OnHandlerDisabled = Callable[[str, str, logging.LogRecord | None], None]
"""Called with a handler, the reason, and the event at which it was disabled."""
OnHandlerSuspended = Callable[[str, str], None]
"""Called with a handler and the reason."""


@dataclass(slots=True)
class Progress:
    """Shared with a watchdog in another thread: the handler that is being called ("" none), and the number of calls. The watchdog
    sets ``is_detached`` once it no longer waits for this thread."""

    calling: str = ""
    calls: int = 0
    is_detached: bool = False

    def note_call(self, handler: str) -> None:
        """A handler is called from now on; "": none."""
        self.calling = handler
        self.calls += 1

    def begin_call(self, handler: str) -> None:
        """As ``note_call``. Raises PartitionNotOwnedError if the watchdog no longer waits: what the thread builds is not used."""
        if self.is_detached:
            raise _detached(handler)
        self.note_call(handler)


@dataclass(slots=True)
class EventDelivery:
    """The delivery of one pipeline, in its one thread. ``receiving``: whether each handler receives events; false once a handler
    is disabled. ``handler_errors``: the limits of handlers that have their own.

    ``on_disabled`` is called for a handler that exceeds its error budget, ``on_suspended`` for one whose destination is
    unavailable (it raises TargetUnavailableError): for ``SUSPEND_AFTER_MS``, or at all when it has no room for an event, at the
    last flush, or if it is ``on_trial`` because it was suspended before."""

    context: LoggingContext
    errors: Errors
    dead: DeadLetters
    clock: Clock
    on_disabled: OnHandlerDisabled
    receiving: dict[str, bool]
    progress: Progress
    on_suspended: OnHandlerSuspended
    on_trial: set[str]
    handler_errors: Mapping[str, Errors] = field(default_factory=dict)
    budget: ErrorBudget = field(init=False)
    failed_flush: set[str] = field(default_factory=set)
    last_error: str = ""
    _pauses_ms: dict[str, int] = field(default_factory=dict)
    _again_ms: dict[str, int] = field(default_factory=dict)
    _unavailable_ms: dict[str, int] = field(default_factory=dict)
    _waiting: set[str] = field(default_factory=set)

    def __post_init__(self) -> None:
        self.budget = ErrorBudget(self.errors, self.handler_errors)

    def deliver(self, record: logging.LogRecord, already_received: Callable[[str], bool] | None, now_ms: int) -> None:
        """Deliver one event to the handlers of its route. ``already_received``: whether a handler has received it. Raises
        UnavailableError if the event could not be stored as a dead letter: then deliver it again."""
        context = self.context
        route = context.route(record.name, now_ms)
        level = record.levelno
        if level < route.level:
            return
        if route.logger.filters and not self._passes(route.logger, record):
            return
        receiving, progress, swallowed = self.receiving, self.progress, context.swallowed
        for name, handler in route.handlers:
            try:  # a handler may set its level to anything
                if not receiving[name] or level < handler.level or (already_received is not None and already_received(name)):
                    continue
                progress.calling = name
                progress.calls += 1
                handler.handle(record)
            except LeaseError:
                raise  # from a handler that checks its fence
            except TargetUnavailableError as error:
                self._suspend(name, error)
            except Caught as error:
                self._retry(name, handler, record, error)
            if swallowed:
                self._retry_swallowed()
            if progress.is_detached:
                raise _detached(name)
        progress.calling = ""

    def receives(self, name: str) -> bool:
        """Whether a handler receives events, itself or from the handler that forwards to it."""
        return name in self.context.handlers and self.receiving.get(self.context.owner_of(name), False)

    def redeliver(self, name: str, record: logging.LogRecord) -> BaseException | None:
        """Deliver an event to one handler that receives events, once. Returns its error, which is counted. Raises LeaseError."""
        return self._call(name, lambda: self._attempt(name, self.context.handlers[name], record), record)

    def call(self, name: str, method: Callable[[str], None], argument: str) -> bool:
        """Call another method of a handler. Returns whether it succeeded; an error is counted. Raises LeaseError."""

        def attempt() -> BaseException | None:
            try:
                method(argument)
            except LeaseError:
                raise
            except Caught as error:
                return error
            return None

        return self._call(name, attempt, None) is None

    def _call(
        self, name: str, attempt: Callable[[], BaseException | None], record: logging.LogRecord | None
    ) -> BaseException | None:
        """Call one handler, watched, and count the error that ``attempt`` returns."""
        self.progress.note_call(name)
        error = attempt()
        if self.progress.is_detached:
            raise _detached(name)
        self.progress.calling = ""
        if error is not None:
            self._count(self.context.owner_of(name), error, record)
        return error

    def flush(self, *, at_once: bool = False) -> bool:
        """Flush the handlers that receive events. Returns whether all succeeded: if not, no checkpoint may be committed. A
        handler that failed is flushed again with growing pauses, or ``at_once``. Raises LeaseError, UnavailableError as
        ``deliver``."""
        now_ms = self.clock.now_ms()
        for name in list(self.receiving):
            if not self.receiving.get(name) or (not at_once and self._again_ms.get(name, 0) > now_ms):
                continue
            self.progress.note_call(name)
            try:
                self.context.handlers[name].flush()
            except LeaseError:
                raise
            except Caught as error:
                if self._is_unavailable(name, error, now_ms, at_once=at_once):
                    self._suspend(name, error)
                    continue
                self.failed_flush.add(name)
                self._note_waiting(name, error)
                self._pauses_ms[name] = min(2 * self._pauses_ms.get(name, _FIRST_FLUSH_PAUSE_MS), LONGEST_FLUSH_PAUSE_MS)
                self._again_ms[name] = now_ms + self._pauses_ms[name]
                self._count(name, error, None)
            else:
                self.failed_flush.discard(name)
                self._pauses_ms.pop(name, None)
                self._again_ms.pop(name, None)
                self._unavailable_ms.pop(name, None)
                self._waiting.discard(name)
            if self.context.swallowed:
                self._retry_swallowed()
        self.progress.calling = ""
        self.failed_flush = {name for name in self.failed_flush if self.receiving.get(name)}
        return not self.failed_flush

    @property
    def is_waiting(self) -> bool:
        """Whether a destination is expected to accept the rest of a handler's events soon."""
        return bool(self._waiting)

    def _note_waiting(self, name: str, error: BaseException) -> None:
        if isinstance(error, TargetUnavailableError | DeadlineExceededError):
            self._waiting.add(name)
        else:
            self._waiting.discard(name)

    def _is_unavailable(self, name: str, error: BaseException, now_ms: int, *, at_once: bool) -> bool:
        """Whether to suspend a handler whose flush failed."""
        if not isinstance(error, TargetUnavailableError):
            self._unavailable_ms.pop(name, None)
            return False
        since_ms = self._unavailable_ms.setdefault(name, now_ms)
        return at_once or name in self.on_trial or now_ms - since_ms >= SUSPEND_AFTER_MS

    def _suspend(self, name: str, error: BaseException) -> None:
        self.last_error = _described(error)
        self._stop(name)
        self.on_suspended(name, self.last_error)

    def _stop(self, name: str) -> None:
        self.receiving[name] = False
        self.failed_flush.discard(name)
        self._waiting.discard(name)

    def count_error(self, name: str, error: BaseException) -> None:
        """Count an error of a handler that belongs to no event."""
        self._count(name, error, None)

    def _passes(self, logger: logging.Logger, record: logging.LogRecord) -> bool:
        try:
            return bool(logger.filter(record))
        except Caught as error:
            self.dead.put(f"filters of {logger.name}", record, error, 1)
            self.last_error = _described(error)
            return False

    def _retry(self, name: str, handler: logging.Handler, record: logging.LogRecord, error: BaseException) -> None:
        """Retry an event that a handler failed to process, then store it as a dead letter; at once if its destination refuses
        it."""
        owner = self.context.owner_of(name)
        if isinstance(error, RequestRefusedError):
            if self._count(owner, error, record):
                self.dead.put(name, record, error, 1)
            return
        pause_s = FIRST_PAUSE_S
        for _ in range(self.errors.retries):
            if not self._count(owner, error, record):
                return
            self.clock.sleep(pause_s)
            pause_s = min(2 * pause_s, LONGEST_PAUSE_S)
            self.progress.calls += 1
            again = self._attempt(name, handler, record)
            if again is None:
                return
            error = again
        if self._count(owner, error, record):
            self.dead.put(name, record, error, self.errors.retries + 1)

    def _attempt(self, name: str, handler: logging.Handler, record: logging.LogRecord) -> BaseException | None:
        """One more attempt; returns its error, swallowed or raised."""
        swallowed = self.context.swallowed
        before = len(swallowed)
        try:
            handler.handle(record)
        except LeaseError:
            raise
        except Caught as error:
            return error
        for at in range(before, len(swallowed)):
            if swallowed[at].handler == name and swallowed[at].record is record:
                return swallowed.pop(at).error
        return None

    def _retry_swallowed(self) -> None:
        """Handle the errors that were passed to ``handleError``, also by handlers that other handlers forward to, each with its
        own event."""
        swallowed = self.context.swallowed
        waiting: list[Swallowed] = []
        while swallowed:
            waiting.append(swallowed.pop(0))
        try:
            while waiting:
                first = waiting[0]
                self._retry(first.handler, self.context.handlers[first.handler], first.record, first.error)
                waiting.pop(0)
        except UnavailableError:
            swallowed.extend(waiting)  # not stored as dead letters yet
            raise
        for each in swallowed:  # of other events, raised during the retries
            self._count(self.context.owner_of(each.handler), each.error, each.record)
            self.dead.put(each.handler, each.record, each.error, 1)
        swallowed.clear()

    def _count(self, name: str, error: BaseException, record: logging.LogRecord | None) -> bool:
        """Count an error. Returns whether the handler still receives events."""
        self.last_error = _described(error)
        if not self.receiving.get(name):
            return False
        if self.budget.spend(name, self.clock.now_ms()):
            self._stop(name)
            self.on_disabled(name, self.last_error, record)
            return False
        return True


def _detached(handler: str) -> PartitionNotOwnedError:
    return PartitionNotOwnedError(f"the supervisor no longer waits for this thread handler={handler}")


def _described(error: BaseException) -> str:
    return f"{type(error).__name__}: {error}"[:500]
