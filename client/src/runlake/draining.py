"""Shipping the lines that a program left on disk: in order, each line stored once, even if the drain is interrupted.

The next batch is determined by ``run.json`` and the chunks alone: the position that the batch presents, and the byte at which it begins.
Both change in one write, after the response. So a drain that was killed sends the same batch with the same position again, and the
archive stores it once.
"""

from __future__ import annotations

import time
from bisect import bisect_right
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field, replace
from itertools import accumulate
from operator import attrgetter
from pathlib import Path
from typing import TypeVar

from runlake.archive import Archive
from runlake.batches import MAX_LINE_BYTES, cut
from runlake.deliveries import Delivery, EventDelivery
from runlake.errors import AttemptTakenError, MethodRefusedError, NotFoundError, RefusedError, RunClosedError, UnavailableError
from runlake.leftovers import Leftover, chunks_in, remove, sent_path, write_facts
from runlake.methoddelivery import MethodConnection, MethodDelivery
from runlake.pacing import Backoff
from runlake.starts import MAX_MOVES, Start

BATCH_BYTES = 1024 * 1024
"""A constant, not a setting: a repeated batch must be the same bytes."""
_READ_BYTES = 256 * 1024
Answer = TypeVar("Answer")


@dataclass(frozen=True, slots=True)
class _Chunk:
    """A file of the folder, and the number of bytes in the files before it. No process writes to it."""

    path: Path
    first_byte: int


_first_byte = attrgetter("first_byte")


@dataclass(slots=True)
class Drain:
    """Ships one claimed folder. ``patience_s``: how long it retries without progress; ``trouble``: why it gave up.
    ``connection``: to the leftover's logging method, unless that is the run log."""

    folder: Path
    leftover: Leftover
    archive: Archive
    patience_s: float
    connection: MethodConnection | None = None
    pause: Callable[[float], object] = time.sleep
    backoff: Backoff = field(default_factory=Backoff)
    stored: int = 0
    refused: int = 0
    reason: str = ""
    trouble: str = ""
    _chunks: list[_Chunk] = field(init=False)

    def __post_init__(self) -> None:
        paths = chunks_in(self.folder)
        first_bytes = accumulate((path.stat().st_size for path in paths), initial=0)
        self._chunks = [_Chunk(path, first_byte) for path, first_byte in zip(paths, first_bytes, strict=False)]

    @property
    def _delivery(self) -> Delivery:
        delivery = self.leftover.delivery
        if self.connection is None or not isinstance(delivery, EventDelivery):
            return delivery
        return MethodDelivery(delivery, self.connection, str(self.leftover.facts["instanceId"]))

    def run(self) -> int:
        """The number of lines (or events) that are left. Without ``trouble`` the folder is deleted; with it and 0, only the end of the run is left.
        Raises ApiError (the archive accepted none of the rest), OSError."""
        try:
            self._send_all()
            self._end()
        except UnavailableError as error:
            self.trouble = str(error)
            return self.count_left()
        remove(self.folder)
        return 0

    def _send_all(self) -> None:
        self._open()
        if self.leftover.sent:
            self._send(sent_path(self.folder).read_bytes(), self.leftover.begin)
        while batch := self._batch_at(self.leftover.begin):
            self._send(self._delivery.pack(batch), self.leftover.begin + len(batch))

    def _open(self) -> None:
        if self.leftover.position is not None:
            return
        if start := self.leftover.start:
            self._close_in_closed_run()
            try:
                started = self._retry(lambda: self.archive.start_run(self.leftover.run, start))
            except (AttemptTakenError, MethodRefusedError):
                raise
            except RefusedError:  # the server refuses the start: the run without it
                self._save(replace(self.leftover, start=None))
                return self._open()
            delivery = self._delivery.for_attempt(started)
            if delivery.needs_close:
                self._retry(lambda: delivery.open(self.archive))
            close = self.leftover.close or (start.is_joining and not started.is_joined)
            started_run = replace(self.leftover, run=started.run, position=started.position, start=None, close=close)
            self._save(replace(started_run, facts=delivery.facts()))
        else:
            self._save(replace(self.leftover, position=self._retry(lambda: self._delivery.open(self.archive))))

    def _send(self, packed: bytes, end: int) -> None:
        """Store a batch; ``end``: the byte after it. If the run is closed, the batch goes to the next attempt."""
        for _ in range(MAX_MOVES):
            with suppress(RunClosedError):
                stored = self._retry(lambda: self._delivery.append(self.archive, packed, str(self.leftover.position)))
                break
            # This process starts the attempt, so it closes it. A drain that is killed here requests the same attempt again.
            start = Start.now(self.leftover.run, "runlake drain").again()
            facts = self._delivery.ending_before(packed).facts()
            self._save(replace(self.leftover, position=None, start=start, close=True, facts=facts))
            self._open()
        else:
            raise RunClosedError(409, f"other clients keep closing the attempts of {self.leftover.run}")
        self._save(replace(self.leftover, position=stored.position, sent=0, begin=end))
        self.stored, self.refused = self.stored + stored.items, self.refused + stored.refused
        self.reason = self.reason or stored.reason

    def _close_in_closed_run(self) -> None:
        try:
            self._retry(lambda: self._delivery.close_in_closed_run(self.archive))
        except (NotFoundError, RefusedError, RunClosedError) as error:
            self.reason = self.reason or str(error)  # the next lines can still be stored

    def _end(self) -> None:
        try:
            self._retry(lambda: self._delivery.close(self.archive))
        except (NotFoundError, RefusedError, RunClosedError) as error:
            self.reason = self.reason or str(error)  # the run can still be closed
        if self.leftover.close:
            reason = self._retry(lambda: self.archive.close_run(self.leftover.run, self.leftover.end))
            self.reason = self.reason or reason

    def _save(self, leftover: Leftover) -> None:
        write_facts(self.folder, leftover)
        self.leftover = leftover

    def _batch_at(self, begin: int) -> bytes:
        """The next batch from the files; of a line longer than that, as much as one request can carry."""
        waiting, is_end = bytearray(), True
        for data in self._bytes_from(begin):
            waiting += data
            if len(waiting) > MAX_LINE_BYTES or (len(waiting) >= BATCH_BYTES and b"\n" in waiting[:BATCH_BYTES]):
                is_end = False
                break
        return self._delivery.fit_to_request(cut(waiting, BATCH_BYTES, final=is_end))

    def _bytes_from(self, begin: int) -> Iterator[bytes]:
        """The bytes from ``begin`` on, counted over all chunks. Chunks before it are not opened."""
        for chunk in self._chunks[max(bisect_right(self._chunks, begin, key=_first_byte) - 1, 0) :]:
            with open(chunk.path, "rb") as file:
                file.seek(max(begin - chunk.first_byte, 0))
                while data := file.read(_READ_BYTES):
                    yield data

    def _retry(self, act: Callable[[], Answer]) -> Answer:
        """Call until it succeeds. Raises UnavailableError after ``patience_s`` of failures, ApiError."""
        give_up_s = time.monotonic() + self.patience_s
        while True:
            try:
                answer = act()
            except UnavailableError as error:
                wait_s = self.backoff.next_s(error.retry_after_s)
                if time.monotonic() + wait_s > give_up_s:
                    raise
                self.pause(wait_s)
            else:
                self.backoff.reset()
                return answer

    def count_left(self) -> int:
        """Lines (or events) that are not stored, as far as this machine knows. Reads all files. Raises OSError."""
        begin, count = self.leftover.begin, self.leftover.sent
        while batch := self._batch_at(begin):
            begin, count = begin + len(batch), count + self._delivery.count(batch)
        return count
