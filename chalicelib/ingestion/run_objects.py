"""Ingest objects of runs: writes rows of segments and runs, and a heartbeat marker, and returns the record for the report."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from chalicelib.catalog.runs import RunCatalog, outcome_of_end
from chalicelib.errors import DamagedLogError, InvalidInputError, ObjectNotFoundError, UnavailableError
from chalicelib.ingestion.notification import ObjectEvent
from chalicelib.ingestion.report import Record
from chalicelib.ingestion.run_files import run_object_metadata
from chalicelib.ports import DELETED, FAILED, LOST, ObjectInfo, ObjectStore, PutOptions, Run, SegmentEntry, SegmentIndex
from chalicelib.runlog.artifact import artifact_of
from chalicelib.runlog.attempts import read_start
from chalicelib.runlog.choice import choice_of_segment, put_choice
from chalicelib.runlog.layout import Layout, ParsedKey
from chalicelib.runlog.segment import SEAL, entry_of

_HEARTBEAT_MS = 60_000
_UNREPORTED = frozenset(["bundle", "marker", "retired", "tombstone", "unfinished"])
"""Kinds that are not reported and need no request. Sidecars are indexed before they are bundled."""
_SIDECARS = frozenset(["sidecar", "writer", "step", "chosen"])
"""Sidecar objects, which describe events of the log: indexed, not reported."""
_FAILURES = frozenset([FAILED, LOST])

EARLY_FLUSH_S = 20.0
"""Time limit of an early flush, skipped if the function has less time left; the schedule compacts what remains."""


@dataclass(frozen=True, slots=True)
class RunObjects:
    """Ingests a run's objects. ``early_flush`` is called for a run each time its log has grown by ``watermark_bytes``,
    ``index_sidecar`` for each sidecar object, which describes events of the log.

    A segment costs a HEAD, a row in each table and a report; once a minute and run also a marker; the first of a run with another browser than
    the run log also a PUT of the choice.
    """

    bucket: str
    store: ObjectStore
    index: SegmentIndex
    runs: RunCatalog
    layout: Layout
    watermark_bytes: int
    early_flush: Callable[[Run], None]
    index_sidecar: Callable[[ParsedKey], None] = lambda _: None

    def parse(self, event: ObjectEvent) -> ParsedKey:
        """The run and kind of an object. Raises InvalidInputError."""
        parsed = self.layout.parse(event.key)
        if parsed is None:
            raise InvalidInputError(f"not an object of a run bucket={event.bucket} key={event.key[:200]}")
        return parsed

    def ingest_object(self, event: ObjectEvent, parsed: ParsedKey, due: list[Run]) -> Record | None:
        """The record of an object, or None if it is not reported: a marker, entries of deleted segments, an object that a
        deleted run has left, or an object whose removal loses no data. Adds runs that have outgrown the watermark to ``due``.
        Raises ObjectNotFoundError, DamagedLogError, UnavailableError."""
        if not event.created and parsed.kind == "logs":
            self._removed(event.key, parsed.run)
        if parsed.kind in _UNREPORTED or not event.created:
            return None
        if parsed.kind in _SIDECARS:
            self.index_sidecar(parsed)
            return None
        if parsed.kind == "start":
            self._started(parsed.run)
            return None
        info = self.store.head(event.key)
        entry = None
        if parsed.kind == "segment":
            entry = self._segment(parsed, info, due)
            if entry is None:
                return None
        elif not self._artifact(parsed, info):
            return None
        end = _end_metadata(parsed.run, entry)
        metadata = run_object_metadata(parsed.run, info, entry) | end
        failed = end.get("outcome") in _FAILURES
        return Record(f"s3://{self.bucket}/{info.key}", info.size, info.last_modified_ms, metadata, failed)

    def flush(self, run: Run) -> None:
        """Compact a run ahead of the schedule, to keep its pending segments few. An error is ignored: the schedule compacts it
        anyway."""
        try:
            self.early_flush(run)
        except (UnavailableError, DamagedLogError):
            return

    def _removed(self, key: str, run: Run) -> None:
        """The row contains no text of a log that was deleted."""
        with suppress(ObjectNotFoundError):
            self.store.head(key)
            return  # written again
        self.runs.remove_explanation(run)

    def _started(self, run: Run) -> None:
        start = read_start(self.store, self.layout, run)
        if start is None:
            raise ObjectNotFoundError(f"the start of a run is gone run={run.fqn}/{run.run_id}")
        self.runs.record_start(run, start)

    def _segment(self, parsed: ParsedKey, info: ObjectInfo, due: list[Run]) -> SegmentEntry | None:
        """Record a segment. None, without a write, if it is the seal of a deleted run."""
        entry = entry_of(parsed.sequence or 0, info.metadata, info.size)
        if entry.reason == DELETED:
            return None
        if entry.sequence == 0 and (choice := choice_of_segment(info.metadata)):
            put_choice(self.store, self.layout, parsed.run, choice)
        self.index.put(parsed.run, [entry])
        landed = self.runs.record_segment(parsed.run, entry)
        if landed.advanced:
            self._heartbeat(parsed.run, entry, landed.previous_append_ms)
        if entry.end_byte // self.watermark_bytes > entry.byte // self.watermark_bytes:
            due.append(parsed.run)
        return entry

    def _artifact(self, parsed: ParsedKey, info: ObjectInfo) -> bool:
        """Record an artifact. False, without a write, if its run is deleted."""
        artifact, run = artifact_of(info), parsed.run
        if artifact.is_deleted:
            return False
        is_final = parsed.kind == "logs"
        if artifact.lines is None:
            self.runs.record_legacy_artifact(run, artifact.bytes, info.last_modified_ms, final=is_final)
        elif is_final:
            self.runs.record_finalization(
                run, artifact.lines, artifact.bytes, artifact.next_segment, known_since_ms(info.last_modified_ms)
            )
        else:
            self.runs.record_compaction(run, artifact.bytes, artifact.next_segment, known_since_ms(info.last_modified_ms))
        return True

    def _heartbeat(self, run: Run, entry: SegmentEntry, previous_ms: int | None) -> None:
        """Write a marker with the connector that was last seen, about once a minute. It serves diagnostics only, so an error is
        ignored."""
        if previous_ms is not None and previous_ms // _HEARTBEAT_MS == entry.appended_ms // _HEARTBEAT_MS:
            return
        try:
            self.store.put(self.layout.marker(run, entry.connector or entry.session), b"", PutOptions())
        except UnavailableError:
            return


def _end_metadata(run: Run, entry: SegmentEntry | None) -> dict[str, Any]:
    """The end of the run, if the object is its seal, else empty."""
    if entry is None or entry.kind != SEAL:
        return {}
    metadata: dict[str, Any] = {"fqn": run.fqn, "run_id": run.run_id, "outcome": outcome_of_end(entry.reason, entry.end)}
    if end := entry.end:
        facts = {"signal": end.signal, "exception": end.exception, "failed_step": end.step, "lost_lines": end.lost_lines}
        metadata |= {"exit_code": end.exit_code} if end.exit_code is not None else {}
        metadata |= {name: value for name, value in facts.items() if value}
    return metadata


def known_since_ms(modified_ms: int) -> int:
    """The time of an artifact, rounded up to S3's whole seconds: its segments are older. It is the start of a run that is known
    by the artifact alone, until its segments give a better one."""
    return modified_ms // 1000 * 1000 + 1000
