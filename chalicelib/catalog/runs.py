"""The catalog of runs: one row for each run, updated forward only.

Notifications may be duplicated, late or out of order, so every write is conditional on its segment number: in any order of events,
a row has the values of its highest-numbered segment.

Table ``runs``: hash ``fqn``, range ``run_id``. Index ``by-start`` (``fqn``, ``started_ms``) lists a pipeline's runs by time. Index
``activity`` (``activity_shard``, ``last_append_ms``) has only runs that need background work: open, sealed and not finalized, or
finalized with segments to retire. Each append moves an entry of this index, so it is sharded (decision 0013). Index ``by-outcome``
(``outcome``, ``ended_at``) has the keys of ended runs: it changes with the outcome, never with an append (decision 0041).
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
"""A run whose client promises no heartbeats is silent after this time without a line."""
MISSED_HEARTBEATS = 3
"""Consecutive missed heartbeats until a run is silent: two lost requests are tolerated."""
SHARDS = 64
"""A partition of an index accepts 1,000 write units a second, and an append needs two: 32,000 appends a second."""
MAX_MS = 10**15 - 1
"""The greatest time of an activity key."""
EXPLAIN_WITHIN_MS = 6 * 3_600_000
"""A failed run waits this long after its end for its explanation, then it needs no more background work (decision 0045)."""
EXPLAINED_OUTCOMES = (FAILED, LOST)
"""Runs with one of these may have an explanation."""
RUNNING, SILENT = "running", "silent"
ENDED = (SUCCEEDED, FAILED, CANCELLED, LOST, UNKNOWN)
"""Outcomes of runs that have ended."""


@dataclass(frozen=True, slots=True)
class RunRow:
    """A run's row. Numbers are totals of the log; ``seal`` is the reason of the seal at its end, else empty.

    ``segments``: the highest known segment number plus one; ``compacted_segments`` and ``final_segments``: the first segment number
    that is not in an artifact (partial.txt or logs.txt, whichever reaches further), or not in logs.txt. Times in ms since the
    epoch. Decision 0016 lists the S3 source of each attribute. ``start``: None of a run without a start, which is attempt 1.
    ``end``: the client's report with the close, None without one. ``alive_ms``: its last heartbeat, 0: none (decision 0042).
    ``explanation``: JSON, see ``explanation.explanation``; of the first ``explained_segments`` segments, so it may be out of date.
    ``segment_zone``: the zone in its last segment, see ``zone``.
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
    explained_segments: int = 0
    explanation: str = ""
    segment_zone: str = ""

    @property
    def zone(self) -> str:
        """Its zone, of times without one in its lines; empty: UTC, none was stated."""
        return self.segment_zone or (self.start.zone if self.start and not self.segments else "")

    def outcome_at(self, now_ms: int) -> str:
        """``running``, ``silent``, or the result of ``outcome_of_end``."""
        if self.seal or not self._is_begun:
            return outcome_of_end(self.seal, self.end)
        return RUNNING if self.silent_since_ms(now_ms) is None else SILENT

    @property
    def is_seal_unknown(self) -> bool:
        """Whether the log is finalized before the notification of its seal arrived, so the row has no outcome yet."""
        return not self.seal and self.status == "finalized"

    @property
    def activity_key(self) -> str:
        """Its key in lists across pipelines, by last activity."""
        return activity_key(self.run, self.last_append_ms)

    @property
    def last_sign_ms(self) -> int:
        """The last sign of life: a line, a heartbeat, or the start; not the seal of the sweep."""
        return max(self.ended_ms, self.alive_ms)

    @property
    def ended_ms(self) -> int:
        """The time of its end, as its client reports it; otherwise of its last line or its close; of a run that the sweep ended, its last
        known sign of life. Not before its start."""
        return max(self.end.ended_ms, self.started_ms) if self.end and self.end.ended_ms else self.last_append_ms

    @property
    def heartbeat_limit_ms(self) -> int:
        """The longest pause between signs of life of a client that promises heartbeats; 0: it promises none."""
        return MISSED_HEARTBEATS * self.start.heartbeat_s * 1000 if self.start else 0

    def duration_ms(self, now_ms: int) -> int:
        """The time from its start to its end; of a running run until now, of a silent one until its last sign of life."""
        until_ms = {RUNNING: now_ms, SILENT: self.last_sign_ms}.get(self.outcome_at(now_ms), self.ended_ms)
        return max(0, until_ms - self.started_ms)

    def silent_since_ms(self, now_ms: int) -> int | None:
        """The last sign of life of a running run that is overdue for the next one, else None."""
        limit_ms = self.heartbeat_limit_ms or SILENT_AFTER_MS
        is_overdue = 0 < self.last_sign_ms < now_ms - limit_ms
        return self.last_sign_ms if is_overdue and self.status == "open" and self._is_begun else None

    @property
    def _is_begun(self) -> bool:
        """Whether the run has segments, or a start and is not finalized. A run that is known by its artifacts alone is never
        open."""
        return self.segments > 0 or (self.start is not None and self.status == "open")

    @property
    def status(self) -> str:
        """open, sealed or finalized."""
        if self.final_segments and self.final_segments >= self.segments:
            return "finalized"
        return "sealed" if self.seal else "open"

    @property
    def is_explained(self) -> bool:
        """Whether ``explanation`` is that of its final log."""
        return self.status == "finalized" and self.explained_segments == self.final_segments

    def awaits_explanation(self, now_ms: int) -> bool:
        """Whether the schedule has to find out why it failed or was lost."""
        has_failed = self.seal != "" and outcome_of_end(self.seal, self.end) in EXPLAINED_OUTCOMES
        return (
            has_failed and self.status == "finalized" and not self.is_explained and now_ms - self.last_append_ms < EXPLAIN_WITHIN_MS
        )

    @property
    def pending_bytes(self) -> int:
        """Bytes in segments only, not in an artifact."""
        return max(0, self.bytes - self.compacted_bytes) if self.status != "finalized" else 0

    @property
    def pending_segments(self) -> int:
        """Segments that are in no artifact yet."""
        return max(0, self.segments - max(self.compacted_segments, self.final_segments))

    @property
    def is_due(self) -> bool:
        """Whether compaction or finalization is due."""
        return self.pending_segments > 0


@dataclass(frozen=True, slots=True)
class RunPage:
    """Rows of one pipeline, newest first. ``cursor``: of the next page, None at the end."""

    rows: Sequence[RunRow]
    cursor: str | None


@dataclass(frozen=True, slots=True)
class RunKeyPage:
    """Runs of one outcome with their activity keys, latest activity first. ``is_complete``: no run follows."""

    keys: Sequence[tuple[str, Run]]
    is_complete: bool

    @classmethod
    def sorted(cls, keys: Iterable[tuple[str, Run]], *, is_complete: bool) -> Self:
        """A page of unordered, distinct keys."""
        return cls(sorted(keys, key=lambda each: each[0], reverse=True), is_complete)


@dataclass(frozen=True, slots=True)
class SegmentUpdate:
    """The result of recording a segment. ``advanced``: the row has changed; ``previous_append_ms``: of the segment before, None
    for the first."""

    advanced: bool
    previous_append_ms: int | None


class RunCatalog(Protocol):
    """Rows of runs. Every write may be repeated and reordered; errors are UnavailableError."""

    def record_start(self, run: Run, start: RunStart) -> None:
        """Record the start of a run. One write, two or three if the row exists already."""

    def record_segment(self, run: Run, entry: SegmentEntry) -> SegmentUpdate:
        """Record a segment. One write, two if it is late and the earliest so far."""

    def record_compaction(self, run: Run, size: int, next_segment: int, at_ms: int) -> None:
        """Record the extent of partial.txt."""

    def record_finalization(self, run: Run, lines: int, size: int, next_segment: int, at_ms: int) -> None:
        """Record the extent of logs.txt. One write or two."""

    def record_legacy_artifact(self, run: Run, size: int, at_ms: int, *, final: bool) -> None:
        """Record an artifact that OpenMetadata wrote at ``at_ms``; ``final``: logs.txt. No effect if the run has segments."""

    def record_heartbeat(self, run: Run, at_ms: int) -> bool:
        """Record a heartbeat of a running run. False, without a write, if there is no row, the run has ended, or a later heartbeat
        is recorded. One write."""

    def record_explanation(self, run: Run, next_segment: int, explanation: str) -> None:
        """Record the explanation of a finalized log that ends before ``next_segment``. No effect if logs.txt has another extent, the run
        was reopened, or this log is explained already. One write."""

    def remove_explanation(self, run: Run) -> None:
        """Replace the explanation of a finalized log, which no longer exists, by an empty text, so that none is recorded later. One write."""

    def mark_retired(self, run: Run, next_segment: int) -> None:
        """Record that a run needs no more background work, unless it has grown beyond ``next_segment``."""

    def get(self, run: Run) -> RunRow | None:
        """One row. Raises RunDeletedError."""

    def newest(self, fqn: str, limit: int, cursor: str | None) -> RunPage:
        """Runs of a pipeline, newest first. Raises InvalidInputError for an invalid cursor."""

    def get_many(self, runs: Sequence[Run]) -> Mapping[Run, RunRow]:
        """Existing rows of up to 100 runs. One request."""

    def ended(self, outcome: str, since_ms: int, before: str, limit: int) -> RunKeyPage:
        """Up to ``limit`` runs that ended with an outcome at ``since_ms`` or later, with activity keys below ``before`` (empty:
        no bound). One request."""

    def running(self, since_ms: int, before: str, limit: int) -> RunKeyPage:
        """The same for runs in the index ``activity``, including sealed ones; ``limit`` applies to each shard. A request for
        each shard."""

    def forget(self, run: Run) -> None:
        """Delete the row of an expired run, so that no list names it. Succeeds without a row. One write."""

    def mark_deleted(self, run: Run, at_ms: int) -> None:
        """Replace the row of a run that was deleted on purpose by its mark, which is in no list and which no other write changes. One
        write."""

    def active(self, before_ms: int) -> Iterator[RunRow]:
        """Runs that need background work and whose last segment is older than ``before_ms``. Queries the index, shards in
        parallel."""


def outcome_of_end(seal: str, end: RunEnd | None) -> str:
    """The outcome of an ended run: succeeded, failed, cancelled, lost (sealed by the sweep), or unknown (its client reports
    none). ``seal``: the reason of its seal."""
    if end:
        return end.outcome
    return LOST if seal == "abandoned" else UNKNOWN


def shard_of(run: Run) -> str:
    """The activity shard of a run."""
    return f"open#{blake2b(f'{run.fqn}/{run.run_id}'.encode(), digest_size=2).digest()[0] % SHARDS}"


LAST_ATTRIBUTES = ("zone", "end", "outcome", "ended_at")
"""Attributes of a run's item: its zone, its client's report, and the keys of index ``by-outcome``."""


def last_attributes(run: Run, last: SegmentEntry) -> dict[str, Any]:
    """The values of ``LAST_ATTRIBUTES`` by a run's last segment: the zone if one was stated, the others of a seal."""
    zone = {"zone": last.zone} if last.zone else {}
    if not last.reason:
        return zone
    indexed = zone | {"outcome": outcome_of_end(last.reason, last.end), "ended_at": activity_key(run, last.appended_ms)}
    return indexed | ({"end": asdict(last.end)} if last.end else {})


def activity_key(run: Run, at_ms: int) -> str:
    """A unique text that sorts runs by time: the time in ms, and a digest of the run's name."""
    return f"{at_ms:015d}.{blake2b(partition_key(run).encode(), digest_size=8).hexdigest()}"


def activity_key_ms(key: str) -> int:
    """The time in an activity key. Raises InvalidInputError for any other text."""
    if not re.fullmatch(r"[0-9]{15}\.[0-9a-f]{16}", key, re.ASCII):
        raise InvalidInputError("invalid cursor: omit it to start from the first page")
    return int(key[:15])


def merge_newest(parts: Sequence[RunKeyPage], before: str) -> RunKeyPage:
    """Merge several pages. An incomplete page may continue after its last key, so keys below that are left out."""
    floor = max((part.keys[-1][0] for part in parts if part.keys and not part.is_complete), default="")
    keys = {each for part in parts for each in part.keys if each[0] >= floor and (not before or each[0] < before)}
    return RunKeyPage.sorted(keys, is_complete=all(part.is_complete for part in parts))


def partition_key(run: Run) -> str:
    """The key of a run's partition of background work."""
    return f"{run.fqn}/{run.run_id}"


def run_of(key: str) -> Run:
    """The inverse of ``partition_key``: a run id has no slash."""
    fqn, _, run_id = key.rpartition("/")
    return Run(fqn, run_id)
