"""Reads the sidecar objects of a run: structured events with level, time, step and data, and their lines in the log (decision
0022).

Plain lines cost a LIST for each piece that is read from a snapshot of a running run, and one LIST in all for an ended run.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from itertools import chain, islice
from typing import Protocol

from chalicelib.errors import DamagedLogError, ObjectNotFoundError, SnapshotChangedError, StoreUnavailableError, UnavailableError
from chalicelib.events.indexing import EventIndexing
from chalicelib.events.sidecar import APPEND_TIMEOUT_MS, Sidecar, SidecarEntry
from chalicelib.events.sidecar_bundle import SidecarGroup
from chalicelib.events.tail import EventTails
from chalicelib.ports import Clock, Run, SegmentEntry, SegmentIndex
from chalicelib.runlog.conflicts import retry_on_change

_AT_ONCE = 16
StructuredEvents = Iterable[tuple[Sidecar, SidecarEntry]]
"""Events in the order of their lines, each with its sidecar."""


class SidecarReader(Protocol):
    """Reads the sidecars of runs."""

    def groups(self, run: Run, first: int) -> Iterator[SidecarGroup]:
        """The groups of a run's sidecars from number ``first`` on, ascending."""

    def sidecars(self, run: Run, groups: list[SidecarGroup]) -> Iterable[tuple[int, Sidecar | None]]:
        """The sidecars of groups with their numbers, in order; None for one that is damaged or deleted: its lines are plain text."""

    def number_at(self, run: Run, line: int) -> int:
        """A number such that no sidecar with a lower one reaches this line."""

    def first_unsettled_line(self, run: Run, appended_ms: int) -> int | None:
        """The first line that may still become a structured event, given the time of the last append; None if there is none."""


class StoredSidecarReader:
    """``SidecarReader`` on S3, with the segment index as an accelerator."""

    def __init__(self, indexing: EventIndexing, tails: EventTails, index: SegmentIndex, clock: Clock) -> None:
        self._indexing, self._tails, self._index, self._clock = indexing, tails, index, clock

    def groups(self, run: Run, first: int) -> Iterator[SidecarGroup]:
        """See ``SidecarReader``. The LISTs of ``SidecarStore.groups``. Raises UnavailableError, also while it is iterated."""
        try:
            yield from self._indexing.sidecars.groups(run, first)
        except SnapshotChangedError as error:
            raise StoreUnavailableError(str(error)) from error

    def sidecars(self, run: Run, groups: list[SidecarGroup]) -> Iterator[tuple[int, Sidecar | None]]:
        """See ``SidecarReader``. One GET for each group, in parallel but for bundles; decoded one at a time."""
        return ((number, _read(read)) for number, read in self._indexing.sidecars.readers(run, groups))

    def number_at(self, run: Run, line: int) -> int:
        """See ``SidecarReader``. One Query; 0 while the index is unavailable."""
        with suppress(UnavailableError):
            row = self._index.at_line(run, line)
            return row.sequence if row else 0
        return 0

    def first_unsettled_line(self, run: Run, appended_ms: int) -> int | None:
        """See ``SidecarReader``. No request if the last append is more than a minute old; else about four LISTs, and one HEAD per
        process for each recent segment of plain text."""
        if self._clock.now_ms() - appended_ms > APPEND_TIMEOUT_MS:
            return None
        return retry_on_change(lambda: self._tails.end_line(run))


class SidecarCursor:
    """A forward cursor over the structured events of one run. Keeps one sidecar in memory, the last two bundles, and the first bytes of
    as many single sidecars as the requested lines have, and of as many again at most."""

    def __init__(self, sidecars: SidecarReader, run: Run, line: int) -> None:
        self._sidecars, self._run, self._line = sidecars, run, line
        self._number: int | None = None  # sidecars with a lower number are done
        self._none_before = 0  # of an ended run: no sidecar begins between the current line and this one
        self._are_all = False

    def skip_to(self, number: int) -> None:
        """Sidecars with a lower number are done. ``number``: not lower than that of any sidecar that was read."""
        self._number = number

    def between(self, line: int, end_line: int, *, final: bool) -> Iterator[tuple[Sidecar, SidecarEntry]]:
        """The events that begin in [line, end_line), and one that reaches into it, in order, each with its sidecar. ``final``: the run has
        ended. Raises UnavailableError; the same call then returns the same events."""
        if end_line <= self._none_before or self._are_all:
            return
        groups = self._sidecars.groups(self._run, self._number or 0)
        if self._number is None:
            first = next(groups, None)
            if first is not None and self._line:
                self._number = max(first.first, self._sidecars.number_at(self._run, self._line))
                groups = self._sidecars.groups(self._run, self._number)
            elif first is not None:
                groups = chain([first], groups)
        width, last_line = 1, 0
        while batch := list(islice(groups, width)):
            for number, sidecar in self._sidecars.sidecars(self._run, batch):
                if sidecar is None or sidecar.end_line <= line:
                    self._number = number + 1
                elif sidecar.line >= end_line:
                    self._none_before = sidecar.line if final else 0
                    return
                else:
                    self._number, last_line = number, sidecar.end_line
                    yield from ((sidecar, noted) for noted in sidecar.events if line < noted.end_line and noted.line < end_line)
            width = min(2 * width, _AT_ONCE)
        self._are_all = final and last_line <= end_line


def events_of_segments(
    sidecars: SidecarReader, run: Run, entries: Sequence[SegmentEntry]
) -> Iterator[tuple[Sidecar, SidecarEntry]]:
    """The events of segments that have events, ascending. One GET for each sidecar, 16 in parallel. Raises, also while it is iterated,
    SnapshotChangedError if a sidecar is missing, damaged, or not of its segment; UnavailableError."""
    for at in range(0, len(entries), _AT_ONCE):
        batch = entries[at : at + _AT_ONCE]
        groups = [SidecarGroup(entry.sequence, entry.sequence, (entry.sequence,)) for entry in batch]
        for entry, (number, sidecar) in zip(batch, sidecars.sidecars(run, groups), strict=True):
            if sidecar is None or (sidecar.line, sidecar.end_line) != (entry.line, entry.end_line):
                raise SnapshotChangedError(f"a segment has no sidecar that fits run={run.fqn}/{run.run_id} sequence={number}")
            yield from ((sidecar, noted) for noted in sidecar.events)


def _read(read: Callable[[], Sidecar]) -> Sidecar | None:
    with suppress(DamagedLogError, ObjectNotFoundError):
        return read()
    return None
