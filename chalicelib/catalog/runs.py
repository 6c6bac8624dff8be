"""The catalog of runs: one row each, moved forward only.

Notifications come twice, late and out of order, so every write is conditional on the number that it describes: a row holds what its
highest-numbered segment says, however the events arrive.

Table ``runs``: hash ``fqn``, range ``run_id``. Index ``by-start`` (``fqn``, ``started_ms``) lists a pipeline's runs by time. Index ``activity``
(``activity_shard``, ``last_append_ms``) holds only runs that still need work: open, sealed and not finalized, or finalized with segments to
retire. Each append moves a row of it, so it is cut into shards (decision 0013). Index ``by-outcome`` (``outcome``, ``ended_at``) holds the
keys of runs that have ended: an entry is written when the outcome changes, never by an append (decision 0041).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from hashlib import blake2b
from typing import Any, Protocol, Self

from chalicelib.errors import InvalidInputError
from chalicelib.ports import CANCELLED, FAILED, LOST, SUCCEEDED, UNKNOWN, Run, RunEnd, RunStart, SegmentEntry

SILENT_AFTER_MS = 3_600_000
"""Without a line: how long until a run is silent whose client promised no heartbeat."""
MISSED_HEARTBEATS = 3
"""How many are missed in a row until a run is silent: two lost requests do not make it so."""
SHARDS = 64
"""A partition of an index takes 1,000 units of writing a second, and an append takes two: 32,000 appends a second."""
MAX_MS = 10**15 - 1
"""The last time that has a place."""
RUNNING, SILENT = "running", "silent"
ENDED = (SUCCEEDED, FAILED, CANCELLED, LOST, UNKNOWN)
"""Outcomes of runs that have ended."""


@dataclass(frozen=True, slots=True)
class RunRow:
    """What the catalog knows of a run. Numbers are totals of the log; ``seal`` is the reason of the seal at its end, else empty.

    ``segments``: the highest number that was seen, plus one; ``compacted_segments``: what is in partial.txt or logs.txt, whichever reaches
    further, and ``final_segments``: what is in logs.txt, as the first number that is not. Times in ms since the epoch. Decision 0016 tells
    for each attribute what of S3 it is made of. ``start``: None of a run that was never started, but only written to: it is attempt 1.
    ``end``: what the close of a closed run reports, None where it reports nothing. ``alive_ms``: its last heartbeat, 0: none (decision 0042).
    """

    run: Run
    segments: int = 0
    lines: int = 0
    bytes: int = 0
    epoch: int = 0
    seal: str = ""
    started_ms: int = 0
    last_append_ms: int = 0
    compacted_segments: int = 0
    compacted_bytes: int = 0
    final_segments: int = 0
    start: RunStart | None = None
    end: RunEnd | None = None
    alive_ms: int = 0

    def outcome_at(self, now_ms: int) -> str:
        """``running``, ``silent``, or as ``outcome_of_end``."""
        if self.seal or not self._is_begun:
            return outcome_of_end(self.seal, self.end)
        return RUNNING if self.silent_since_ms(now_ms) is None else SILENT

    @property
    def is_seal_unknown(self) -> bool:
        """Whether the log is finalized and the notification of its seal has not come yet, so the outcome is not known here."""
        return not self.seal and self.status == "finalized"

    @property
    def activity_key(self) -> str:
        """Where it is among the runs of all pipelines, by last activity."""
        return activity_key(self.run, self.last_append_ms)

    @property
    def last_sign_ms(self) -> int:
        """The last sign of life: a line, a heartbeat, or the start; not the seal of the sweep."""
        return max(self.ended_ms, self.alive_ms)

    @property
    def ended_ms(self) -> int:
        """When its last line came, or its end; of a run that the sweep ended its last sign of life, as far as it is known."""
        return (self.end.last_sign_ms if self.end else 0) or self.last_append_ms

    @property
    def heartbeat_limit_ms(self) -> int:
        """How long a sign of life may take of a client that promises heartbeats; 0: it promises none."""
        return MISSED_HEARTBEATS * self.start.heartbeat_s * 1000 if self.start else 0

    def silent_since_ms(self, now_ms: int) -> int | None:
        """The last sign of life of an open run that is overdue for the next one, else None."""
        limit_ms = self.heartbeat_limit_ms or SILENT_AFTER_MS
        is_overdue = 0 < self.last_sign_ms < now_ms - limit_ms
        return self.last_sign_ms if is_overdue and self.status == "open" and self._is_begun else None

    @property
    def _is_begun(self) -> bool:
        """Whether segments tell of it, or the start of one that is not finalized: what is known by its artifacts alone has no open end."""
        return self.segments > 0 or (self.start is not None and self.status == "open")

    @property
    def status(self) -> str:
        """open, sealed or finalized."""
        if self.final_segments and self.final_segments >= self.segments:
            return "finalized"
        return "sealed" if self.seal else "open"

    @property
    def pending_bytes(self) -> int:
        """Bytes that stand in segments only."""
        return max(0, self.bytes - self.compacted_bytes) if self.status != "finalized" else 0

    @property
    def pending_segments(self) -> int:
        """Segments that are in no artifact yet."""
        return max(0, self.segments - max(self.compacted_segments, self.final_segments))

    @property
    def is_due(self) -> bool:
        """Whether compaction or finalization has something to do."""
        return self.pending_segments > 0


@dataclass(frozen=True, slots=True)
class RunPage:
    """Rows of one pipeline, newest first; ``cursor`` asks for the next ones, None at the end."""

    rows: Sequence[RunRow]
    cursor: str | None


@dataclass(frozen=True, slots=True)
class RunKeyPage:
    """Runs of one outcome with their places, the last to be active first. ``is_whole``: none is left behind them."""

    keys: Sequence[tuple[str, Run]]
    is_complete: bool

    @classmethod
    def sorted(cls, keys: Iterable[tuple[str, Run]], *, is_complete: bool) -> Self:
        """Of places in any order: no two runs have the same."""
        return cls(sorted(keys, key=lambda each: each[0], reverse=True), is_complete)


@dataclass(frozen=True, slots=True)
class SegmentUpdate:
    """What a segment's row update found. ``advanced``: it was news; ``previous_append_ms``: of the segment before, None for the first."""

    advanced: bool
    previous_append_ms: int | None


class RunCatalog(Protocol):
    """Rows of runs. Every write can be repeated and reordered; errors are UnavailableError."""

    def record_start(self, run: Run, start: RunStart) -> None:
        """The start of a run is stored. One write, two or three when segments or artifacts of the run are known already."""

    def record_segment(self, run: Run, entry: SegmentEntry) -> SegmentUpdate:
        """A segment exists. One write, two when it comes late and is the earliest so far."""

    def record_compaction(self, run: Run, size: int, next_segment: int, at_ms: int) -> None:
        """partial.txt holds this much."""

    def record_finalization(self, run: Run, lines: int, size: int, next_segment: int, at_ms: int) -> None:
        """logs.txt holds this much. One write or two."""

    def record_legacy_artifact(self, run: Run, size: int, at_ms: int, *, final: bool) -> None:
        """An artifact of OpenMetadata's own, ``final``: logs.txt, was written last at a time. Nothing where there are segments."""

    def record_heartbeat(self, run: Run, at_ms: int) -> bool:
        """A heartbeat of an open run at a time. False, and nothing is written: there is no row, the run has ended, or a later heartbeat is
        recorded. One write."""

    def mark_retired(self, run: Run, next_segment: int) -> None:
        """Nothing is left to do for a run, unless it has grown beyond ``next_segment``."""

    def get(self, run: Run) -> RunRow | None:
        """One row."""

    def newest(self, fqn: str, limit: int, cursor: str | None) -> RunPage:
        """Runs of a pipeline, newest first. Raises InvalidInputError for a cursor that was not made here."""

    def get_many(self, runs: Sequence[Run]) -> Mapping[Run, RunRow]:
        """Rows of up to 100 runs, those that there are. One request."""

    def ended(self, outcome: str, since_ms: int, before: str, limit: int) -> RunKeyPage:
        """Up to ``limit`` runs that ended with an outcome at ``since_ms`` or later, of places before one (empty: the newest). One request."""

    def running(self, since_ms: int, before: str, limit: int) -> RunKeyPage:
        """The same of runs in the index ``activity``, sealed ones among them; ``limit`` counts for each shard. A request for each."""

    def forget(self, run: Run) -> None:
        """The run was deleted: lists name it no more. None there is a success. One write."""

    def active(self, before_ms: int) -> Iterator[RunRow]:
        """Runs that still need work and whose last segment is older than a time. Read by index, shards side by side."""


def outcome_of_end(seal: str, end: RunEnd | None) -> str:
    """The outcome of an ended run: succeeded, failed, cancelled, lost (sealed by the sweep), or unknown (its client does not report it).
    ``seal``: the reason of its seal."""
    if end:
        return end.outcome
    return LOST if seal == "abandoned" else UNKNOWN


def shard_of(run: Run) -> str:
    """The activity shard of a run."""
    return f"open#{blake2b(f'{run.fqn}/{run.run_id}'.encode(), digest_size=2).digest()[0] % SHARDS}"


END_ATTRIBUTES = ("end", "outcome", "ended_at")
"""Of a run's item: what its client reports, and what index ``by-outcome`` is made of."""


def end_attributes(run: Run, last: SegmentEntry) -> dict[str, Any]:
    """Which of ``END_ATTRIBUTES`` a run's item has by its last segment: none unless that is a seal."""
    if not last.reason:
        return {}
    indexed = {"outcome": outcome_of_end(last.reason, last.end), "ended_at": activity_key(run, last.appended_ms)}
    return indexed | ({"end": asdict(last.end)} if last.end else {})


def activity_key(run: Run, at_ms: int) -> str:
    """A text that orders runs by time, each at a place of its own: the time in ms, and a digest of the run's name."""
    return f"{at_ms:015d}.{blake2b(partition_key(run).encode(), digest_size=8).hexdigest()}"


def activity_key_ms(key: str) -> int:
    """The time of a place. Raises InvalidInputError for what is none."""
    if not re.fullmatch(r"[0-9]{15}\.[0-9a-f]{16}", key, re.ASCII):
        raise InvalidInputError("the cursor was not made here: leave it out to begin anew")
    return int(key[:15])


def merge_newest(parts: Sequence[RunKeyPage], before: str) -> RunKeyPage:
    """Several lists as one, as far as all of them are known: a list that goes on may have more behind its last place."""
    floor = max((part.keys[-1][0] for part in parts if part.keys and not part.is_complete), default="")
    keys = {each for part in parts for each in part.keys if each[0] >= floor and (not before or each[0] < before)}
    return RunKeyPage.sorted(keys, is_complete=all(part.is_complete for part in parts))


def partition_key(run: Run) -> str:
    """The partition of background work that a run is."""
    return f"{run.fqn}/{run.run_id}"


def run_of(key: str) -> Run:
    """The inverse: a run's id has no slash."""
    fqn, _, run_id = key.rpartition("/")
    return Run(fqn, run_id)
