"""Forwards events to another system: in batches within the target's limits, in order, retried until it accepts them.

A forwarder sends one request at a time, and the next batch only after each event of the current one is accepted or finally refused.
So events arrive in the order in which they were added, also those of the same millisecond. If the response to a request is lost,
the request is repeated: a target that recognizes an event by its ``uid`` stores it once, another one may store it twice; no event
is skipped.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from math import inf
from random import Random

from chalicelib.deadline import Deadline
from chalicelib.errors import DeadlineExceededError, RequestRefusedError, TargetUnavailableError, UnavailableError
from chalicelib.events.event import LOGGABLE_ID, Event, Loggable, WriterEndEvent, complete_data
from chalicelib.events.ports import Limits, Refused, Target
from chalicelib.ports import Clock

MAX_LISTED_REJECTIONS = 100
"""Refused events that are listed; further ones are only counted."""


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """Retries of a request: ``attempts`` consecutive failures at most, after each a random pause from 0 to ``first_pause_s`` * 2 **
    n, capped at ``max_pause_s``. A target's own ``Retry-After`` is the minimum, up to ``max_retry_after_s``. A flush sends no
    further request after ``max_s``."""

    attempts: int = 8
    first_pause_s: float = 0.5
    max_pause_s: float = 30.0
    max_retry_after_s: float = 120.0
    max_s: float = inf


@dataclass(frozen=True, slots=True)
class Rejection:
    """An event that was finally refused, and the reason. ``event`` None: the target does not say which it was."""

    event: Event | None
    reason: str


OnRejected = Callable[[Rejection, Sequence[Event]], None]
"""Called for each event that is finally refused, with the events of its request."""


@dataclass(slots=True)
class ForwardingStats:
    """Counts of events so far. ``refused`` counts all, ``rejections`` lists the first ``MAX_LISTED_REJECTIONS``."""

    taken: int = 0
    refused: int = 0
    requests: int = 0
    repeated: int = 0
    rejections: list[Rejection] = field(default_factory=list)

    @property
    def settled(self) -> int:
        """Events that are accepted or finally refused."""
        return self.taken + self.refused

    def refuse(self, event: Event | None, reason: str) -> None:
        """Count one refused event."""
        self.refused += 1
        if len(self.rejections) < MAX_LISTED_REJECTIONS:
            self.rejections.append(Rejection(event, reason))


class Forwarder:
    """Sends the events of one loggable to one target, or of several whose events have their mandatory data if the target's
    requests are not ``per_run``. Not thread-safe. Memory: one batch. ``limits``: smaller ones than the target's.

    If a target does not accept a batch in all attempts, ``add`` or ``flush`` raises UnavailableError and keeps the batch: the next
    ``flush`` continues with it, and no event is skipped.
    """

    def __init__(
        self,
        target: Target,
        loggable: Loggable,
        clock: Clock,
        policy: RetryPolicy | None = None,
        random: Random | None = None,
        *,
        limits: Limits | None = None,
        on_rejected: OnRejected | None = None,
    ) -> None:
        self._target, self._loggable = target, loggable
        self.clock, self._policy, self._on_rejected = clock, policy or RetryPolicy(), on_rejected
        self._pause = _Pause(clock, self._policy, random or Random())
        self._batch = ForwardBatch(limits or target.limits)
        self._together: int | None = None  # events of the next request, while one that fails requests is looked for
        self.added = 0
        """Events that were added so far, settled or waiting in the batch."""
        self.done = 0
        """The number of events, in the order added, up to which all are settled."""
        self.figures = ForwardingStats()

    def add(self, event: Event) -> None:
        """Add an event; sends the batch first if the event does not fit. Raises UnavailableError: the event was not added, add it
        again."""
        if LOGGABLE_ID not in event.data:  # a plain line: its id is unique only within the run
            event = event.model_copy(update={"data": complete_data(event.data, self._loggable, None)})
        size = self._target.size(event)
        if size > self._target.limits.bytes:
            self.flush()
            self._refuse(event, f"too large bytes={size} limit={self._target.limits.bytes}", [event])
            self.added = self.done = self.added + 1
            return
        if not self._batch.has_room(event, size):
            self.flush()
        self._batch.add(event, size)
        self.added += 1

    def end(self, end: WriterEndEvent) -> None:
        """Add the record of the writer's end, which is sent like an event. Raises UnavailableError as ``add`` does."""
        self.add(end)

    @property
    def waiting_bytes(self) -> int:
        """The size of the events that are not settled, as requests count it; those of a partly settled batch count all."""
        return self._batch.bytes

    def flush(self) -> None:
        """Returns when all added events are settled. Raises UnavailableError: the rest is sent by the next flush;
        DeadlineExceededError if the policy's time was over after some were settled or a request was refused: the next flush begins
        with the events that this one would have sent next, so that any number of short ones finds an event that is refused."""
        deadline, progress = Deadline(self.clock, self._policy.max_s), 0
        while self._batch.events:
            if progress and deadline.remaining_s() <= 0:
                raise DeadlineExceededError(f"the target answers slowly waiting={len(self._batch.events)}")
            part = self._batch.events[: self._together]
            try:
                left = self._account(part, self._sent(part))
            except RequestRefusedError as error:
                if len(part) > 1:  # bisect: one event may fail the request for all
                    self._together = len(part) // 2
                    progress += 1
                    continue
                self._refuse(part[0], str(error), part)
                left = []
            except UnavailableError as error:
                self.figures.repeated += len(part)
                if deadline.remaining_s() > 0:
                    self._pause.after(error)
                elif not progress:
                    self._pause.reset()
                    raise
                continue
            self._batch.events[: len(part)] = left
            progress += len(part) - len(left)
            self._together = 2 * len(part)
            self._wait_for(left, len(part))
        self._batch.clear()
        self._together = None
        self.done = self.added

    def close(self) -> None:
        """Flushes, and closes the target."""
        try:
            self.flush()
        finally:
            self._target.close()

    def _wait_for(self, left: Sequence[Event], sent: int) -> None:
        """Pause before deferred events are sent again, ahead of the others."""
        if len(left) < sent:
            self._pause.reset()
        if left:
            self.figures.repeated += len(left)
            self._pause.after(TargetUnavailableError(f"the target deferred events count={len(left)}"))

    def _sent(self, events: Sequence[Event]) -> Sequence[Refused]:
        self.figures.requests += 1
        return self._target.send(self._loggable, events)

    def _account(self, events: Sequence[Event], refused: Sequence[Refused]) -> list[Event]:
        """Count accepted and finally refused events; returns the retryable ones."""
        later = {each.index for each in refused if each.retryable}
        final = [each for each in refused if not each.retryable]
        for each in final:
            self._refuse(events[each.index] if each.index >= 0 else None, each.reason, events)
        self.figures.taken += len(events) - len(later) - len(final)
        return [event for index, event in enumerate(events) if index in later]

    def _refuse(self, event: Event | None, reason: str, request: Sequence[Event]) -> None:
        self.figures.refuse(event, reason)
        if self._on_rejected is not None:
            self._on_rejected(Rejection(event, reason), request)


class ForwardBatch:
    """Events that fit into one request."""

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self.events: list[Event] = []
        self.bytes = 0
        self._first_ms = self._last_ms = 0

    def has_room(self, event: Event, size: int) -> bool:
        """Whether an event fits."""
        if not self.events:
            return True
        if len(self.events) >= self._limits.events or self.bytes + size > self._limits.bytes:
            return False
        span_ms = max(self._last_ms, event.timestamp) - min(self._first_ms, event.timestamp)
        return self._limits.span_ms is None or span_ms < self._limits.span_ms

    def add(self, event: Event, size: int) -> None:
        """Add an event that fits."""
        self._first_ms = min(self._first_ms, event.timestamp) if self.events else event.timestamp
        self._last_ms = max(self._last_ms, event.timestamp) if self.events else event.timestamp
        self.events.append(event)
        self.bytes += size

    def clear(self) -> None:
        """Remove all events, after they are settled."""
        self.events = []
        self.bytes = 0


class _Pause:
    """Pauses between attempts, exponentially longer, and counts consecutive failures."""

    def __init__(self, clock: Clock, policy: RetryPolicy, random: Random) -> None:
        self._clock, self._policy, self._random = clock, policy, random
        self._failed = 0

    def reset(self) -> None:
        """An attempt made progress."""
        self._failed = 0

    def after(self, error: UnavailableError) -> None:
        """Pause after a failure. Raises the error after the last attempt, and starts counting again."""
        self._failed += 1
        if self._failed >= self._policy.attempts:
            self._failed = 0
            raise error
        most = min(self._policy.first_pause_s * 2.0 ** (self._failed - 1), self._policy.max_pause_s)
        asked = getattr(error, "retry_after_s", None) or 0.0
        self._clock.sleep(max(self._random.uniform(0, most), min(asked, self._policy.max_retry_after_s)))
