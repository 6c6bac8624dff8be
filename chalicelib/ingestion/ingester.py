"""Turn notifications into catalog rows, markers and reports.

Every write is keyed by its object and writes the object's current state, so notifications may be duplicated, late or out of order.
Invalid input is reported and acknowledged; an internal or AWS error fails its message, which the queue delivers again.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field

from chalicelib.archive.objects import ArchiveObjects, object_ref
from chalicelib.catalog.registration import Description, FileCatalogWriter, ObjectRef, RegistrationResult
from chalicelib.deadline import Deadline
from chalicelib.errors import DamagedLogError, InvalidInputError, ObjectNotFoundError, RewrittenError, UnavailableError
from chalicelib.ingestion.notification import ObjectEvent, parse_notification
from chalicelib.ingestion.report import Record, Report
from chalicelib.ingestion.run_files import RunFiles
from chalicelib.ingestion.run_objects import EARLY_FLUSH_S, RunObjects
from chalicelib.ports import Clock, Message, Publisher, Run

Result = Report | UnavailableError
"""The result of a message."""
_LOOKS = 3
"""Attempts to read an object that is rewritten meanwhile; then its message is delivered again."""


@dataclass(slots=True)
class _MessageState:
    """A message in progress. ``error``: it failed, and is delivered again."""

    records: list[Record] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)
    files: dict[ObjectRef, bool] = field(default_factory=dict)  # value: whether any event is a creation
    error: UnavailableError | None = None

    def note(self, ref: ObjectRef, *, created: bool) -> None:
        """Add a file's object; ``created`` if any of its events is a creation."""
        self.files[ref] = created or self.files.get(ref, False)


@dataclass(frozen=True, slots=True)
class Ingester:
    """Ingests a batch of messages together: catalogues the files of all of them at once, and sends reports ten at a time."""

    run_objects: RunObjects
    run_files: RunFiles
    archive: ArchiveObjects
    registration: FileCatalogWriter
    clock: Clock
    publisher: Publisher | None

    def ingest(self, bodies: Sequence[str], deadline: Deadline) -> list[Result]:
        """Ingest and report messages. An error in place of a report: that message must not be acknowledged."""
        start_ms, started_s = self.clock.now_ms(), self.clock.monotonic_s()
        due: list[Run] = []
        messages = [self._parse(body, due) for body in bodies]
        self._catalogue([message for message in messages if not message.error], deadline)
        duration_s = self.clock.monotonic_s() - started_s
        results = self._publish_reports(
            [message.error or Report(start_ms, duration_s, message.records, message.problems) for message in messages]
        )
        for run in dict.fromkeys(due):
            if deadline.remaining_s() > EARLY_FLUSH_S:  # else the schedule compacts it
                self.run_objects.flush(run)
        return results

    def _parse(self, body: str, due: list[Run]) -> _MessageState:
        message = _MessageState()
        try:
            notification = parse_notification(body)
        except InvalidInputError as error:
            message.problems.append(str(error))
            return message
        message.problems += notification.problems
        for event in notification.events:
            try:
                self._dispatch(event, message, due)
            except (InvalidInputError, DamagedLogError) as error:
                message.problems.append(str(error))
            except ObjectNotFoundError:
                message.problems.append(f"object is gone key={event.key}")
            except UnavailableError as error:
                message.error = error
            except Exception as error:  # a bug that fails one message must not fail the whole batch
                message.error = _unexpected(error)
        return message

    def _dispatch(self, event: ObjectEvent, message: _MessageState, due: list[Run]) -> None:
        if event.bucket == self.archive.bucket:
            message.note(object_ref(event.bucket, event.key), created=event.created)
            return
        if event.bucket != self.run_objects.bucket:
            raise InvalidInputError(f"unknown bucket bucket={event.bucket} key={event.key[:200]}")
        parsed = self.run_objects.parse(event)
        record = self.run_objects.ingest_object(event, parsed, due)
        if parsed.kind == "logs":
            message.note(self.run_files.ref(event.key), created=record is not None)
        elif record:
            message.records.append(record)

    def _catalogue(self, messages: Sequence[_MessageState], deadline: Deadline) -> None:
        def describe(ref: ObjectRef) -> Description:
            looker = self.archive if ref.bucket == self.archive.bucket else self.run_files
            try:
                for _ in range(_LOOKS - 1):
                    with suppress(RewrittenError):
                        return looker.describe(ref, deadline)
                return looker.describe(ref, deadline)
            except UnavailableError:
                raise
            except Exception as error:
                raise _unexpected(error) from error

        refs = dict.fromkeys(ref for message in messages for ref in message.files)
        outcomes = self.registration.update(list(refs), describe) if refs else {}
        for message in messages:
            for ref, created in message.files.items():
                _add_to_report(message, ref, outcomes[ref], created=created)

    def _publish_reports(self, results: Sequence[Result]) -> list[Result]:
        """Send the reports; an unsent report fails its message."""
        outgoing = [
            (number, message)
            for number, result in enumerate(results)
            if isinstance(result, Report) and (result.records or result.problems)
            for message in result.messages()
        ]
        errors = self._publish([message for _, message in outgoing])
        failed = {number: error for (number, _), error in zip(outgoing, errors, strict=True) if error}
        return [failed.get(number, result) for number, result in enumerate(results)]

    def _publish(self, messages: Sequence[Message]) -> Sequence[UnavailableError | None]:
        if not (self.publisher and messages):
            return [None] * len(messages)
        try:
            return self.publisher.publish(messages)
        except UnavailableError as error:
            return [error] * len(messages)


def _unexpected(error: Exception) -> UnavailableError:
    failure = UnavailableError(f"unexpected {type(error).__name__}: {error}")
    failure.__cause__ = error
    return failure


def _add_to_report(message: _MessageState, ref: ObjectRef, outcome: RegistrationResult, *, created: bool) -> None:
    """Add a file's result to its message's report. Removals are not reported, even if the key has an object again."""
    found = outcome.description
    if outcome.error:
        message.error = outcome.error
    elif not created:
        return
    elif found.record:
        record = found.record
        metadata = record.metadata
        message.records.append(
            Record(record.url, record.size, record.create_time, metadata.document(), warnings=metadata.warnings())
        )
    else:
        message.problems.append(found.problem or f"object is gone key={ref.key}")
