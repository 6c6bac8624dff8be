"""From notifications to catalog rows, markers and reports.

Everything is keyed by what it describes and becomes what is true now, so a notification may come twice, late, or out of order. Bad input
is reported and done with; trouble of ours fails its message, and the queue brings it again.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field

from chalicelib.archive.objects import ArchiveObjects, archive_subject
from chalicelib.catalog.registration import Description, Outcome, Registration, Subject
from chalicelib.deadline import Deadline
from chalicelib.errors import DamagedLogError, InvalidInputError, ObjectNotFoundError, RewrittenError, UnavailableError
from chalicelib.ingestion.notification import ObjectEvent, parse_notification
from chalicelib.ingestion.report import Record, Report
from chalicelib.ingestion.run_files import RunFiles
from chalicelib.ingestion.run_objects import EARLY_FLUSH_S, RunObjects
from chalicelib.ports import Clock, Message, Publisher, Run

Result = Report | UnavailableError
"""What became of a message."""
_LOOKS = 3
"""At an object that becomes another one meanwhile, before its message waits."""


@dataclass(slots=True)
class _Working:
    """One message on its way to its report. ``error``: it failed, and comes again."""

    records: list[Record] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)
    files: dict[Subject, bool] = field(default_factory=dict)  # and whether it was created, by any of the events
    error: UnavailableError | None = None

    def note(self, subject: Subject, *, created: bool) -> None:
        """An event of a file's object."""
        self.files[subject] = created or self.files.get(subject, False)


@dataclass(frozen=True, slots=True)
class Ingester:
    """Ingests the messages of a batch together: files of all of them are catalogued at once, and reports are sent ten at a time."""

    run_objects: RunObjects
    run_files: RunFiles
    archive: ArchiveObjects
    registration: Registration
    clock: Clock
    publisher: Publisher | None

    def ingest(self, bodies: Sequence[str], deadline: Deadline) -> list[Result]:
        """Ingest messages and report each; an error in place of a report: nothing of that message may count as done."""
        start_ms, started_s = self.clock.now_ms(), self.clock.monotonic_s()
        due: list[Run] = []
        messages = [self._understood(body, due) for body in bodies]
        self._catalogue([message for message in messages if not message.error], deadline)
        duration_s = self.clock.monotonic_s() - started_s
        results = self._reported(
            [message.error or Report(start_ms, duration_s, message.records, message.problems) for message in messages]
        )
        for run in dict.fromkeys(due):
            if deadline.remaining_s() > EARLY_FLUSH_S:  # else the schedule does it
                self.run_objects.flush(run)
        return results

    def _understood(self, body: str, due: list[Run]) -> _Working:
        message = _Working()
        try:
            notification = parse_notification(body)
        except InvalidInputError as error:
            message.problems.append(str(error))
            return message
        message.problems += notification.problems
        for event in notification.events:
            try:
                self._sorted(event, message, due)
            except (InvalidInputError, DamagedLogError) as error:
                message.problems.append(str(error))
            except ObjectNotFoundError:
                message.problems.append(f"object is gone key={event.key}")
            except UnavailableError as error:
                message.error = error
            except Exception as error:  # a fault of ours in one message is no reason to lose the others
                message.error = _unexpected(error)
        return message

    def _sorted(self, event: ObjectEvent, message: _Working, due: list[Run]) -> None:
        if event.bucket == self.archive.bucket:
            message.note(archive_subject(event.bucket, event.key), created=event.created)
            return
        if event.bucket != self.run_objects.bucket:
            raise InvalidInputError(f"not a bucket of ours bucket={event.bucket} key={event.key[:200]}")
        parsed = self.run_objects.parse(event)
        record = self.run_objects.land(event, parsed, due)
        if parsed.kind == "logs":
            message.note(self.run_files.subject(event.key), created=record is not None)
        elif record:
            message.records.append(record)

    def _catalogue(self, messages: Sequence[_Working], deadline: Deadline) -> None:
        def describe(subject: Subject) -> Description:
            looker = self.archive if subject.bucket == self.archive.bucket else self.run_files
            try:
                for _ in range(_LOOKS - 1):
                    with suppress(RewrittenError):
                        return looker.describe(subject, deadline)
                return looker.describe(subject, deadline)
            except UnavailableError:
                raise
            except Exception as error:
                raise _unexpected(error) from error

        subjects = dict.fromkeys(subject for message in messages for subject in message.files)
        outcomes = self.registration.bring_up_to_date(list(subjects), describe) if subjects else {}
        for message in messages:
            for subject, created in message.files.items():
                _tell(message, subject, outcomes[subject], created=created)

    def _reported(self, results: Sequence[Result]) -> list[Result]:
        """Send the reports; one that could not be sent fails its message."""
        told = [
            (number, message)
            for number, result in enumerate(results)
            if isinstance(result, Report) and (result.records or result.problems)
            for message in result.messages()
        ]
        errors = self._published([message for _, message in told])
        failed = {number: error for (number, _), error in zip(told, errors, strict=True) if error}
        return [failed.get(number, result) for number, result in enumerate(results)]

    def _published(self, messages: Sequence[Message]) -> Sequence[UnavailableError | None]:
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


def _tell(message: _Working, subject: Subject, outcome: Outcome, *, created: bool) -> None:
    """What a file's outcome means for its message's report. A removal is not reported, whatever stands there by now."""
    found = outcome.description
    if outcome.error:
        message.error = outcome.error
    elif not created:
        return
    elif found.record:
        record = found.record
        message.records.append(Record(record.url, record.size, record.create_time, record.metadata.document()))
    else:
        message.problems.append(found.problem or f"object is gone key={subject.key}")
