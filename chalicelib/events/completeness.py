"""Whether all events of a run are visible (decision 0023).

::

    complete    the run is sealed, every registered writer is closed, and its ids 0 to count - 1 are visible
    lost        cannot become complete: after a grace period ids of a closed writer are missing, or a writer of a
                sealed run is not closed
    pending     neither

All inputs are durable: S3 has the registered and closed writers and the seal, index rows have the visible ids. A row is written
after the events that it makes visible, so a lag of the index can only delay the answer. Of a run in another store the visible ids are
those that its browser reads there (decision 0055).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from chalicelib.deadline import Deadline
from chalicelib.events.index import EventIndex, VisibleIds
from chalicelib.events.ranges import Range, missing, size
from chalicelib.events.writers import WriterRecord, Writers
from chalicelib.ports import Clock, Run
from chalicelib.runlog.log_end import LogEnd, LogEndFinder

COMPLETE, PENDING, LOST = "complete", "pending", "lost"
MAX_WAIT_S = 25.0
POLL_S, ELSEWHERE_POLL_S = 0.5, 5.0
MAX_LISTED_RANGES = 10


ReadVisible = Callable[[], Mapping[str, VisibleIds]]
"""Returns the visible ids of a run's writers, by name."""


@dataclass(frozen=True, slots=True)
class WriterState:
    """``missing``: the first ranges of known ids that are not visible. ``count`` None: the writer is not closed."""

    writer: str
    opened: bool
    closed: bool
    count: int | None
    visible: int
    missing: Sequence[Range]
    last_timestamp_ms: int | None
    lost: bool

    @property
    def complete(self) -> bool:
        """Whether it is closed and all its events are visible."""
        return self.closed and not self.missing


@dataclass(frozen=True, slots=True)
class Completeness:
    """``writers``: by name. ``lost``: the names of writers with missing events or without an end, after the grace period."""

    state: str
    sealed: bool
    writers: Sequence[WriterState]

    @property
    def lost(self) -> list[str]:
        """Names of lost writers."""
        return [each.writer for each in self.writers if each.lost]


class CompletenessWatch:
    """``grace_ms``: how long after a writer's last activity missing events count as pending."""

    def __init__(self, writers: Writers, index: EventIndex, tails: LogEndFinder, clock: Clock, grace_ms: int) -> None:
        self._writers, self._index, self._tails, self._clock, self._grace_ms = writers, index, tails, clock, grace_ms

    def check(self, run: Run, read_visible: ReadVisible | None = None) -> Completeness:
        """The current state. A LIST and a GET for each closed writer; a query, or the requests of ``read_visible`` instead; the requests for the
        end of the log. Raises UnavailableError.

        The seal is read first, then the registered writers, then the visible ids: concurrent changes can only make the result
        pending.
        """
        tail = self._tails.find(run)
        registered = self._writers.all(run)
        visible = read_visible() if read_visible else self._index.visible(run)
        names = sorted(set(registered) | set(visible))
        states = [self._state(name, registered.get(name), visible.get(name), tail) for name in names]
        counted = [each for each in states if each.writer in registered]
        if tail.seal and all(each.complete for each in counted):
            return Completeness(COMPLETE, True, states)
        return Completeness(LOST if any(each.lost for each in states) else PENDING, bool(tail.seal), states)

    def wait(self, run: Run, seconds: float, read_visible: ReadVisible | None = None) -> Completeness:
        """Check twice a second, with ``read_visible`` every 5 s, until the state is not pending, or the time is over."""
        deadline, poll_s = Deadline(self._clock, min(seconds, MAX_WAIT_S)), ELSEWHERE_POLL_S if read_visible else POLL_S
        state = self.check(run, read_visible)
        while state.state == PENDING and deadline.remaining_s() > 0:
            self._clock.sleep(min(poll_s, deadline.remaining_s()))
            state = self.check(run, read_visible)
        return state

    def _state(self, name: str, facts: WriterRecord | None, visible: VisibleIds | None, tail: LogEnd) -> WriterState:
        count = facts.count if facts else None
        last_sign_ms = max(facts.changed_ms if facts else 0, visible.indexed_ms if visible else 0)
        since_ms = max(last_sign_ms, tail.appended_ms if tail.seal and count is None else 0)
        last_ms = facts.last_timestamp_ms if facts and facts.last_timestamp_ms is not None else visible.last_ms if visible else None
        is_due = self._clock.now_ms() - since_ms > self._grace_ms
        state = writer_state(name, count, visible.ranges if visible else (), last_ms, is_due=is_due)
        is_left_open = bool(facts) and bool(tail.seal) and count is None
        return replace(state, opened=bool(facts and facts.opened), lost=state.lost or (is_left_open and is_due))


def writer_state(name: str, count: int | None, ranges: Sequence[Range], last_ms: int | None, *, is_due: bool = True) -> WriterState:
    """The state of a registered writer with its visible ids, as merged ranges. ``count`` None: it is not closed. ``is_due``: ids of a
    closed writer that are missing are lost."""
    known = count if count is not None else (ranges[-1][1] + 1 if ranges else 0)
    lacks = missing(ranges, known)
    return WriterState(
        writer=name,
        opened=True,
        closed=count is not None,
        count=count,
        visible=size(ranges),
        missing=lacks[:MAX_LISTED_RANGES],
        last_timestamp_ms=last_ms,
        lost=is_due and count is not None and bool(lacks),
    )
