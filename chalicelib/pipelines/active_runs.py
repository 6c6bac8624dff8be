"""The active runs of a worker: read in turns into the ordering buffer, each with its events that are not processed yet."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import chain, islice

from chalicelib.errors import DamagedLogError, RunDeletedError, UnavailableError
from chalicelib.pipelines.configuration import Properties
from chalicelib.pipelines.heads import MAX_HEAD_BYTES, head_bytes
from chalicelib.pipelines.ordering import OrderingBuffer, PendingEvent
from chalicelib.pipelines.records import MakeRecord, record_maker
from chalicelib.pipelines.rows import EventPosition, RunCheckpoint
from chalicelib.pipelines.run_discovery import KnownRun
from chalicelib.pipelines.run_event_reader import LogSource, RunEventReader, SegmentSource
from chalicelib.pipelines.sidecar_reader import SidecarReader
from chalicelib.ports import Clock, Run

OnReadError = Callable[[str, Run, Exception], None]
GenerationLookup = Callable[[Run], str | None]
"""The generation of a run's names; None for a deleted generation, whose events are dropped."""
_PAUSE_MS = 5000
_READ_S = 1.0
"""Keeps deliveries, checkpoints and stops in time, however many runs there are."""
_LEAST_READ_BYTES = 64 * 1024
_FIRST_WEIGHT = 10.0
"""Bytes of the buffer per byte of a log, until one was measured: lines of 120 bytes."""


@dataclass(slots=True)
class ActiveRun:
    """An active run. ``checkpoint`` is the committed one; ``unprocessed``: its events that were read, by line, in the order of
    reading. ``gone``: its log is shorter than before, so it has expired or was deleted, and has no further events. ``make`` None: its
    ``generation`` was deleted, and its events are dropped."""

    known: KnownRun
    checkpoint: RunCheckpoint
    reader: RunEventReader
    make: MakeRecord | None
    generation: str | None = None
    unprocessed: dict[int, PendingEvent] = field(default_factory=dict)
    lines: int = 0
    at_end: bool = False
    final: bool = False
    gone: bool = False
    not_before_ms: int = 0
    head_bytes: int = 0

    @property
    def is_done(self) -> bool:
        """Whether its log was processed up to its current end."""
        return self.at_end and not self.unprocessed and (self.gone or self.reader.position.byte >= self.known.bytes)

    def first_unprocessed(self) -> EventPosition:
        """Where processing would resume. Everything before it was processed."""
        for pending in self.unprocessed.values():
            return EventPosition(pending.line, pending.byte, pending.time_ms)
        return self.reader.position

    def current_checkpoint(self, handlers: Mapping[str, bool]) -> RunCheckpoint:
        """Its checkpoint now."""
        checkpoint = self.checkpoint.advanced(self.first_unprocessed(), handlers)
        if self.reader.format != checkpoint.format:
            checkpoint = RunCheckpoint(
                checkpoint.position, self.reader.format, checkpoint.lagging, checkpoint.replay_line, checkpoint.replay_ms
            )
        return checkpoint


class ActiveRuns:
    """``dropped``: lines of runs whose pipeline or namespace was deleted; ``skipped``: runs with damaged logs. They stay in the
    head, so that the next worker tries them again; ``head_bytes``: the most that active and skipped runs take in the head."""

    def __init__(
        self,
        logs: LogSource,
        buffer: OrderingBuffer,
        properties: Properties,
        clock: Clock,
        generation: GenerationLookup,
        on_error: OnReadError,
        sidecars: SidecarReader | None = None,
        segments: SegmentSource | None = None,
    ) -> None:
        self._logs, self.buffer, self._properties, self._clock = logs, buffer, properties, clock
        self._segments = segments
        self._generation, self._on_error, self._sidecars = generation, on_error, sidecars
        self.runs: dict[Run, ActiveRun] = {}
        self._by_partition: dict[str, ActiveRun] = {}
        self._weight = _FIRST_WEIGHT
        self.dropped = self.head_bytes = 0
        self.skipped: dict[Run, ActiveRun] = {}

    def __len__(self) -> int:
        return len(self.runs)

    def add(self, known: KnownRun, checkpoint: RunCheckpoint, handlers: Mapping[str, bool]) -> None:
        """Start reading a run from the first position that these handlers need. Raises UnavailableError without changing
        anything."""
        start = checkpoint.start(handlers)
        properties = self._properties
        reader = RunEventReader(
            self._logs,
            known.run,
            start if start.line or start.time_ms else EventPosition(0, 0, known.started_ms),
            checkpoint.format,
            fetch_bytes=properties.fetch_bytes,
            patience_ms=max(properties.event_delay_ms, 1),
            clock=self._clock,
            sidecars=self._sidecars,
            segments=self._segments,
        )
        generation = self._generation(known.run)
        make = None if generation is None else record_maker(known.run, generation)
        active = ActiveRun(known, checkpoint, reader, make, generation, head_bytes=head_bytes(known.run, handlers))
        self.head_bytes += active.head_bytes
        self.runs[known.run] = active
        self._by_partition[reader.partition] = active

    def end_generation(self, generation: str) -> None:
        """Drop the rest of the events of a generation that was deleted."""
        for active in self.runs.values():
            if active.generation == generation:
                active.make = None

    def has_room_for(self, run: Run, handlers: Iterable[str]) -> bool:
        """Whether the head has room for one more run, however far its handlers may lag."""
        return not self.runs or self.head_bytes + head_bytes(run, handlers) <= MAX_HEAD_BYTES

    def run_of(self, pending: PendingEvent) -> ActiveRun:
        """The run of an event."""
        return self._by_partition[pending.partition]

    def read(self) -> int:
        """Read a piece of each run that has more, in turns, until the buffer is full or a second is over; the runs that were not
        read come first in the next call. Returns the number of events."""
        came, until_s = 0, self._clock.monotonic_s() + _READ_S
        for run in list(self.runs):
            if self.buffer.is_full or self._clock.monotonic_s() > until_s:
                break
            active = self.runs.pop(run)
            self.runs[run] = active  # to the end of the queue
            if self._has_more(active):
                came += self._read(run, active)
        return came

    def _has_more(self, active: ActiveRun) -> bool:
        if active.gone or active.not_before_ms > self._clock.now_ms():
            return False
        return not active.at_end or active.reader.position.byte < active.known.bytes or (active.known.ended and not active.final)

    def _read(self, run: Run, active: ActiveRun) -> int:
        try:
            before, was = active.reader.position.byte, self.buffer.bytes
            live_bytes = None if active.known.ended else active.known.bytes
            fetched = active.reader.fetch(self._room(), live_bytes=live_bytes)
        except UnavailableError as error:
            active.not_before_ms = self._clock.now_ms() + _PAUSE_MS
            self._on_error("could not read a run: it is retried", run, error)
            return 0
        except DamagedLogError as error:
            self._on_error("a run's log is damaged: the run is skipped", run, error)
            self._skip(run, active)
            return 0
        except RunDeletedError:
            self.buffer.forget(active.reader.partition)
            active.unprocessed.clear()
            active.gone = active.final = active.at_end = True
            return 0
        active.at_end, active.final, active.lines = fetched.at_end, fetched.final, fetched.lines
        if fetched.at_end and fetched.bytes < active.known.bytes:
            active.gone = active.final = True
        if active.at_end and not fetched.events:
            active.not_before_ms = self._clock.now_ms() + min(self._properties.event_delay_ms, _PAUSE_MS)
        if active.make is None:
            self.dropped += len(fetched.events)
        else:
            for pending in fetched.events:
                active.unprocessed[pending.line] = pending
                self.buffer.add(pending)
            self._weigh(self.buffer.bytes - was, active.reader.position.byte - before)
        self.buffer.settle(active.reader.partition, at_end=active.at_end, final=active.final)
        return len(fetched.events)

    def _skip(self, run: Run, active: ActiveRun) -> None:
        """Stop reading a run. Of its unprocessed events only the first is kept: processing resumes there."""
        self.buffer.forget(active.reader.partition)
        self.drop(run)
        active.unprocessed = dict(islice(active.unprocessed.items(), 1))
        self.skipped[run] = active
        self.head_bytes += active.head_bytes

    def checkpointed(self) -> Iterator[tuple[Run, ActiveRun]]:
        """All runs whose checkpoints are committed: active and skipped ones."""
        return chain(self.runs.items(), self.skipped.items())

    def _room(self) -> int:
        """Bytes of a log for which the buffer has room: a piece that exceeds them takes the buffer beyond its limit."""
        return max(_LEAST_READ_BYTES, int((self.buffer.max_bytes - self.buffer.bytes) / self._weight))

    def _weigh(self, buffered: int, read: int) -> None:
        if read >= _LEAST_READ_BYTES // 4:
            self._weight = max(1.0, buffered / read)

    def update(self, known_runs: Iterable[KnownRun]) -> Iterator[KnownRun]:
        """Update known sizes and ends of active runs; yields the runs that are not active."""
        for known in known_runs:
            active = self.runs.get(known.run)
            if active is None:
                if known.run not in self.skipped:
                    yield known
            elif known.bytes > active.known.bytes or known.ended != active.known.ended:
                active.known = known

    def drop(self, run: Run) -> None:
        """Remove a run."""
        active = self.runs.pop(run, None)
        if active is not None:
            del self._by_partition[active.reader.partition]
            self.head_bytes -= active.head_bytes

    def lag(self, now_ms: int) -> tuple[int, int]:
        """The lag: lines, and ms since the time of the first unprocessed event."""
        lines, oldest_ms = 0, now_ms
        for active in self.runs.values():
            first = active.first_unprocessed()
            behind = max(0, max(active.lines, active.known.lines) - first.line)
            if behind or active.unprocessed:
                lines += behind
                oldest_ms = min(oldest_ms, first.time_ms or now_ms)
        return lines, max(0, now_ms - oldest_ms)
