"""From a notification to catalog rows, a heartbeat marker and a report.

Everything is keyed by what it describes and moves forward only, so a notification may come twice, late, or out of order. Bad input is
reported and done with; trouble of ours is raised, and the queue brings the message again.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from chalicelib.catalog.runs import RunCatalog
from chalicelib.errors import DamagedLogError, InvalidInputError, ObjectNotFoundError, UnavailableError
from chalicelib.ingestion.notification import ObjectEvent, parse_notification
from chalicelib.ingestion.report import Record, Report, record_of
from chalicelib.ports import Clock, ObjectInfo, ObjectStore, Publisher, PutOptions, Run, SegmentEntry, SegmentIndex
from chalicelib.runlog.artifact import artifact_of
from chalicelib.runlog.layout import Layout, ParsedKey
from chalicelib.runlog.segment import entry_of

_HEARTBEAT_MS = 60_000


@dataclass(frozen=True, slots=True)
class Ingester:
    """Ingests messages. ``early_flush`` is called for a run whenever its log has grown by ``watermark_bytes``.

    A segment costs a HEAD, a row in each table and a report; once a minute and run a marker.
    """

    bucket: str
    store: ObjectStore
    index: SegmentIndex
    runs: RunCatalog
    layout: Layout
    clock: Clock
    publisher: Publisher | None
    watermark_bytes: int
    early_flush: Callable[[Run], None]

    def ingest(self, body: str) -> Report:
        """Ingest one message and report it. Raises UnavailableError: nothing of the message may count as done."""
        start_ms, started_s = self.clock.now_ms(), self.clock.monotonic_s()
        records, problems, due = self._ingest_all(body)
        report = Report(start_ms, self.clock.monotonic_s() - started_s, records, problems)
        if self.publisher and (records or problems):
            for message in report.messages():
                self.publisher.publish(message, {"status": report.status})
        for run in due:
            self._flush(run)
        return report

    def _ingest_all(self, body: str) -> tuple[list[Record], list[str], list[Run]]:
        records: list[Record] = []
        due: list[Run] = []
        try:
            notification = parse_notification(body)
        except InvalidInputError as error:
            return [], [str(error)], []
        problems = list(notification.problems)
        for event in notification.events:
            try:
                record = self._ingest_one(event, due)
            except (InvalidInputError, DamagedLogError) as error:
                problems.append(str(error))
            except ObjectNotFoundError:
                problems.append(f"object is gone key={event.key}")
            else:
                if record:
                    records.append(record)
        return records, problems, due

    def _ingest_one(self, event: ObjectEvent, due: list[Run]) -> Record | None:
        """The record of an object, or None for one that says nothing: a marker, or one whose removal loses nothing."""
        parsed = self.layout.parse(event.key)
        if event.bucket != self.bucket or parsed is None:
            raise InvalidInputError(f"not an object of a run bucket={event.bucket} key={event.key[:200]}")
        if parsed.kind == "marker" or not event.created:
            return None
        info = self.store.head(event.key)
        if parsed.kind == "segment":
            return record_of(self.bucket, parsed.run, info, self._segment(parsed, info, due))
        self._artifact(parsed, info)
        return record_of(self.bucket, parsed.run, info, None)

    def _segment(self, parsed: ParsedKey, info: ObjectInfo, due: list[Run]) -> SegmentEntry:
        entry = entry_of(parsed.sequence or 0, info.metadata, info.size)
        self.index.put(parsed.run, [entry])
        landed = self.runs.segment_landed(parsed.run, entry)
        if landed.advanced:
            self._heartbeat(parsed.run, entry, landed.previous_append_ms)
        if entry.end_byte // self.watermark_bytes > entry.byte // self.watermark_bytes:
            due.append(parsed.run)
        return entry

    def _artifact(self, parsed: ParsedKey, info: ObjectInfo) -> None:
        artifact = artifact_of(info)
        if parsed.kind == "partial":
            self.runs.compacted(parsed.run, artifact.bytes, artifact.next_segment, info.last_modified_ms)
        else:
            self.runs.finalized(parsed.run, artifact.lines or 0, artifact.bytes, artifact.next_segment, info.last_modified_ms)

    def _heartbeat(self, run: Run, entry: SegmentEntry, previous_ms: int | None) -> None:
        """A marker that tells which connector was last seen, about once a minute. For diagnostics: failing to write it fails nothing."""
        if previous_ms is not None and previous_ms // _HEARTBEAT_MS == entry.appended_ms // _HEARTBEAT_MS:
            return
        try:
            self.store.put(self.layout.marker(run, entry.connector or entry.session), b"", PutOptions())
        except UnavailableError:
            return

    def _flush(self, run: Run) -> None:
        """Out of turn, to keep what is pending small. Failing is no loss: the schedule comes anyway."""
        try:
            self.early_flush(run)
        except (UnavailableError, DamagedLogError):
            return
