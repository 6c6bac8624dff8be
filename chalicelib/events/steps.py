"""The steps of a run, from their events and from step updates."""

from __future__ import annotations

import heapq
from collections.abc import Iterable
from dataclasses import dataclass

from chalicelib.events.byte_ranges import merge_adjacent
from chalicelib.events.index import EventIndex
from chalicelib.events.ranges import Range
from chalicelib.events.snapshots import LogSnapshots
from chalicelib.events.step_log import merge_tail
from chalicelib.events.step_segments import StepSegment
from chalicelib.events.step_updates import StepStatus, StepUpdate, parse_step_update
from chalicelib.events.tail import EventTails
from chalicelib.ports import Run
from chalicelib.runlog.conflicts import retry_on_change

MAX_LINE_RANGES = 20
"""Of one step: two steps that write at the same time have one for every few lines."""


@dataclass(frozen=True, slots=True)
class StepSummary:
    """One step. ``first_line`` None: it has no events. ``line_ranges``: its longest ranges of lines in the log of the run, first and
    last, ascending, at most ``MAX_LINE_RANGES``. ``complete``: no events can follow. Times in ms; ``ended_ms`` from an
    update, or of the last event once the run has ended."""

    step: str
    name: str
    parent: str | None
    started_ms: int | None
    ended_ms: int | None
    last_ms: int | None
    lines: int
    bytes: int
    errors: int
    first_line: int | None
    line_ranges: tuple[Range, ...]
    status: StepStatus | None
    complete: bool

    @property
    def duration_ms(self) -> int | None:
        """From the start to the end, or to the last event if the end is unknown."""
        end = self.ended_ms if self.ended_ms is not None else self.last_ms
        return None if self.started_ms is None or end is None else max(0, end - self.started_ms)


class Steps:
    """Lists steps. Reads the rows of all of them: one for each step of each segment."""

    def __init__(self, snapshots: LogSnapshots, index: EventIndex, tails: EventTails) -> None:
        self._snapshots, self._index, self._tails = snapshots, index, tails

    def all(self, run: Run) -> list[StepSummary]:
        """All steps in the order in which they began. A snapshot, a query for each MB of rows, and the requests of ``EventTails``.
        Raises UnavailableError."""
        return retry_on_change(lambda: self._all(run))

    def _all(self, run: Run) -> list[StepSummary]:
        segments = list(self._index.step_segments(run))
        snapshot = self._snapshots.take(run)
        tail = self._tails.read(run, snapshot)
        segments = merge_tail(segments, tail, None)
        updates = {step: parse_step_update(document) for step, document in self._index.step_updates(run).items()}
        is_ended = not tail.has_pending and self._snapshots.is_ended(run, snapshot)
        by_step: dict[str, list[StepSegment]] = {step: [] for step in updates}
        for segment in segments:
            by_step.setdefault(segment.step, []).append(segment)
        facts = [_facts(step, of, updates.get(step, StepUpdate()), is_ended) for step, of in by_step.items()]
        return sorted(facts, key=_order)


def _facts(step: str, segments: Iterable[StepSegment], update: StepUpdate, is_ended: bool) -> StepSummary:
    segments = list(segments)
    first_ms = min((segment.first_ms for segment in segments), default=None)
    last_ms = max((segment.last_ms for segment in segments), default=None)
    ended_ms = update.ended_ms if update.ended_ms is not None else last_ms if is_ended else None
    ranges = merge_adjacent(each for segment in segments for each in segment.byte_ranges)
    status = update.status or (None if is_ended or update.ended_ms is not None else "running")
    return StepSummary(
        step=step,
        name=update.name or step,
        parent=update.parent,
        started_ms=update.started_ms if update.started_ms is not None else first_ms,
        ended_ms=ended_ms,
        last_ms=last_ms,
        lines=sum(segment.lines for segment in segments),
        bytes=sum(segment.bytes for segment in segments),
        errors=sum(segment.errors for segment in segments),
        first_line=min((each.line for each in ranges), default=None),
        line_ranges=tuple(
            sorted((each.line, each.end_line - 1) for each in heapq.nlargest(MAX_LINE_RANGES, ranges, key=lambda each: each.lines))
        ),
        status=status,
        complete=is_ended,
    )


def _order(facts: StepSummary) -> tuple[int, int, str]:
    started_ms = facts.started_ms if facts.started_ms is not None else 1 << 60
    return started_ms, facts.first_line if facts.first_line is not None else 1 << 60, facts.step
