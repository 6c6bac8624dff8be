"""How a run ended whose client does not report it: what was stated of its steps, or what its log states at its end."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass

from chalicelib.errors import DamagedLogError, ObjectNotFoundError, RangeNotSatisfiableError, UnavailableError
from chalicelib.ports import FAILED, UNKNOWN, ObjectStore, Run, RunEnd
from chalicelib.runlog.attempts import read_start
from chalicelib.runlog.layout import Layout
from chalicelib.runlog.log_end import LogEnd, LogEndFinder

MAX_BYTES = 64 * 1024
MAX_SEGMENTS = 4
"""A workflow writes its summary at once, but its client may cut it anywhere, and sends its own counts separately."""


@dataclass(frozen=True, slots=True)
class RunEndFinder:
    """``failed_step``: the step of a run that is stated as failed, empty if there is none; one query. ``stated_by_event``: what an event of the
    segment with a number states; one GET. It may raise ObjectNotFoundError."""

    store: ObjectStore
    layout: Layout
    failed_step: Callable[[Run], str]
    stated_by_event: Callable[[Run, int], RunEnd | None] = lambda _, __: None

    def find(self, run: Run, tail: LogEnd) -> RunEnd | None:
        """The end of a log whose next segment goes to ``tail``; None where nothing states it, or where a store is unavailable: the close is not
        to fail because of it. A query and a GET; where the last segment may be the end of a workflow's log, a GET for each of three segments more,
        and another one for each of the four that is larger than ``MAX_BYTES``; where it is made of events, a GET for each of four companions. It
        holds for the log up to ``tail`` only: if something else takes that number, find it again."""
        with suppress(UnavailableError):
            if step := self.failed_step(run):
                return RunEnd(FAILED, step=step)
        with suppress(UnavailableError):
            return self._stated_end(run, tail.sequence)
        return None

    def find_abandoned(self, run: Run, tail: LogEnd) -> RunEnd | None:
        """The same of a log that the sweep seals, but ``unknown`` where nobody was to close it: a client that sends events, or
        batches with idempotency keys, and registers no start, as log agents, never does. None: the run is lost. A GET and a HEAD more."""
        if end := self.find(run, tail):
            return end
        with suppress(UnavailableError, ObjectNotFoundError):
            is_started = read_start(self.store, self.layout, run) is not None
            last = self.store.head(self.layout.segment(run, tail.sequence - 1))
            entry = LogEndFinder.entry(tail.sequence - 1, last)
            if not is_started and (entry.is_keyed or entry.events):
                return RunEnd(UNKNOWN)
        return None

    def _stated_end(self, run: Run, sequence: int) -> RunEnd | None:
        # Here, for the other operations do without.
        from chalicelib.lines.workflow_summary import may_state_end, stated_end

        if not sequence:
            return None
        numbers = range(sequence - 1, max(sequence - MAX_SEGMENTS, 0) - 1, -1)
        body, has_events = self._last_bytes(run, numbers[0], MAX_BYTES)
        if has_events and (end := self._end_of_events(run, numbers)):
            return end
        if not may_state_end(_text(body)):
            return None
        part = body
        for number in numbers[1:]:
            if not part or len(body) >= MAX_BYTES:
                break
            part, _ = self._last_bytes(run, number, MAX_BYTES - len(body))
            body = part + body
        return stated_end(_text(body))

    def _end_of_events(self, run: Run, numbers: Iterable[int]) -> RunEnd | None:
        for number in numbers:
            with suppress(ObjectNotFoundError, DamagedLogError):  # it is made of lines, or its companion is still to come
                if end := self.stated_by_event(run, number):
                    return end
        return None

    def _last_bytes(self, run: Run, number: int, limit: int) -> tuple[bytes, bool]:
        """Of a segment, and whether it is made of events. Empty where it is gone into an artifact, or is a seal."""
        key = self.layout.segment(run, number)
        try:
            stored = self.store.get(key, 0, limit)
            size, has_events = stored.info.size, "events" in stored.info.metadata
            return stored.body if size <= limit else self.store.get(key, size - limit, size).body, has_events
        except (ObjectNotFoundError, RangeNotSatisfiableError):
            return b"", False


def _text(body: bytes) -> str:
    return body.decode(errors="replace")
