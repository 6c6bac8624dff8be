"""What a batch is to the archive: lines of text, or events. The shipper knows neither; it repeats what was not answered.

Each says how it begins (``open``), how a batch is stored once however often it is sent (``append``), and how it ends (``close``).
"""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from hashlib import blake2b
from typing import Any, Protocol

from runlake.archive import Archive, text_of
from runlake.batches import lines_of
from runlake.errors import AccessError, ApiError, RefusedError
from runlake.names import RunName

_LEVEL = 1  # of gzip: a third of the time of level 6 for a tenth more bytes
MAX_EVENTS = 10_000
"""What the archive takes at once."""
STEP = "@step"
_OF_STEP, _OF_EVENT = b'{"@step":', b'{"id":'
"""How a line begins that tells of a step, and one of an event, by its id."""


@dataclass(frozen=True, slots=True)
class AppendResult:
    """What became of a batch: items stored, items refused for good, and why the first of them was."""

    position: str
    items: int
    refused: int = 0
    reason: str = ""


@dataclass(frozen=True, slots=True)
class WriterEnd:
    """What a writer of events wrote: how many ids it gave, and the last of its times."""

    count: int
    last_timestamp_ms: int | None = None


class Delivery(Protocol):
    """The way of one run's bytes into the archive. Bytes are lines, each ended by a newline."""

    @property
    def run(self) -> RunName:
        """Whose they are."""

    @property
    def unit(self) -> str:
        """What a person calls its lines."""

    @property
    def needs_close(self) -> bool:
        """Whether it is opened as soon as there is something, and closed although the run stays running."""

    def for_run(self, run: RunName) -> Delivery:
        """The same for another attempt of the run."""

    def ending_before(self, packed: bytes) -> Delivery:
        """The same once the run takes no more: the attempt that follows begins with this batch."""

    def close_in_closed_run(self, archive: Archive) -> None:
        """The end of what was opened in a run that takes no more; again is harmless. Raises ApiError, UnavailableError."""

    def fit_to_request(self, batch: bytes) -> bytes:
        """As much of a batch, from its beginning, as one request takes: what several store can end up in two attempts."""

    def pack(self, batch: bytes) -> bytes:
        """A batch as it is sent, and kept."""

    def count(self, batch: bytes) -> int:
        """How many items a batch has."""

    def open(self, archive: Archive) -> str:
        """What the first batch presents. Raises ApiError, UnavailableError."""

    def append(self, archive: Archive, packed: bytes, position: str) -> AppendResult:
        """Store a batch; the same with the same position is stored once. Raises ApiError (nothing is stored), UnavailableError."""

    def close(self, archive: Archive) -> None:
        """The end of what was opened, not of the run; again is harmless. Raises ApiError, UnavailableError."""

    def facts(self) -> dict[str, Any]:
        """What ``delivery_of`` needs in another process, once all is put."""


@dataclass(frozen=True, slots=True)
class TextDelivery:
    """Lines of a log. A batch presents the position of the answer before."""

    run: RunName
    unit: str = "lines"
    needs_close: bool = False

    def for_run(self, run: RunName) -> TextDelivery:
        """See ``Delivery``."""
        return replace(self, run=run)

    def ending_before(self, packed: bytes) -> TextDelivery:
        """See ``Delivery``."""
        return self

    def close_in_closed_run(self, archive: Archive) -> None:
        """Nothing was opened."""

    def fit_to_request(self, batch: bytes) -> bytes:
        """All: the number of lines has no bound."""
        return batch

    def pack(self, batch: bytes) -> bytes:
        """With gzip."""
        return gzip.compress(batch, _LEVEL, mtime=0)

    def count(self, batch: bytes) -> int:
        """Its lines."""
        return lines_of(batch)

    def open(self, archive: Archive) -> str:
        """A session."""
        return archive.open_session(self.run)

    def append(self, archive: Archive, packed: bytes, position: str) -> AppendResult:
        """A part of the log."""
        answer = archive.append(self.run, packed, position)
        return AppendResult(str(answer["position"]), int(answer.get("lines", 0)))

    def close(self, archive: Archive) -> None:
        """A session needs no end."""

    def facts(self) -> dict[str, Any]:
        """None beside the run."""
        return {}


@dataclass(frozen=True, slots=True)
class EventDelivery:
    """Events of one writer, and what it tells of steps, as lines of JSON.

    A request has an Idempotency-Key made of its bytes: its ids make them unlike all others of the writer. Events go first, what it
    tells of steps second, a request for each step; told again that says the same. ``writer_end`` is called when all is put.

    The ids of a writer count from 0 in each attempt: ``first_id`` of the lines is id 0 of this one. ``end_id``: the attempt takes no more,
    and the next one begins with that id of the lines.
    """

    run: RunName
    writer: str
    writer_end: Callable[[], WriterEnd]
    first_id: int = 0
    end_id: int | None = None
    unit: str = "events"
    needs_close: bool = True

    def for_run(self, run: RunName) -> EventDelivery:
        """See ``Delivery``."""
        return replace(self, run=run, first_id=self.first_id if self.end_id is None else self.end_id, end_id=None)

    def ending_before(self, packed: bytes) -> EventDelivery:
        """See ``Delivery``. A batch without events is of steps alone, which a closed run takes too."""
        events = _events_of(packed)
        return replace(self, end_id=_id_of(events[0])) if events else self

    def close_in_closed_run(self, archive: Archive) -> None:
        """Tells how many events there were until the run took no more."""
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
        """As it is."""
        return batch

    def count(self, batch: bytes) -> int:
        """Its events."""
        return len(_events_of(batch))

    def open(self, archive: Archive) -> str:
        """Registers the writer: from now on the run is not complete without it."""
        archive.register_writer(self.run, self.writer)
        return ""

    def append(self, archive: Archive, packed: bytes, position: str) -> AppendResult:
        """Events, then steps. More than ``MAX_EVENTS`` are of a batch that an earlier release has kept: if the run is closed between two
        requests for them, the next attempt has all of them, and this one the first."""
        events = [_with_attempt_id(event, self.first_id) for event in _events_of(packed)]
        stored = AppendResult(position, 0)
        for begin in range(0, len(events), MAX_EVENTS):
            part = self._append(archive, events[begin : begin + MAX_EVENTS], stored.position)
            reason = stored.reason or part.reason
            stored = AppendResult(part.position, stored.items + part.items, stored.refused + part.refused, reason)
        for step, facts in _steps_of(packed).items():
            try:
                archive.update_step(self.run, step, facts)
            except AccessError:
                raise
            except ApiError as error:  # what is told of a step is not worth its events
                stored = AppendResult(stored.position, stored.items, stored.refused, stored.reason or f"step {step}: {error}")
        return stored

    def close(self, archive: Archive) -> None:
        """Tells how many events there were."""
        end = self.writer_end()
        archive.close_writer(self.run, self.writer, end.count - self.first_id, end.last_timestamp_ms)

    def facts(self) -> dict[str, Any]:
        """The writer, and what it wrote."""
        end = self.writer_end()
        of_writer = {"writer": self.writer, "count": end.count, "lastTimestampMs": end.last_timestamp_ms}
        return of_writer | {"firstId": self.first_id, "endId": self.end_id}

    def _append(self, archive: Archive, events: list[bytes], position: str) -> AppendResult:
        body = b"".join(event + b"\n" for event in events)
        key = f"{self.writer[:100]}-{blake2b(body, digest_size=16).hexdigest()}"
        try:
            answer = archive.append_events(self.run, self.writer, body, key, position)
        except RefusedError as error:
            return AppendResult(position, 0, len(events), str(error))
        errors = answer.get("errors") or []
        reason = text_of(errors[0].get("message"), "refused without a reason") if errors else ""
        return AppendResult(str(answer["position"]), len(events) - len(errors), len(errors), reason)


def delivery_of(run: RunName, facts: Mapping[str, Any]) -> Delivery:
    """The one whose facts these are."""
    if "writer" not in facts:
        return TextDelivery(run)
    end = WriterEnd(int(facts["count"]), facts.get("lastTimestampMs"))
    # Earlier releases number a writer's events through all attempts, and write neither id.
    return EventDelivery(run, str(facts["writer"]), lambda: end, int(facts.get("firstId", 0)), facts.get("endId"))


def _events_of(batch: bytes) -> list[bytes]:
    return [line for line in batch.split(b"\n") if line and not line.startswith(_OF_STEP)]


def _id_of(event: bytes) -> int:
    return int(event.removeprefix(_OF_EVENT).partition(b",")[0])


def _with_attempt_id(event: bytes, first_id: int) -> bytes:
    """With the id that it has in an attempt."""
    if not first_id:
        return event
    return b"%s%d,%s" % (_OF_EVENT, _id_of(event) - first_id, event.partition(b",")[2])


def _steps_of(batch: bytes) -> dict[str, dict[str, Any]]:
    """What a batch tells of each step: what is said later counts."""
    updates: dict[str, dict[str, Any]] = {}
    for line in batch.split(b"\n"):
        if line.startswith(_OF_STEP):
            facts = json.loads(line)
            updates.setdefault(facts.pop(STEP), {}).update(facts)
    return updates
