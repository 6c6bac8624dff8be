"""What lies beside the text of a run: events that came as events, with level, time, step and data, where they stand in it (decision 0022).

A run of plain lines costs a LIST for each piece that is read of it while it goes on, and one LIST altogether when it has ended.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from itertools import islice
from typing import Protocol

from chalicelib.errors import DamagedLogError, ObjectNotFoundError, UnavailableError
from chalicelib.events.companion import UNDER_WAY_MS, Companion, Noted
from chalicelib.events.indexing import EventIndexing
from chalicelib.events.tail import EventTails
from chalicelib.ports import Clock, Run, SegmentIndex
from chalicelib.runlog.conflicts import retry_on_change

_AT_ONCE = 16


class SidecarReader(Protocol):
    """Where companions are read."""

    def numbers(self, run: Run, first: int) -> Iterator[int]:
        """The numbers of a run's companions from one on, ascending."""

    def sidecars(self, run: Run, numbers: list[int]) -> Iterable[Companion | None]:
        """Some of them, in order; None: it is damaged or gone, and its lines are plain text."""

    def number_at(self, run: Run, line: int) -> int:
        """A number below which no companion reaches to a line."""

    def first_unsettled_line(self, run: Run, appended_ms: int) -> int | None:
        """The first line that may still turn out to be an event's, when the last lines came at a time; None: no such line."""


class StoredSidecarReader:
    """``Beside`` on S3, and on the index where it helps."""

    def __init__(self, indexing: EventIndexing, tails: EventTails, index: SegmentIndex, clock: Clock) -> None:
        self._indexing, self._tails, self._index, self._clock = indexing, tails, index, clock

    def numbers(self, run: Run, first: int) -> Iterator[int]:
        """See the port. One LIST for each 1,000."""
        return self._indexing.numbers(run, first)

    def sidecars(self, run: Run, numbers: list[int]) -> Iterator[Companion | None]:
        """See the port. A GET for each, beside each other; unpacked one after the other."""
        return map(_read, self._indexing.each(run, numbers))

    def number_at(self, run: Run, line: int) -> int:
        """See the port. A query; 0 while the index is away."""
        with suppress(UnavailableError):
            row = self._index.at_line(run, line)
            return row.sequence if row else 0
        return 0

    def first_unsettled_line(self, run: Run, appended_ms: int) -> int | None:
        """See the port. Nothing of lines that came a minute ago; else four LISTs or so, and a HEAD for each young segment of plain text, once
        in a process."""
        if self._clock.now_ms() - appended_ms > UNDER_WAY_MS:
            return None
        return retry_on_change(lambda: self._tails.end_line(run))


class SidecarCursor:
    """The events of one run that came as events, as its reading goes on. Holds a companion only while it is asked, and the beginnings of as
    many others as the lines that are asked for have, and as many again at most."""

    def __init__(self, sidecars: SidecarReader, run: Run, line: int) -> None:
        self._sidecars, self._run, self._line = sidecars, run, line
        self._number: int | None = None  # companions below it are behind us
        self._none_before = 0  # of a run that has ended: no companion begins in [where we are, this line)
        self._are_all = False

    def between(self, line: int, end_line: int, *, final: bool) -> Iterator[Noted]:
        """Those that begin in [line, end_line), and one that reaches into it, in order. ``final``: the run has ended. Raises
        UnavailableError; asked again, it answers the same."""
        if end_line <= self._none_before or self._are_all:
            return
        numbers = self._sidecars.numbers(self._run, self._number or 0)
        if self._number is None:
            first = next(numbers, None)
            if first is not None and self._line:
                self._number = max(first, self._sidecars.number_at(self._run, self._line))
                numbers = self._sidecars.numbers(self._run, self._number)
            elif first is not None:
                numbers = _with(first, numbers)
        width, last_line = 1, 0
        while batch := list(islice(numbers, width)):
            for number, companion in zip(batch, self._sidecars.sidecars(self._run, batch), strict=True):
                if companion is None or companion.end_line <= line:
                    self._number = number + 1
                elif companion.line >= end_line:
                    self._none_before = companion.line if final else 0
                    return
                else:
                    self._number, last_line = number, companion.end_line
                    yield from (noted for noted in companion.events if line < noted.end_line and noted.line < end_line)
            width = min(2 * width, _AT_ONCE)
        self._are_all = final and last_line <= end_line


def _read(read: Callable[[], Companion]) -> Companion | None:
    with suppress(DamagedLogError, ObjectNotFoundError):
        return read()
    return None


def _with(first: int, numbers: Iterator[int]) -> Iterator[int]:
    yield first
    yield from numbers
