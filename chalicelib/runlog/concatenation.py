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
from chalicelib.runlog.multipart_plan import SourceRange, UploadPart, plan_parts
from chalicelib.runlog.unfinished_uploads import UnfinishedUpload

WORKERS = 3
COPIERS = 8
"""Copied parts at once: S3 does the work, none of it is in memory."""
READERS = 8
MIN_RESUMABLE_PARTS = 32
"""An upload that is stopped by time or by an outage is worth going on with once it has so many parts: 16 GiB of copies."""

SaveUpload = Callable[[str, Sequence[tuple[int, str]]], None]
"""Makes a note of an upload and the parts that it has. Raises UnavailableError."""


@dataclass(frozen=True, slots=True)
class ConcatenationResult:
    """What was written: the new object's ETag, and what it cost in bytes. Copied bytes never pass through the function."""

    etag: str
    uploaded_bytes: int
    copied_bytes: int


class Concatenator:
    """Concatenates objects under a condition on the target. A crash leaves the old target, or the new one, and nothing between.
    ``readers``: small sources of a part that are read at once."""

    def __init__(self, store: ObjectStore, readers: int = READERS) -> None:
        self._store, self._readers = store, readers

    def concatenate(
        self,
        key: str,
        parts: Sequence[UploadPart],
        options: PutOptions,
        condition: Condition,
        deadline: Deadline,
        resumed: UnfinishedUpload | None = None,
        save_upload: SaveUpload | None = None,
    ) -> ConcatenationResult:
        """Write ``key`` from planned parts; ``begun``: of an upload of the same parts, those that are there. Raises
        PreconditionFailedError (the target, or a source, is another than planned), ObjectNotFoundError (a source, or what was begun, is gone),
        WriteConflictError; in each case nothing is changed: look again and start over. Raises UnavailableError; what was sent by then is
        handed to ``keep`` where it is much, and is given up else."""
        copied = sum(part.size for part in parts if part.copied)
        uploaded = sum(part.size for part in parts if not part.copied)
        if not copied and len(parts) <= 1:
            body = self._read(parts[0].sources) if parts else b""
            deadline.check()
            return ConcatenationResult(self._store.put(key, body, options, condition), uploaded, 0)
        upload_id = resumed.upload_id if resumed else self._store.create_multipart(key, options)
        done = list(resumed.parts) if resumed else []
        try:
            self._send_all(key, upload_id, parts, done, deadline, save_upload)
            return ConcatenationResult(self._store.complete_multipart(key, upload_id, done, condition), uploaded, copied)
        except _SavedUploadError as kept:
            raise kept.why from kept
        except RunlakeError:
            # The bucket's lifecycle aborts what even this call leaves behind.
            with suppress(RunlakeError):
                self._store.abort_multipart(key, upload_id)
            raise

    def _send_all(
        self,
        key: str,
        upload_id: str,
        parts: Sequence[UploadPart],
        done: list[tuple[int, str]],
        deadline: Deadline,
        save_upload: SaveUpload | None,
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
            if save_upload and len(done) >= MIN_RESUMABLE_PARTS:
                save_upload(upload_id, done)
                raise _SavedUploadError(error) from error
            raise

    def _send(self, key: str, upload_id: str, number: int, part: UploadPart) -> str:
        if not part.copied:
            return self._store.upload_part(key, upload_id, number, self._read(part.sources))
        source = part.sources[0]
        return self._store.copy_part(key, upload_id, number, source.key, source.start, source.end, if_match=source.etag)

    def _read(self, sources: Sequence[SourceRange]) -> bytes:
        """The bytes of spans, small ones read beside each other."""
        if self._readers == 1:
            return b"".join(map(self._read_source, sources))
        with ThreadPoolExecutor(min(self._readers, len(sources))) as readers:
            return b"".join(readers.map(self._read_source, sources))

    def _read_source(self, source: SourceRange) -> bytes:
        if source.literal:
            return source.literal
        body = self._store.get(source.key, source.start, source.end, if_match=source.etag or None).body
        if len(body) != source.size:
            raise PreconditionFailedError(f"object is shorter than it was key={source.key} read={len(body)} planned={source.size}")
        return body


class _SavedUploadError(Exception):
    """The upload goes on in another pass: it is not aborted."""

    def __init__(self, why: UnavailableError) -> None:
        super().__init__(str(why))
        self.why = why


def _groups(parts: Sequence[UploadPart], done: int) -> Iterator[Sequence[int]]:
    """Numbers of the parts that are not done, as they are sent beside each other."""
    first = done
    while first < len(parts):
        copied, last = parts[first].copied, first + 1
        while last < len(parts) and parts[last].copied == copied and last - first < (COPIERS if copied else WORKERS):
            last += 1
        yield range(first + 1, last + 1)
        first = last


def parts_of(sources: Sequence[SourceRange]) -> list[UploadPart]:
    """Parts for spans that are not empty."""
    return plan_parts([source for source in sources if source.size])
