"""Finds out how a run ended if its client does not report it: from the states of its steps, or from the end of its log."""

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
"""A workflow writes its summary at once, but its client may split it anywhere, and sends its own counts separately."""


@dataclass(frozen=True, slots=True)
class RunEndFinder:
    """``failed_step``: the step of a run with status ``failed``, empty if there is none; one query. ``stated_by_event``: the end that an event
    in the segment with a number states; one GET, may raise ObjectNotFoundError."""

    store: ObjectStore
    layout: Layout
    failed_step: Callable[[Run], str]
    stated_by_event: Callable[[Run, int], RunEnd | None] = lambda _, __: None

    def find(self, run: Run, tail: LogEnd) -> RunEnd | None:
        """The end of a run whose next segment goes to ``tail``; None if nothing states it, or if a store is unavailable, so that the close does
        not fail. Requests: a query and a GET; if the last segment may be the end of a workflow's log, a GET for each of three more segments, and
        another one for each of the four that is larger than ``MAX_BYTES``; if it consists of events, a GET for each of four sidecars. The
        result is valid for the log up to ``tail`` only: if another write takes that number, find it again."""
        with suppress(UnavailableError):
            if step := self.failed_step(run):
                return RunEnd(FAILED, step=step)
        with suppress(UnavailableError):
            return self._stated_end(run, tail.sequence)
        return None

    def find_abandoned(self, run: Run, tail: LogEnd) -> RunEnd | None:
        """Like ``find``, for a log that the sweep seals. The outcome is ``unknown`` if no client was expected to close the run: log agents send
        events, or batches with idempotency keys, and register no start. None: the run is lost. A GET and a HEAD in addition."""
        if end := self.find(run, tail):
            return end
        with suppress(UnavailableError, ObjectNotFoundError):
            is_started = read_start(self.store, self.layout, run) is not None
            last = self.store.head(self.layout.segment(run, tail.sequence - 1))
            entry = LogEndFinder.entry(run, tail.sequence - 1, last)
            if not is_started and (entry.is_keyed or entry.events):
                return RunEnd(UNKNOWN)
        return None

    def _stated_end(self, run: Run, sequence: int) -> RunEnd | None:
        # Imported here: other operations do not need it.
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
            with suppress(ObjectNotFoundError, DamagedLogError):  # it consists of lines, or its sidecar is not written yet
                if end := self.stated_by_event(run, number):
                    return end
        return None

    def _last_bytes(self, run: Run, number: int, limit: int) -> tuple[bytes, bool]:
        """Last bytes of a segment, and whether it consists of events. Empty if it was retired, or is a seal."""
        key = self.layout.segment(run, number)
        try:
            stored = self.store.get(key, 0, limit)
            size, has_events = stored.info.size, "events" in stored.info.metadata
            return stored.body if size <= limit else self.store.get(key, size - limit, size).body, has_events
        except (ObjectNotFoundError, RangeNotSatisfiableError):
            return b"", False


def _text(body: bytes) -> str:
    return body.decode(errors="replace")
