"""Follows runs: from one offset to the next, and from two offsets to the slices between them.

A position is never revised, and rows are a function of two positions and of immutable bytes. So a repeated batch has the same
rows, even if other objects hold the bytes by then (decision 0014).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import NamedTuple

from chalicelib.catalog.runs import outcome_of_end
from chalicelib.errors import DamagedLogError, ObjectNotFoundError, StoreUnavailableError
from chalicelib.events.sidecar import APPEND_TIMEOUT_MS
from chalicelib.ports import LOST, UNKNOWN, ObjectStore, RunEnd, SegmentEntry, SegmentIndex
from chalicelib.runlog.artifact import artifact_of
from chalicelib.runlog.layout import Layout
from chalicelib.runlog.segment import CLOSED as CLOSED_REASON
from chalicelib.runlog.segment import SEAL, entry_of
from glue_jobs.datasource.clients import THREADS
from glue_jobs.datasource.content import Content
from glue_jobs.datasource.listing import objects_of
from glue_jobs.datasource.log import Log
from glue_jobs.datasource.objects import RunObjects
from glue_jobs.datasource.offsets import ABANDONED, CLOSED, OPEN, START, Offset, Position, name_of
from glue_jobs.datasource.options import Options
from glue_jobs.datasource.planner import RunLocator
from glue_jobs.datasource.planning import LogSlicer
from glue_jobs.datasource.problems import GONE, METADATA, Problems
from glue_jobs.datasource.selection import selection_of
from glue_jobs.datasource.sidecars import Sidecars
from glue_jobs.datasource.slices import SAMPLE_BYTES, Slice, sampled

MARGIN_S = 5 * 60
"""Maximum delay until listings show a write, after the time that the store gives it."""
UPLOAD_S = 7 * 86_400
"""The same for an artifact without segments: OpenMetadata's may be a multipart upload, dated by its start."""
_WIDEST_ZONE_S = 26 * 3600
_TRIES = 5


class _End(NamedTuple):
    """The current end of a run."""

    next: int
    byte: int
    line: int
    state: str
    reported: str = ""


class _Grown(NamedTuple):
    run: RunObjects
    before: Position | None


FindAwaited = Callable[[Mapping[str, tuple[RunObjects, Position]]], Set[str]]
"""The names of runs whose positions do not advance yet."""


class Follower:
    """Follows the runs of a selection. Caches the last listing; after a restart it continues without it."""

    def __init__(
        self,
        locator: RunLocator,
        store: ObjectStore,
        options: Options,
        problems: Problems,
        now_s: Callable[[], float],
        index: SegmentIndex | None = None,
    ) -> None:
        self._locator, self._store, self._options, self._problems, self._now_s = locator, store, options, problems, now_s
        self._layout = Layout(options.prefix)
        self._selection = selection_of(options)
        self._cutter = LogSlicer(store, index, options.bytes_per_partition)
        self._seen: Mapping[str, RunObjects] = {}

    def latest(
        self, previous: Offset, settled: Offset, *, ended_only: bool = False, find_awaited: FindAwaited | None = None
    ) -> Offset:
        """The offset after all current data; ``previous`` itself if nothing is new. ``settled``: the offset that was last
        planned. ``ended_only``: the positions of running runs do not advance, nor those of runs that ``find_awaited`` names.

        Requests: a LIST for each 1,000 objects; a HEAD for each run that grew, and a few more for a new one.
        """
        self._seen = {name_of(run.base): run for run in self._locator.find(self._selection)}
        grown = {name: each for name, each in self._grown(previous).items() if each.run.seems_ended or not ended_only}
        skips = previous.skips
        moved = self._moved(grown, find_awaited or _none_awaited, skips=skips)
        to_the_end = {name: grown[name] for name, position in moved.items() if position.next >= grown[name].run.end}
        if ended_only:
            moved = {name: position for name, position in moved.items() if position.state != OPEN}
        idle = {} if ended_only else dict(self._idle(previous))
        flushed = {name: position._replace(floor=position.byte) for name, position in idle.items() if name not in moved}
        news = flushed | moved
        if not news and not skips:
            return previous
        runs = {name: position for name, position in previous.runs.items() if name in self._seen} | news
        through_s = self._through_s(previous, to_the_end)
        done = [name for name in runs if name not in news and self._is_done(name, runs[name], settled, through_s)]
        return Offset(previous.of, through_s, {name: runs[name] for name in runs if name not in done})

    def slices(self, start: Offset, end: Offset) -> list[Slice]:
        """The slices between two offsets. Usually no request if this object made ``end`` last; otherwise another listing."""
        if start.skips:
            return []
        changed = [name for name, position in end.runs.items() if start.runs.get(name) != position]
        if any(name not in self._seen for name in changed):
            self._seen = {name_of(run.base): run for run in self._locator.find(self._selection)}
        present = sorted((self._seen[name].base, name) for name in changed if name in self._seen)
        if missing := len(changed) - len(present):
            run = next(iter(self._seen.values())).run if self._seen else None
            detail = f"runs of the checkpoint no longer exist count={missing}"
            if run:
                self._problems.report(run, GONE, self._layout.prefix, detail)
        logs = self._locator.logs([self._seen[name] for _, name in present])
        return [
            part
            for (_, name), (_, log) in zip(present, logs, strict=True)
            for part in self._slices(log, start.runs.get(name), end.runs[name])
        ]

    def _slices(self, log: Log, before: Position | None, after: Position) -> Sequence[Slice]:
        log = replace(log, reference_s=after.reference_s, outcome=after.outcome)
        return self._cutter.slices(log, before.edge if before else START, after.edge, format=after.format)

    def _grown(self, previous: Offset) -> dict[str, _Grown]:
        """Runs with data after their position, in key order."""
        grown: dict[str, _Grown] = {}
        for name, run in self._seen.items():
            before = previous.runs.get(name)
            if before is None:
                is_done = run.seems_ended and _known_by_s(run) <= previous.through_s
                if not is_done and not self._is_too_early(run):
                    grown[name] = _Grown(run, None)
            elif run.end > before.next:
                grown[name] = _Grown(run, before)
        return grown

    def _moved(self, grown: dict[str, _Grown], find_awaited: FindAwaited, *, skips: bool) -> dict[str, Position]:
        """New positions of the first runs, as many as the batch may contain. Runs that wait do not keep others out of the batch."""
        while True:
            taken = grown if skips else self._within_budget(grown)
            with ThreadPoolExecutor(THREADS) as threads:
                positions = threads.map(lambda each: self._position(*each, skips=skips), taken.values())
                moved = {name: position for name, position in zip(taken, positions, strict=True) if position}
            awaited = find_awaited({name: (taken[name].run, position) for name, position in moved.items()})
            if not awaited or len(awaited) < len(moved):
                return {name: position for name, position in moved.items() if name not in awaited}
            grown = {name: each for name, each in grown.items() if name not in awaited}

    def _is_too_early(self, run: RunObjects) -> bool:
        """Whether all lines of the run are too early in any time zone."""
        slack_s, from_us = self._options.time_slack_s, self._options.from_us
        return slack_s is not None and from_us is not None and run.last_written_s + slack_s + _WIDEST_ZONE_S < from_us // 1_000_000

    def _within_budget(self, grown: dict[str, _Grown]) -> dict[str, _Grown]:
        """The first runs whose bytes fit into the batch, at least one."""
        budget = self._options.max_bytes_per_batch
        if budget is None:
            return grown
        taken: dict[str, _Grown] = {}
        for name, each in grown.items():
            budget -= _bytes_behind(*each)
            if taken and budget < 0:
                break
            taken[name] = each
        return taken

    def _idle(self, previous: Offset) -> Iterator[tuple[str, Position]]:
        """Positions of idle running runs whose last event was held back."""
        after_s = self._options.flush_after_s
        if after_s is None:
            return
        for name, position in previous.runs.items():
            run = self._seen.get(name)
            if (
                run
                and position.floor < position.byte
                and run.end <= position.next
                and self._now_s() - run.last_written_s >= after_s
            ):
                yield name, position

    def _through_s(self, previous: Offset, taken: Mapping[str, _Grown]) -> int:
        """The time by which every ended run is or was in the offset. A run that is running now will end later."""
        newest = max((_newest_s(run) for run in self._seen.values()), default=0)
        left = (each.run for name, each in self._grown(previous).items() if name not in taken and each.before is None)
        return max(previous.through_s, min([newest - MARGIN_S, *(_known_by_s(run) - 1 for run in left if run.seems_ended)]))

    def _is_done(self, name: str, position: Position, settled: Offset, through_s: int) -> bool:
        """Whether a run can leave the offset: closed, finalized, completely planned, and recognizable by its age."""
        run = self._seen[name]
        if position.state != CLOSED or settled.runs.get(name) != position or run.logs is None:
            return False
        return max(_known_by_s(run), run.logs.modified_ms // 1000) <= through_s

    def _position(self, run: RunObjects, before: Position | None, *, skips: bool) -> Position | None:
        """A run's new position; None: not yet."""
        for _ in range(_TRIES):
            try:
                end = self._end(run, before, skips=skips)
                return self._made(run, before, end, skips=skips) if end else None
            except ObjectNotFoundError:
                run = objects_of(self._store, self._layout, run.run, run.base)
        raise StoreUnavailableError(f"the run keeps changing run={run.run.fqn}/{run.run.run_id}")

    def _made(self, run: RunObjects, before: Position | None, end: _End, *, skips: bool) -> Position:
        is_idle = self._options.flush_after_s is not None and self._now_s() - run.last_written_s >= self._options.flush_after_s
        floor = end.byte if end.state != OPEN or is_idle or skips else self._floor(run, before, end)
        reference_s = before.reference_s if before else run.first_known_s
        return Position(end.next, end.byte, end.line, floor, end.state, reference_s, self._format(run, before, end), end.reported)

    def _floor(self, run: RunObjects, before: Position | None, end: _End) -> int:
        """The end of the last event that was sent as one: later lines do not belong to it. A GET if its segment is no longer
        listed."""
        floor = before.floor if before else 0
        number = run.last_sidecar(end.next)
        if number is None or (before is not None and number < before.next):
            return floor
        last = run.segment_ranges[-1] if run.segment_ranges else None
        if last and last.first <= number + 1 and end.next <= last.end:
            return end.byte - sum(last.sizes[number + 1 - last.first : end.next - last.first])
        sidecars = Sidecars(self._store, run.run, run.base, run.sidecars, (), self._problems)
        return max(floor, min(sidecars.end_of(number), end.byte))

    def _format(self, run: RunObjects, before: Position | None, end: _End) -> str:
        """Fixed while the run may grow, because event boundaries depend on it."""
        if self._options.log_format or (before and before.format):
            return self._options.log_format or (before.format if before else "")
        if before is None and end.state != OPEN:
            return ""
        _, log = self._locator.log(run)
        return sampled(self._content(run, log).read, min(SAMPLE_BYTES, end.byte)).name

    def _end(self, run: RunObjects, before: Position | None, *, skips: bool) -> _End | None:
        if not run.segment_ranges:
            return self._end_of_artifact(run)
        if before is None or _has_gap(run, before):
            run, log = self._locator.log(run)
            if not run.segment_ranges:
                return self._end_of_artifact(run)
            byte = log.end
        else:
            byte = before.byte + (_growth(run, before) or 0)
        entry = self._entry(run, run.end - 1)
        if entry is None:
            return self._counted(run, before)
        if not skips and (pending := self._under_way(run, before, entry)):
            byte -= sum(run.segment_ranges[-1].tail(pending.sequence).sizes)
            return _End(pending.sequence, byte, pending.line, OPEN) if byte > (before.byte if before else 0) else None
        state = OPEN if entry.kind != SEAL else CLOSED if entry.reason == CLOSED_REASON else ABANDONED
        reported = _reported(state, entry.reason, entry.end)
        return _End(run.end, byte, entry.end_line, state, reported)

    def _entry(self, run: RunObjects, number: int) -> SegmentEntry | None:
        """A segment's entry. Raises ObjectNotFoundError."""
        info = self._store.head(run.segment_key(number))
        try:
            return entry_of(number, info.metadata, info.size)
        except DamagedLogError as error:
            self._problems.report(run.run, METADATA, run.segment_key(number), str(error))
            return None

    def _under_way(self, run: RunObjects, before: Position | None, last: SegmentEntry) -> SegmentEntry | None:
        """The first new segment of events whose sidecar is still being written, so it is not known yet whether its lines are
        events. A HEAD for each segment of the last minute without one; none if the run has no sidecar and its last segment has no
        events."""
        if not any(run.sidecars) and not last.events:
            return None
        since_s = self._now_s() - APPEND_TIMEOUT_MS // 1000
        segment_range = run.segment_ranges[-1]
        first = max(segment_range.first, before.next if before else 0)
        for number in range(first, run.end):
            if segment_range.written_s[number - segment_range.first] > since_s and not run.has_sidecar(number):
                entry = last if number == last.sequence else self._entry(run, number)
                if entry and entry.events:
                    return entry
        return None

    def _counted(self, run: RunObjects, before: Position | None) -> _End:
        """The end if the last segment doesn't have it: counts lines of the new segments."""
        _, log = self._locator.log(run)
        start, line = (before.byte, before.line) if before else (0, 0)
        lines = sum(chunk.body.count(b"\n") for chunk in self._content(run, log).chunks(start, log.end))
        return _End(run.end, log.end, line + lines, OPEN)

    def _end_of_artifact(self, run: RunObjects) -> _End | None:
        """The end of a run whose segments have expired, or of OpenMetadata's own, which is read when it is finished."""
        listed = run.artifact
        assert listed
        info = self._store.head(listed.key)
        try:
            artifact = artifact_of(info)
        except (DamagedLogError, KeyError, ValueError) as error:
            self._problems.report(run.run, METADATA, listed.key, f"invalid metadata of the object: {error}")
            return _End(0, info.size, 0, CLOSED, UNKNOWN)
        if artifact.is_legacy:
            return _End(0, info.size, 0, CLOSED, UNKNOWN) if run.logs else None
        state = CLOSED if artifact.reason == CLOSED_REASON else ABANDONED if artifact.reason else OPEN
        reported = _reported(state, artifact.reason, artifact.end)
        return _End(artifact.next_segment, artifact.bytes, artifact.lines or 0, state, reported)

    def _content(self, run: RunObjects, log: Log) -> Content:
        return Content(self._store, self._layout, run.run, run.base, log.pieces, self._problems)


def _none_awaited(_: object) -> Set[str]:
    return frozenset()


def _has_gap(run: RunObjects, before: Position) -> bool:
    """Whether segments after a position are not listed: they were compacted and deleted, perhaps between two pages of the
    listing, or are missing."""
    behind = [segment_range for segment_range in run.segment_ranges if segment_range.end > before.next]
    return len(behind) != 1 or behind[0].first > before.next


def _growth(run: RunObjects, before: Position | None) -> int | None:
    """Bytes in listed segments after a position; None if not all are listed."""
    if before is None or _has_gap(run, before):
        return None
    return sum(run.segment_ranges[-1].tail(before.next).sizes)


def _bytes_behind(run: RunObjects, before: Position | None) -> int:
    """Estimate of the new bytes, without requests."""
    growth = _growth(run, before)
    if growth is not None:
        return growth
    artifact = max((listed.size for listed in (run.logs, run.partial) if listed), default=0)
    return max(artifact, sum(sum(segment_range.sizes) for segment_range in run.segment_ranges)) - (before.byte if before else 0)


def _known_by_s(run: RunObjects) -> int:
    """The time by which a listing has shown a run's end."""
    return run.last_written_s + (0 if run.segment_ranges else UPLOAD_S)


def _newest_s(run: RunObjects) -> int:
    artifacts = [listed.modified_ms // 1000 for listed in (run.logs, run.partial) if listed]
    return max([run.last_written_s, *artifacts])


def _reported(state: str, reason: str, end: RunEnd | None) -> str:
    """The outcome of an ended run; empty for a lost one, which is the meaning of ``ABANDONED`` alone."""
    outcome = "" if state == OPEN else outcome_of_end(reason, end)
    return "" if outcome == LOST else outcome
