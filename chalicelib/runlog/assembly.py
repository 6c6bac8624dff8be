"""Writing one object as the concatenation of others: the only place where partial.txt and logs.txt are written.

Memory: at most ``WORKERS`` gathered parts at once (3 x 8 MiB, and what S3 sends of them), whatever the log's size. Requests: a GET for each
small source, a PUT or UploadPart for each 8 MiB gathered, an UploadPartCopy for each 512 MiB copied, and two for the upload itself.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass

from chalicelib.deadline import Deadline
from chalicelib.errors import PreconditionFailedError, RunlakeError
from chalicelib.ports import Condition, ObjectStore, PutOptions
from chalicelib.runlog.plan import Part, Span, plan_parts

WORKERS = 3
READERS = 8


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

    def assemble(self, key: str, parts: Sequence[Part], options: PutOptions, condition: Condition, deadline: Deadline) -> Assembled:
        """Write ``key`` from planned parts. Raises PreconditionFailedError (the target, or a source, is another than planned),
        ObjectNotFoundError (a source is gone), WriteConflictError; in each case nothing is changed: look again and start over."""
        copied = sum(part.size for part in parts if part.copied)
        uploaded = sum(part.size for part in parts if not part.copied)
        if not copied and len(parts) <= 1:
            body = self._read(parts[0].spans) if parts else b""
            deadline.check()
            return Assembled(self._store.put(key, body, options, condition), uploaded, 0)
        return Assembled(self._multipart(key, parts, options, condition, deadline), uploaded, copied)

    def _multipart(self, key: str, parts: Sequence[Part], options: PutOptions, condition: Condition, deadline: Deadline) -> str:
        upload_id = self._store.create_multipart(key, options)
        try:
            done = list(self._send_all(key, upload_id, parts, deadline))
            deadline.check()
            return self._store.complete_multipart(key, upload_id, done, condition)
        except RunlakeError:
            # The bucket's lifecycle aborts what even this call leaves behind.
            with suppress(RunlakeError):
                self._store.abort_multipart(key, upload_id)
            raise

    def _send_all(self, key: str, upload_id: str, parts: Sequence[Part], deadline: Deadline) -> Iterator[tuple[int, str]]:
        """Parts in groups of ``WORKERS``, so that no more than those are in memory."""

        def send(numbered: tuple[int, Part]) -> tuple[int, str]:
            number, part = numbered
            return number, self._send(key, upload_id, number, part)

        numbered = list(enumerate(parts, start=1))
        with ThreadPoolExecutor(WORKERS) as workers:
            for first in range(0, len(numbered), WORKERS):
                deadline.check()
                yield from workers.map(send, numbered[first : first + WORKERS])

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


def plan(spans: Sequence[Span]) -> list[Part]:
    """Parts for spans that are not empty."""
    return plan_parts([span for span in spans if span.size])
