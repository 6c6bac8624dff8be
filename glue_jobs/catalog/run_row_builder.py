"""Build a run's row from its objects on S3: the row that ingestion and the schedules write once they have processed all of them.

Decision 0016 lists the S3 source of each attribute.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from chalicelib.catalog.runs import last_attributes, shard_of
from chalicelib.ports import Run, RunStart, SegmentEntry


@dataclass(frozen=True, slots=True)
class ArtifactExtent:
    """The extent of an artifact. ``lines`` None: OpenMetadata wrote it, not Runlake. ``written_ms``: S3's modification time.
    ``zone``: the run's."""

    bytes: int
    lines: int | None
    next_segment: int
    written_ms: int
    zone: str = ""


@dataclass(frozen=True, slots=True)
class RunFacts:
    """The state of a run on S3. ``entries``: of all segments, ascending. ``is_settled``: the run needs no more background work.

    ``since_ms``: the start time known from the row, if it is earlier than every time on S3, else 0. ``start``: None of a run
    without a start object. ``alive_ms``: the last heartbeat in its row (S3 has none), 0 for none.
    """

    entries: Sequence[SegmentEntry]
    partial: ArtifactExtent | None = None
    logs: ArtifactExtent | None = None
    is_settled: bool = False
    since_ms: int = 0
    start: RunStart | None = None
    alive_ms: int = 0


def run_item(run: Run, facts: RunFacts, keep_s: int) -> dict[str, Any]:
    """The item of table ``runs``; only its key (and heartbeat) if there is neither an entry nor an artifact."""
    item: dict[str, Any] = {"fqn": run.fqn, "run_id": run.run_id} | ({"alive_ms": facts.alive_ms} if facts.alive_ms else {})
    ours = [extent for extent in (facts.partial, facts.logs) if extent and extent.lines is not None]
    if not facts.entries and not ours:
        item |= _of_openmetadata(facts, keep_s)
        return item | (_of_start(run, facts.start, keep_s) if facts.start and "started_ms" not in item else {})
    item |= _of_artifacts(ours, facts.logs, keep_s)
    if facts.entries:
        item |= _of_segments(run, facts, keep_s)
    if facts.since_ms:
        item["started_ms"] = min(item["started_ms"], facts.since_ms)
    if facts.start:
        item |= {"start": asdict(facts.start), "started_ms": min(item["started_ms"], facts.start.started_ms)}
    return item


def _of_start(run: Run, start: RunStart, keep_s: int) -> dict[str, Any]:
    """The row of a run that was started and has no line yet."""
    return {
        "start": asdict(start),
        "started_ms": start.started_ms,
        "last_append_ms": start.registered_ms,
        "expires_at": start.registered_ms // 1000 + keep_s,
        "activity_shard": shard_of(run),
    }


def _of_segments(run: Run, facts: RunFacts, keep_s: int) -> dict[str, Any]:
    last = facts.entries[-1]
    item: dict[str, Any] = {
        "segments": last.sequence + 1,
        "lines": last.end_line,
        "bytes": last.end_byte,
        "epoch": last.epoch,
        "seal": last.reason,
        **last_attributes(run, last),
        "started_ms": min(entry.appended_ms for entry in facts.entries),
        "last_append_ms": last.appended_ms,
        "expires_at": last.appended_ms // 1000 + keep_s,
    }
    return item if facts.is_settled else item | {"activity_shard": shard_of(run)}


def _of_artifacts(ours: Sequence[ArtifactExtent], logs: ArtifactExtent | None, keep_s: int) -> dict[str, Any]:
    if not ours:
        return {}
    furthest, first_ms = max(ours, key=lambda extent: extent.next_segment), min(extent.written_ms for extent in ours)
    item: dict[str, Any] = {
        "compacted_segments": furthest.next_segment,
        "compacted_bytes": furthest.bytes,
        "started_ms": first_ms,
        "last_append_ms": first_ms,
        "expires_at": first_ms // 1000 + keep_s,
    }
    item |= {"zone": furthest.zone} if furthest.zone else {}
    if logs and logs.lines is not None:
        item |= {"final_segments": logs.next_segment, "final_lines": logs.lines, "final_bytes": logs.bytes}
    return item


def _of_openmetadata(facts: RunFacts, keep_s: int) -> dict[str, Any]:
    extents = [each for each in (facts.partial, facts.logs) if each]
    if not extents:
        return {}
    newest = max(extents, key=lambda each: each.written_ms)
    times = {"started_ms": newest.written_ms, "last_append_ms": newest.written_ms, "expires_at": newest.written_ms // 1000 + keep_s}
    item = {"compacted_segments": 0, "compacted_bytes": newest.bytes, **times}
    return item | ({"final_segments": 0, "final_lines": 0, "final_bytes": facts.logs.bytes} if facts.logs else {})
