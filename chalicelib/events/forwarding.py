"""Sending events on to another system: masked, in batches of its limits, in order, repeated until it takes them.

A forwarder sends one request at a time, and the next batch only when the one before it is settled: each of its events taken, or refused
for good. So events arrive in the order in which they were added, those of one millisecond too. Where the answer to a request is lost it is
repeated: a target that knows an event by its ``uid`` has it once, another one may have it twice; none is left out.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from random import Random

from chalicelib.errors import RequestRefusedError, TargetUnavailableError, UnavailableError
from chalicelib.events.event import Event, Loggable
from chalicelib.events.masking import masked_event
from chalicelib.events.ports import Limits, Refused, Target
from chalicelib.masking.fields import Mask
from chalicelib.ports import Clock

MAX_LISTED_REJECTIONS = 100
"""Refused events that are told one by one; of more there is the count."""


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """How a request is repeated: ``attempts`` in a row that achieve nothing, a pause between them that is drawn from
    0 to ``first_pause_s`` * 2 ** n, at most ``max_pause_s``. What the target asks for itself is the least, up to ``max_retry_after_s``."""

    attempts: int = 8
    first_pause_s: float = 0.5
    max_pause_s: float = 30.0
    max_retry_after_s: float = 120.0


@dataclass(frozen=True, slots=True)
class Rejection:
    """An event that was not taken, and why. ``event`` None: the target does not say which it was."""

    event: Event | None
    reason: str


@dataclass(slots=True)
class ForwardingStats:
    """What became of events so far. ``refused`` counts all, ``rejections`` has the first ``MAX_TOLD`` of them."""

    taken: int = 0
    refused: int = 0
    requests: int = 0
    repeated: int = 0
    masked_secrets: int = 0
    rejections: list[Rejection] = field(default_factory=list)

    @property
    def settled(self) -> int:
        """Events of which nothing is left to do."""
        return self.taken + self.refused

    def refuse(self, event: Event | None, reason: str) -> None:
        """One more that was not taken."""
        self.refused += 1
        if len(self.rejections) < MAX_LISTED_REJECTIONS:
            self.rejections.append(Rejection(event, reason))


class Forwarder:
    """Sends the events of one loggable to one target. Of one thread. Memory: one batch.

    When a target does not take a batch in all its attempts, ``add`` or ``flush`` raises UnavailableError and the batch is kept: ``flush``
    goes on with it, and nothing is left out.
    """

    def __init__(
        self,
        target: Target,
        loggable: Loggable,
        clock: Clock,
        mask: Mask | None = None,
        policy: RetryPolicy | None = None,
        random: Random | None = None,
    ) -> None:
        self._target, self._loggable, self._mask = target, loggable, mask
        self.clock = clock
        self._pause = _Pause(clock, policy or RetryPolicy(), random or Random())
        self._batch = ForwardBatch(target.limits)
        self.added = 0
        """Events that were taken so far, settled or waiting in the batch."""
        self.done = 0
        """So many of the events that were added first are settled, all of them."""
        self.figures = ForwardingStats()

    def add(self, event: Event) -> None:
        """Take an event; sends the batch before it when it does not fit in. Raises UnavailableError: it was not taken, add it again."""
        masked = self._masked(event)
        size = self._target.size(masked)
        if size > self._target.limits.bytes:
            self.flush()
            self.figures.refuse(masked, f"too large bytes={size} limit={self._target.limits.bytes}")
            self.added = self.done = self.added + 1
            return
        if not self._batch.has_room(masked, size):
            self.flush()
        self._batch.add(masked, size)
        self.added += 1

    def flush(self) -> None:
        """Returns when all that was added is settled. Raises UnavailableError: what is not goes with the next flush."""
        together = len(self._batch.events)
        while self._batch.events:
            part = self._batch.events[:together]
            try:
                left = self._account(part, self._sent(part))
            except RequestRefusedError as error:
                together = len(part) // 2
                if together:
                    continue  # one of them spoils it for the others: look for it
                self.figures.refuse(part[0], str(error))
                left = []
            except UnavailableError as error:
                self.figures.repeated += len(part)
                self._pause.after(error)
                continue
            self._batch.events[: len(part)] = left
            together = max(2 * len(part), 1)
            self._wait_for(left, len(part))
        self._batch.clear()
        self.done = self.added

    def close(self) -> None:
        """Flushes, and gives the target's connections back."""
        try:
            self.flush()
        finally:
            self._target.close()

    def _masked(self, event: Event) -> Event:
        if self._mask is None:
            return event
        masked, counts = masked_event(event, self._loggable, self._mask)
        self.figures.masked_secrets += sum(counts.values())
        return masked

    def _wait_for(self, left: Sequence[Event], sent: int) -> None:
        """Before events that the target put off are sent again, in front of the others."""
        if len(left) < sent:
            self._pause.reset()
        if left:
            self.figures.repeated += len(left)
            self._pause.after(TargetUnavailableError(f"a target put events off count={len(left)}"))

    def _sent(self, events: Sequence[Event]) -> Sequence[Refused]:
        self.figures.requests += 1
        return self._target.send(self._loggable, events)

    def _account(self, events: Sequence[Event], refused: Sequence[Refused]) -> list[Event]:
        """Count what was taken and what was refused for good; the others are left."""
        later = {each.index for each in refused if each.retryable}
        final = [each for each in refused if not each.retryable]
        for each in final:
            self.figures.refuse(events[each.index] if each.index >= 0 else None, each.reason)
        self.figures.taken += len(events) - len(later) - len(final)
        return [event for index, event in enumerate(events) if index in later]


class ForwardBatch:
    """Events that fit into one request together."""

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self.events: list[Event] = []
        self._bytes = 0
        self._first_ms = self._last_ms = 0

    def has_room(self, event: Event, size: int) -> bool:
        """Whether an event fits."""
        if not self.events:
            return True
        if len(self.events) >= self._limits.events or self._bytes + size > self._limits.bytes:
            return False
        span_ms = max(self._last_ms, event.timestamp) - min(self._first_ms, event.timestamp)
        return self._limits.span_ms is None or span_ms < self._limits.span_ms

    def add(self, event: Event, size: int) -> None:
        """One more, which fits."""
        self._first_ms = min(self._first_ms, event.timestamp) if self.events else event.timestamp
        self._last_ms = max(self._last_ms, event.timestamp) if self.events else event.timestamp
        self.events.append(event)
        self._bytes += size

    def clear(self) -> None:
        """All of them are settled."""
        self.events = []
        self._bytes = 0


class _Pause:
    """Waits between attempts, longer each time, until there were too many in a row."""

    def __init__(self, clock: Clock, policy: RetryPolicy, random: Random) -> None:
        self._clock, self._policy, self._random = clock, policy, random
        self._failed = 0

    def reset(self) -> None:
        """Something was achieved."""
        self._failed = 0

    def after(self, error: UnavailableError) -> None:
        """Wait. Raises the error when there were as many as there may be; the next ones are counted anew."""
        self._failed += 1
        if self._failed >= self._policy.attempts:
            self._failed = 0
            raise error
        most = min(self._policy.first_pause_s * 2.0 ** (self._failed - 1), self._policy.max_pause_s)
        asked = getattr(error, "retry_after_s", None) or 0.0
        self._clock.sleep(max(self._random.uniform(0, most), min(asked, self._policy.max_retry_after_s)))
