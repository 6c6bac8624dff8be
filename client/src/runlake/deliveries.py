"""How batches get into the archive: as lines of text, or as events. The shipper repeats unanswered requests for either.

A delivery defines how writing begins (``open``), how a batch is stored once however often it is sent (``append``), and how writing ends
(``close``).
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from hashlib import blake2b
from typing import Any, Protocol

from runlake.archive import Archive, text_of
from runlake.errors import AccessError, ApiError, RefusedError
from runlake.names import RunName
from runlake.starts import StartedRun

_LEVEL = 1  # of gzip: a third of the time of level 6 for a tenth more bytes
MAX_EVENTS = 10_000
"""Events that the archive accepts in one request."""
STEP = "@step"
_OF_STEP, _OF_EVENT = b'{"@step":', b'{"id":'
"""How a line of a step's update begins, and one of an event."""


@dataclass(frozen=True)
class AppendResult:
    """The result of a batch: items stored, items refused for good, and why the first of those was refused."""

    position: str
    items: int
    refused: int = 0
    reason: str = ""


@dataclass(frozen=True)
class WriterEnd:
    """The end of a writer of events: the number of ids that it assigned, and its latest timestamp."""

    count: int
    last_timestamp_ms: int | None = None


class Delivery(Protocol):
    """Stores one run's bytes in the archive. Bytes are lines, each ended by a newline."""

    @property
    def run(self) -> RunName:
        """The run that is written."""

    @property
    def unit(self) -> str:
        """What messages call its items: lines or events."""

    @property
    def needs_close(self) -> bool:
        """Whether it is opened as soon as there are bytes, and closed even if the run stays running."""

    @property
    def reaches_archive(self) -> bool:
        """Whether a stored batch shows the archive that the run is alive."""

    def for_attempt(self, started: StartedRun) -> Delivery:
        """The same for another attempt of the run."""

    def ending_before(self, packed: bytes) -> Delivery:
        """The same for a run that was closed: it ends before this batch, with which the next attempt begins."""

    def close_in_closed_run(self, archive: Archive) -> None:
        """Close what was opened in a run that was closed since. Idempotent. Raises ApiError, UnavailableError."""

    def fit_to_request(self, batch: bytes) -> bytes:
        """The start of a batch that fits into one request: a batch of several requests could end up in two attempts."""

    def pack(self, batch: bytes) -> bytes:
        """A batch in the form in which it is sent."""

    def count(self, batch: bytes | bytearray) -> int:
        """The number of items of a batch."""

    def open(self, archive: Archive, zone: str = "") -> str:
        """Begin to write; returns the position for the first batch. ``zone``: of times without one in its lines. Raises ApiError,
        UnavailableError."""

    def append(self, archive: Archive, packed: bytes, position: str) -> AppendResult:
        """Store a batch. Idempotent for the same batch and position. Raises ApiError (nothing is stored), UnavailableError."""

    def close(self, archive: Archive) -> None:
        """Close what ``open`` opened, not the run. Idempotent. Raises ApiError, UnavailableError."""

    def facts(self) -> dict[str, Any]:
        """The fields that ``delivery_of`` needs in another process."""

    def end_facts(self) -> dict[str, Any]:
        """Those that ``close`` needs in addition, once all bytes are put."""


@dataclass(frozen=True)
class TextDelivery:
    """Lines of a log. Each batch presents the position of the previous response."""

    run: RunName
    unit: str = "lines"
    needs_close: bool = False
    reaches_archive: bool = True

    def for_attempt(self, started: StartedRun) -> TextDelivery:
        """See ``Delivery``."""
        return replace(self, run=started.run)

    def ending_before(self, packed: bytes) -> TextDelivery:
        """See ``Delivery``."""
        return self

    def close_in_closed_run(self, archive: Archive) -> None:
        """Nothing to close."""

    def fit_to_request(self, batch: bytes) -> bytes:
        """All of it: the number of lines is not limited."""
        return batch

    def pack(self, batch: bytes) -> bytes:
        """Compressed with gzip."""
        import gzip

        return gzip.compress(batch, _LEVEL, mtime=0)

    def count(self, batch: bytes | bytearray) -> int:
        """The number of lines."""
        return batch.count(b"\n")

    def open(self, archive: Archive, zone: str = "") -> str:
        """Open a session."""
        return archive.open_session(self.run, zone)

    def append(self, archive: Archive, packed: bytes, position: str) -> AppendResult:
        """Append to the log."""
        answer = archive.append(self.run, packed, position)
        return AppendResult(str(answer["position"]), int(answer.get("lines", 0)))

    def close(self, archive: Archive) -> None:
        """Nothing to close."""

    def facts(self) -> dict[str, Any]:
        """No fields: the run is enough."""
        return {}

    def end_facts(self) -> dict[str, Any]:
        """No fields."""
        return {}


@dataclass(frozen=True)
class EventDelivery:
    """Events of one writer and updates of steps, as lines of JSON.

    The Idempotency-Key of a request is a hash of its bytes, which are unique in the writer because of their ids. Events are sent first, then
    updates of steps, which are idempotent, one request for each step. ``writer_end`` is called when all bytes are put.

    The ids of a writer start from 0 in each attempt: id ``first_id`` of the lines is id 0 of this attempt. ``end_id``: the attempt was closed,
    and the next one begins with this id of the lines.
    """

    run: RunName
    writer: str
    writer_end: Callable[[], WriterEnd]
    first_id: int = 0
    end_id: int | None = None
    unit: str = "events"
    needs_close: bool = True
    reaches_archive: bool = True

    def for_attempt(self, started: StartedRun) -> EventDelivery:
        """See ``Delivery``."""
        return replace(self, run=started.run, first_id=self.first_id if self.end_id is None else self.end_id, end_id=None)

    def ending_before(self, packed: bytes) -> EventDelivery:
        """See ``Delivery``. A batch without events has updates of steps only, which a closed run accepts too."""
        events = _events_of(packed)
        return replace(self, end_id=_id_of(events[0])) if events else self

    def close_in_closed_run(self, archive: Archive) -> None:
        """Report how many events there were until the run was closed."""
        if self.end_id is not None:
            archive.close_writer(self.run, self.writer, self.end_id - self.first_id)

    def fit_to_request(self, batch: bytes) -> bytes:
        """See ``Delivery``."""
        if batch.count(b"\n") <= MAX_EVENTS:
            return batch
        end = events = 0
        while end < len(batch) and events < MAX_EVENTS:
            events += not batch.startswith(_OF_STEP, end)
            end = batch.find(b"\n", end) + 1 or len(batch)
        return batch[:end]

    def pack(self, batch: bytes) -> bytes:
        """Unchanged."""
        return batch

    def count(self, batch: bytes | bytearray) -> int:
        """The number of events."""
        return batch.count(b"\n") - batch.count(b"\n" + _OF_STEP) - batch.startswith(_OF_STEP)

    def open(self, archive: Archive, zone: str = "") -> str:
        """Register the writer: from now on the run is not complete without it. Its events state their times."""
        archive.register_writer(self.run, self.writer)
        return ""

    def append(self, archive: Archive, packed: bytes, position: str) -> AppendResult:
        """Events, then steps."""
        events = self.events_in(packed)
        stored = self._append(archive, events, position) if events else AppendResult(position, 0)
        return self.update_steps(archive, packed, stored)

    def events_in(self, packed: bytes) -> list[bytes]:
        """The events of a batch as JSON, with their ids in this attempt."""
        return [_with_attempt_id(event, self.first_id) for event in _events_of(packed)]

    def update_steps(self, archive: Archive, packed: bytes, stored: AppendResult) -> AppendResult:
        """Send the updates of steps in a batch. Returns the batch's result. Raises AccessError, UnavailableError."""
        for step, facts in _steps_of(packed).items():
            try:
                archive.update_step(self.run, step, facts)
            except AccessError:
                raise
            except ApiError as error:  # a refused update of a step must not cost events
                stored = AppendResult(stored.position, stored.items, stored.refused, stored.reason or f"step {step}: {error}")
        return stored

    def close(self, archive: Archive) -> None:
        """Report how many events there were."""
        end = self.end_in_attempt()
        archive.close_writer(self.run, self.writer, end.count, end.last_timestamp_ms)

    def end_in_attempt(self) -> WriterEnd:
        """The writer's end, with the number of its ids in this attempt."""
        end = self.writer_end()
        return replace(end, count=end.count - self.first_id)

    def facts(self) -> dict[str, Any]:
        """The writer, and its ids in this attempt."""
        return {"writer": self.writer, "firstId": self.first_id, "endId": self.end_id}

    def end_facts(self) -> dict[str, Any]:
        """The writer's end."""
        end = self.writer_end()
        return {"count": end.count, "lastTimestampMs": end.last_timestamp_ms}

    def _append(self, archive: Archive, events: list[bytes], position: str) -> AppendResult:
        body = b"".join(event + b"\n" for event in events)
        key = f"{self.writer[:100]}-{blake2b(body, digest_size=16).hexdigest()}"
        try:
            answer = archive.append_events(self.run, self.writer, body, key, position)
        except RefusedError as error:
            return AppendResult(position, 0, len(events), str(error))
        errors = answer["errors"]
        reason = text_of(errors[0].get("message"), "refused without a reason") if errors else ""
        return AppendResult(str(answer["position"]), len(events) - len(errors), len(errors), reason)


def delivery_of(run: RunName, facts: Mapping[str, Any]) -> TextDelivery | EventDelivery:
    """The inverse of ``Delivery.facts`` and ``end_facts``. A logging method uses the delivery of its events (``methoddelivery``)."""
    if "writer" not in facts:
        return TextDelivery(run)
    end = WriterEnd(int(facts.get("count", 0)), facts.get("lastTimestampMs"))
    return EventDelivery(run, str(facts["writer"]), lambda: end, int(facts["firstId"]), facts["endId"])


def _events_of(batch: bytes) -> list[bytes]:
    return [line for line in batch.split(b"\n") if line and not line.startswith(_OF_STEP)]


def _id_of(event: bytes) -> int:
    return int(event.removeprefix(_OF_EVENT).partition(b",")[0])


def _with_attempt_id(event: bytes, first_id: int) -> bytes:
    """The event with its id in this attempt."""
    if not first_id:
        return event
    return b"%s%d,%s" % (_OF_EVENT, _id_of(event) - first_id, event.partition(b",")[2])


def _steps_of(batch: bytes) -> dict[str, dict[str, Any]]:
    """The updates of each step in a batch, merged: later ones win."""
    updates: dict[str, dict[str, Any]] = {}
    for line in batch.split(b"\n"):
        if line.startswith(_OF_STEP):
            facts = json.loads(line)
            updates.setdefault(facts.pop(STEP), {}).update(facts)
    return updates
