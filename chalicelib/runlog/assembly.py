"""Writing one object as the concatenation of others: the only place where partial.txt and logs.txt are written.

Memory: at most ``WORKERS`` gathered parts at once: 3 x 8 MiB, and what S3 sends of them; twice that for each doubling of a plan's part
sizes (see ``plan_parts``), which only a backlog of more than 80 GB in segments causes. Requests: a GET for each
small source, a PUT or UploadPart for each 8 MiB gathered, an UploadPartCopy for each 512 MiB copied, and two for the upload itself.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass

from chalicelib.deadline import Deadline
from chalicelib.errors import PreconditionFailedError, RunlakeError, UnavailableError
from chalicelib.ports import Condition, ObjectStore, PutOptions
from chalicelib.runlog.plan import Part, Span, plan_parts
from chalicelib.runlog.unfinished import Unfinished

WORKERS = 3
COPIERS = 8
"""Copied parts at once: S3 does the work, none of it is in memory."""
READERS = 8
KEEP_PARTS = 32
"""An upload that is stopped by time or by an outage is worth going on with once it has so many parts: 16 GiB of copies."""

Keep = Callable[[str, Sequence[tuple[int, str]]], None]
"""Makes a note of an upload and the parts that it has. Raises UnavailableError."""


@dataclass(frozen=True, slots=True)
class Assembled:
    """What was written: the new object's ETag, and what it cost in bytes. Copied bytes never pass through the function."""

    etag: str
    uploaded_bytes: int
    copied_bytes: int


class Assembler:
    """Concatenates objects under a condition on the target. A crash leaves the old target, or the new one, and nothing between.
    ``readers``: small sources of a part that are read at once."""

    def __init__(self, store: ObjectStore, readers: int = READERS) -> None:
        self._store, self._readers = store, readers

    def assemble(
        self,
        key: str,
        parts: Sequence[Part],
        options: PutOptions,
        condition: Condition,
        deadline: Deadline,
        begun: Unfinished | None = None,
        keep: Keep | None = None,
    ) -> Assembled:
        """Write ``key`` from planned parts; ``begun``: of an upload of the same parts, those that are there. Raises
        PreconditionFailedError (the target, or a source, is another than planned), ObjectNotFoundError (a source, or what was begun, is gone),
        WriteConflictError; in each case nothing is changed: look again and start over. Raises UnavailableError; what was sent by then is
        handed to ``keep`` where it is much, and is given up else."""
        copied = sum(part.size for part in parts if part.copied)
        uploaded = sum(part.size for part in parts if not part.copied)
        if not copied and len(parts) <= 1:
            body = self._read(parts[0].spans) if parts else b""
            deadline.check()
            return Assembled(self._store.put(key, body, options, condition), uploaded, 0)
        upload_id = begun.upload_id if begun else self._store.create_multipart(key, options)
        done = list(begun.parts) if begun else []
        try:
            self._send_all(key, upload_id, parts, done, deadline, keep)
            return Assembled(self._store.complete_multipart(key, upload_id, done, condition), uploaded, copied)
        except _KeptError as kept:
            raise kept.why from kept
        except RunlakeError:
            # The bucket's lifecycle aborts what even this call leaves behind.
            with suppress(RunlakeError):
                self._store.abort_multipart(key, upload_id)
            raise

    def _send_all(
        self, key: str, upload_id: str, parts: Sequence[Part], done: list[tuple[int, str]], deadline: Deadline, keep: Keep | None
    ) -> None:
        """Parts in groups, so that no more than ``WORKERS`` are in memory; those that were sent are added to ``done``."""

        def send(number: int) -> tuple[int, str]:
            return number, self._send(key, upload_id, number, parts[number - 1])

        try:
            with ThreadPoolExecutor(COPIERS) as workers:
                for group in _groups(parts, len(done)):
                    deadline.check()
                    for sent in workers.map(send, group):
                        done.append(sent)
            deadline.check()
        except UnavailableError as error:
            if keep and len(done) >= KEEP_PARTS:
                keep(upload_id, done)
                raise _KeptError(error) from error
            raise

    def _send(self, key: str, upload_id: str, number: int, part: Part) -> str:
        if not part.copied:
            return self._store.upload_part(key, upload_id, number, self._read(part.spans))
        span = part.spans[0]
        return self._store.copy_part(key, upload_id, number, span.key, span.start, span.end, if_match=span.etag)

    def _read(self, spans: Sequence[Span]) -> bytes:
        """The bytes of spans, small ones read beside each other."""
        if self._readers == 1:
            return b"".join(map(self._read_span, spans))
        with ThreadPoolExecutor(min(self._readers, len(spans))) as readers:
            return b"".join(readers.map(self._read_span, spans))

    def _read_span(self, span: Span) -> bytes:
        if span.literal:
            return span.literal
        body = self._store.get(span.key, span.start, span.end, if_match=span.etag or None).body
        if len(body) != span.size:
            raise PreconditionFailedError(f"object is shorter than it was key={span.key} read={len(body)} planned={span.size}")
        return body


class _KeptError(Exception):
    """The upload goes on in another pass: it is not aborted."""

    def __init__(self, why: UnavailableError) -> None:
        super().__init__(str(why))
        self.why = why


def _groups(parts: Sequence[Part], done: int) -> Iterator[Sequence[int]]:
    """Numbers of the parts that are not done, as they are sent beside each other."""
    first = done
    while first < len(parts):
        copied, last = parts[first].copied, first + 1
        while last < len(parts) and parts[last].copied == copied and last - first < (COPIERS if copied else WORKERS):
            last += 1
        yield range(first + 1, last + 1)
        first = last


def plan(spans: Sequence[Span]) -> list[Part]:
    """Parts for spans that are not empty."""
    return plan_parts([span for span in spans if span.size])
