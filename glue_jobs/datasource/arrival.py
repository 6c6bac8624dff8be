"""Skips runs and parts of runs by arrival time: a line is written to the bucket at most ``timeSlack`` after its own time.

This assumption is checked before anything is skipped: for each pipeline, the last lines of one run and the first lines of one are
compared with the times at which they were stored. If they disagree (a wrong clock, a missing option ``zone``), nothing of the
pipeline is skipped.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import islice

from chalicelib.errors import RunlakeError
from chalicelib.lines.events import events
from chalicelib.lines.format_detection import detect_format
from chalicelib.lines.timestamps import TimestampParser
from chalicelib.ports import Run, SegmentIndex
from glue_jobs.datasource.clients import THREADS
from glue_jobs.datasource.log import ArtifactPiece, Log, Piece, SegmentChain
from glue_jobs.datasource.objects import RunObjects
from glue_jobs.datasource.options import Options
from glue_jobs.datasource.problems import LOG
from glue_jobs.datasource.selection import Selection
from glue_jobs.datasource.slices import CUT, Edge

_LOOK_BYTES, _LOOK_OBJECTS = 8 * 1024, 4
_US = 1_000_000
Read = Callable[[RunObjects, bool], tuple[bytes, str]]
"""The last bytes of a run (True), or its first ones (False), and its zone (empty: none)."""


@dataclass(frozen=True, slots=True)
class ArrivalWindow:
    """Relevant arrival times, in seconds. None: no bound."""

    from_s: float | None
    to_s: float | None

    @classmethod
    def of(cls, selection: Selection, options: Options) -> ArrivalWindow | None:
        """None if nothing can be skipped."""
        if options.time_slack_s is None or not selection.bounds_time:
            return None
        from_s = None if selection.from_us is None else selection.from_us / _US - options.time_slack_s
        to_s = None if selection.to_us is None else selection.to_us / _US + options.time_slack_s
        return cls(from_s, to_s)

    def is_before(self, last_s: float) -> bool:
        """Whether data that arrived by then is too early."""
        return self.from_s is not None and last_s + 1 < self.from_s  # times of a listing are whole seconds

    def is_behind(self, first_s: float) -> bool:
        """Whether data that arrived since then is too late."""
        return self.to_s is not None and first_s > self.to_s


class ArrivalFilter:
    """Skips runs and parts of runs. ``started_s``: start times of runs that the catalog knows."""

    def __init__(self, window: ArrivalWindow, options: Options, started_s: Mapping[Run, float], read: Read) -> None:
        self._window, self._options, self._started_s, self._read = window, options, started_s, read
        self._distrusted: frozenset[str] = frozenset()

    def select(self, runs: Sequence[RunObjects]) -> list[RunObjects]:
        """The runs of which data may have arrived in the window. Two small reads for each pipeline that loses runs or parts."""
        by_fqn: defaultdict[str, list[RunObjects]] = defaultdict(list)
        for run in runs:
            by_fqn[run.run.fqn].append(run)
        with ThreadPoolExecutor(THREADS) as threads:
            trusted = dict(zip(by_fqn, threads.map(self._is_trusted, by_fqn.values()), strict=True))
        self._distrusted = frozenset(fqn for fqn, is_trusted in trusted.items() if not is_trusted)
        for fqn in sorted(self._distrusted):
            LOG.warning("timestamps disagree with arrival times: nothing is skipped by time, check the option zone fqn=%s", fqn)
        return [run for run in runs if run.run.fqn in self._distrusted or not self._is_out(run)]

    def edges(self, log: Log, objects: RunObjects, index: SegmentIndex | None) -> tuple[Edge | None, Edge | None]:
        """The part of a log that may have arrived in the window: its first and end edge; None: the log's own end."""
        if log.run.fqn in self._distrusted:
            return None, None
        first: Edge | None = None
        end: Edge | None = None
        for piece in log.pieces:
            if isinstance(piece, SegmentChain):
                first, end = self._of_chain(piece, objects, first, end)
            elif isinstance(piece, ArtifactPiece) and index is not None:
                first, end = self._of_rows(piece, log.run, index)
        return first, end

    def _is_out(self, run: RunObjects) -> bool:
        started_s = self._start(run)
        return self._window.is_before(run.last_written_s) or (started_s is not None and self._window.is_behind(started_s))

    def _start(self, run: RunObjects) -> float | None:
        if run.segment_ranges and run.segment_ranges[0].first == 0:
            return run.segment_ranges[0].written_s[0]
        return self._started_s.get(run.run)

    def _is_trusted(self, runs: Sequence[RunObjects]) -> bool:
        if not any(self._is_out(run) or self._is_partly_out(run) for run in runs):
            return True
        remaining = [run for run in runs if not self._is_out(run)] or runs
        slack_s = self._options.time_slack_s or 0
        newest = max(remaining, key=lambda run: run.last_written_s)
        stamps = self._stamps(newest, at_end=True)
        if stamps and max(stamps) > newest.last_written_s + 1 + slack_s:
            return False
        started = {self._start(run): run for run in remaining if self._start(run) is not None}
        if not started:
            return True
        first_s = min(each for each in started if each is not None)
        stamps = self._stamps(started[first_s], at_end=False)
        return not stamps or min(stamps) >= first_s - slack_s

    def _is_partly_out(self, run: RunObjects) -> bool:
        written = [segment_range.written_s for segment_range in run.segment_ranges]
        return any(self._window.is_before(each[0]) or self._window.is_behind(each[-1]) for each in written)

    def _stamps(self, run: RunObjects, *, at_end: bool) -> list[float]:
        try:
            body, zone = self._read(run, at_end)
        except RunlakeError:
            return []
        lines = body.split(b"\n")
        clock = TimestampParser(self._options.tz_in(zone), run.last_written_s * _US)
        parsed_events = events(enumerate(lines), self._options.format or detect_format(lines), clock)
        return [event.parsed.timestamp / _US for event in parsed_events if event.parsed.timestamp is not None]

    def _of_chain(
        self, chain: SegmentChain, objects: RunObjects, first: Edge | None, end: Edge | None
    ) -> tuple[Edge | None, Edge | None]:
        segment_range = next(each for each in objects.segment_ranges if each.first <= chain.first < each.end)
        written_s = segment_range.written_s[chain.first - segment_range.first :]
        for start, size, at_s in zip(chain.starts, chain.sizes, written_s, strict=True):
            if self._window.is_before(at_s):
                first, end = Edge(start + size, None, CUT), None
            elif self._window.is_behind(at_s) and end is None:
                end = Edge(start, None, CUT)
        return first, end

    def _of_rows(self, piece: ArtifactPiece, run: Run, index: SegmentIndex) -> tuple[Edge | None, Edge | None]:
        """From the catalog's rows of an artifact: a binary search, one query a step."""
        last = index.last(run)
        if last is None or last.end_byte < piece.end:
            return None, None
        first = (
            self._bisected(run, index, last.end_line, lambda at_s: not self._window.is_before(at_s))
            if self._window.from_s
            else None
        )
        end = self._bisected(run, index, last.end_line, self._window.is_behind) if self._window.to_s else None
        return first, end if end is None or end.byte < piece.end else None

    def _bisected(self, run: Run, index: SegmentIndex, lines: int, is_there: Callable[[float], bool]) -> Edge:
        """The start of the first row for which a monotonic condition is true; the log's end if there is none."""
        low, high, edge = 0, lines, None
        while low < high:
            middle = (low + high) // 2
            row = index.at_line(run, middle)
            if row is None or not is_there(row.appended_ms / 1000):
                low = max(row.end_line if row else 0, middle + 1)
            else:
                high, edge = row.line, Edge(row.byte, row.line, CUT)
        if edge is None and (last := index.last(run)):
            edge = Edge(last.end_byte, last.end_line, CUT)
        return edge or Edge(0)


def read_sample(read: Callable[[int, int], bytes], log: Log, *, at_end: bool) -> bytes:
    """Lines of a log's first or last 8 KiB; the last line of the first ones may be incomplete. At most four objects: segments may
    be small."""
    size = min(_LOOK_BYTES, sum(islice(_sizes(log.pieces, at_end=at_end), _LOOK_OBJECTS)))
    if not at_end:
        return read(0, size)
    first = log.end - size
    body = read(first, log.end)
    return body.partition(b"\n")[2] if size == _LOOK_BYTES and first > 0 else body


def _sizes(pieces: Sequence[Piece], *, at_end: bool) -> Iterator[int]:
    """Sizes of the objects that have bytes, in order, or from the last one back."""
    for piece in reversed(pieces) if at_end else pieces:
        sizes: Sequence[int] = piece.sizes if isinstance(piece, SegmentChain) else (piece.end - piece.start,)
        yield from filter(None, reversed(sizes) if at_end else sizes)
