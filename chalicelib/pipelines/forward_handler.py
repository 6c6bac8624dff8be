"""The handler that forwards events to another system, with ``events.forwarding``: the pipeline's part of decision 0046.

::

    handlers:
      search:
        class: chalicelib.pipelines.forward_handler.ForwardHandler
        target: {kind: elasticsearch, url: "https://es.example.com:9200", index: logs}   # docs/forwarding.md

``emit`` collects events and sends full batches; ``flush``, which precedes each checkpoint, sends the rest: a checkpoint never passes
an event that the target has not settled. After a crash the events since the last checkpoint are sent again, in order.

Memory: ``MAX_WAITING_BYTES`` and one batch. Time: a flush begins no request after ``POLICY.max_s``, also while it looks for an event
that the target refuses, and a request without a response ends after ``REQUEST_TIMEOUT_S``; ``emit`` repeats flushes for ``EMIT_S``. A
target that does not accept events, or finds no refused one within ``EMIT_S`` when there is no room, raises TargetUnavailableError: the
framework suspends the handler, and the other handlers continue.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

from pydantic import PrivateAttr

from chalicelib.deadline import Deadline
from chalicelib.errors import (
    DeadlineExceededError,
    InvalidConfigurationError,
    RequestRefusedError,
    TargetUnavailableError,
    UnavailableError,
)
from chalicelib.events.event import MAX_TIMESTAMP_MS, Annotation, Event, Loggable, complete_data
from chalicelib.events.forwarding import Forwarder, Rejection, RetryPolicy
from chalicelib.events.ports import Limits, Refused, Target
from chalicelib.events.targets.configuration import target_of
from chalicelib.pipelines.ports import (
    ANNOTATIONS,
    DATA,
    EVENT_ID,
    FQN,
    INSTANCE,
    LEVEL,
    LINE,
    RUN_ID,
    STEP,
    TIME_MS,
    WRITER,
    Fence,
    HandlerContext,
)
from chalicelib.pipelines.records import NO_LOGGER
from chalicelib.pipelines.references import plain
from chalicelib.ports import Clock, Run

REQUEST_TIMEOUT_S = 4.0
POLICY = RetryPolicy(attempts=3, first_pause_s=0.5, max_pause_s=1.0, max_retry_after_s=1.0, max_s=2.0)
"""For failures of a moment: the framework repeats a failed flush with longer pauses."""
BATCH = Limits(events=1_000, bytes=1024 * 1024)
"""Smaller than the targets' limits, so that a slow target answers in time."""
MAX_WAITING_BYTES = 4 * 1024 * 1024
MAX_WAITING_RUNS = 256
"""Of a target whose requests have events of one run each."""
EMIT_S = 12.0
"""A call of ``emit`` begins no flush after this time, so it ends before the supervisor stops waiting for it."""
MAX_WAIT_S = 120.0
"""The most that a target's ``Retry-After`` is honored."""


class ForwardedEvent(Event):
    """An event with its record, for its dead letter."""

    _record: logging.LogRecord = PrivateAttr()


class ForwardHandler(logging.Handler):
    """See the module. ``target``: as in docs/forwarding.md. Raises InvalidConfigurationError, whose message has no values."""

    def __init__(self, target: Mapping[str, Any]) -> None:
        super().__init__()
        self._configuration = target_of(plain(target))
        self._target: _GuardedTarget | None = None
        self._context: HandlerContext | None = None
        self._forwarders: dict[Run | None, Forwarder] = {}
        self._waiting_bytes = 0

    def use(self, context: HandlerContext) -> None:
        """See ``TakesContext``. One request for each of the target's ``headers_from``, none to the target. Raises
        InvalidConfigurationError, UnavailableError."""
        if context.make_target is None:
            raise InvalidConfigurationError("the handler's environment provides no targets")
        self._context = context
        target = context.make_target(self._configuration, REQUEST_TIMEOUT_S)
        self._target = _GuardedTarget(target, context.fence, context.clock)

    def emit(self, record: logging.LogRecord) -> None:
        """Add an event; sends batches first if there is no room. Raises TargetUnavailableError, LeaseError: the event was not
        added."""
        event = self._event(record)
        run = Run(record.__dict__[FQN], record.__dict__[RUN_ID])
        key = run if self._opened.per_run else None
        while self._waiting_bytes > MAX_WAITING_BYTES or len(self._forwarders) > MAX_WAITING_RUNS:
            self._patiently(partial(self._settle, next(iter(self._forwarders))))
        forwarder = self._forwarders.get(key)
        if forwarder is None:
            forwarder = self._forwarders[key] = self._forwarder(run)
        before = forwarder.waiting_bytes
        try:
            self._patiently(partial(forwarder.add, event))
        finally:
            self._waiting_bytes += forwarder.waiting_bytes - before

    def flush(self) -> None:
        """Returns when every event is accepted, or refused and reported to ``handleError``. Raises TargetUnavailableError (the
        target accepts nothing now), DeadlineExceededError (it accepted a part): call it again. Raises LeaseError."""
        if self._context is None:
            return
        deadline = Deadline(self._context.clock, POLICY.max_s)
        for settled, key in enumerate(list(self._forwarders)):
            if settled and deadline.remaining_s() <= 0:
                raise DeadlineExceededError(f"the target takes events slowly waiting_runs={len(self._forwarders)}")
            self._called(partial(self._settle, key))

    def close(self) -> None:
        """See ``logging``. Sends nothing: events that were not flushed are read again from the checkpoint."""
        if self._target is not None:
            self._target.close()
        super().close()

    @property
    def _opened(self) -> _GuardedTarget:
        if self._target is None:
            raise InvalidConfigurationError("a pipeline calls use before it delivers events")
        return self._target

    def _forwarder(self, run: Run) -> Forwarder:
        assert self._context is not None
        limits = self._opened.limits
        most = Limits(min(BATCH.events, limits.events), min(BATCH.bytes, limits.bytes), limits.span_ms)
        loggable = Loggable.of_run(run, self._context.instance_id)
        return Forwarder(self._opened, loggable, self._context.clock, policy=POLICY, limits=most, on_rejected=self._rejected)

    def _settle(self, key: Run | None) -> None:
        forwarder = self._forwarders[key]
        before = forwarder.waiting_bytes
        try:
            forwarder.flush()
        finally:
            self._waiting_bytes += forwarder.waiting_bytes - before
        del self._forwarders[key]

    def _patiently(self, call: Callable[[], None]) -> None:
        """Repeats a call while the target makes progress, for ``EMIT_S`` at most: there is no room for another event."""
        assert self._context is not None
        deadline = Deadline(self._context.clock, EMIT_S)
        while True:
            try:
                return self._called(call)
            except DeadlineExceededError as error:
                if deadline.remaining_s() <= 0:
                    raise TargetUnavailableError(str(error)) from error

    def _called(self, call: Callable[[], None]) -> None:
        """Calls the forwarder. A lost response is an unavailable target, too: the batch is sent again."""
        try:
            call()
        except (DeadlineExceededError, TargetUnavailableError):
            raise
        except UnavailableError as error:
            raise TargetUnavailableError(str(error)) from error

    def _event(self, record: logging.LogRecord) -> ForwardedEvent:
        """The event, as the API has it. Of a plain line: the parsed message, and its logger in the data."""
        assert self._context is not None
        of = record.__dict__
        loggable = Loggable.of_run(Run(of[FQN], of[RUN_ID]), of[INSTANCE] or self._context.instance_id)
        data = of[DATA] if of[INSTANCE] or record.name == NO_LOGGER else {"logger": record.name}
        event = ForwardedEvent.model_construct(
            id=of[EVENT_ID],
            message=str(record.msg),
            timestamp=min(max(of[TIME_MS], 0), MAX_TIMESTAMP_MS),
            data=complete_data(data, loggable, of[STEP] or None),
            annotations=tuple(Annotation.model_validate(dict(each)) for each in of[ANNOTATIONS]),
            level=of[LEVEL],
            writer=of[WRITER],
        )
        event._record = record
        return event

    def _rejected(self, rejection: Rejection, request: Sequence[Event]) -> None:
        """Report a refused event, for its dead letter. If the target does not say which event it was, the report is of the
        request's first one, and its reason names the request. A reader of the letter may read only its pipeline: if the request has
        events of others, the target's answer, which may quote any of them, is left out."""
        event, reason = rejection.event or request[0], rejection.reason
        assert isinstance(event, ForwardedEvent)
        if rejection.event is None:
            records = [each._record for each in request if isinstance(each, ForwardedEvent)]
            is_of_one = len({each.__dict__[FQN] for each in records}) == 1
            rest = f"to {_place(records[-1])}, {reason}" if is_of_one else "of several pipelines, rejected"
            reason = f"one of {len(request)} events, {rest}"
        try:
            raise RequestRefusedError(reason)
        except RequestRefusedError:
            self.handleError(event._record)


class _GuardedTarget:
    """A target that is sent nothing once the worker has lost its lease, when another worker sends the same events, and nothing
    before the time that it asks for by ``Retry-After``."""

    def __init__(self, target: Target, fence: Fence, clock: Clock) -> None:
        self._target, self._fence, self._clock, self._not_before_ms = target, fence, clock, 0
        self.limits, self.per_run = target.limits, target.per_run

    def size(self, event: Event) -> int:
        """See ``Target``."""
        return self._target.size(event)

    def send(self, loggable: Loggable, events: Sequence[Event]) -> Sequence[Refused]:
        """See ``Target``. Raises LeaseError."""
        self._fence()
        if self._clock.now_ms() < self._not_before_ms:
            raise TargetUnavailableError("the target asked to wait")
        try:
            return self._target.send(loggable, events)
        except TargetUnavailableError as error:
            self._not_before_ms = self._clock.now_ms() + int(min(error.retry_after_s or 0.0, MAX_WAIT_S) * 1000)
            raise

    def close(self) -> None:
        """See ``Target``."""
        self._target.close()


def _place(record: logging.LogRecord) -> str:
    return f"{record.__dict__[FQN]}/{record.__dict__[RUN_ID]} line {record.__dict__[LINE]}"
