"""Writes one object as the concatenation of others: the only code that writes partial.txt and logs.txt.

Memory: at most ``WORKERS`` uploaded parts at once: 3 x 8 MiB, plus the responses of S3 for them; twice that for each doubling of a plan's
part sizes (see ``plan_parts``), which only a backlog of more than 80 GB in segments causes. Requests: a GET per small source, a PUT or
UploadPart per 8 MiB uploaded, an UploadPartCopy per 512 MiB copied, and two for the upload itself.
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
"""Concurrent copies: S3 does the work, no byte is in memory."""
READERS = 8
MIN_RESUMABLE_PARTS = 32
"""An upload stopped by a deadline or an outage is resumed later if it has at least this many parts: 16 GiB of copies."""

SaveUpload = Callable[[str, Sequence[tuple[int, str]]], None]
"""Stores a record of an upload and its parts. Raises UnavailableError."""


@dataclass(frozen=True, slots=True)
class ConcatenationResult:
    """The new object's ETag, and the bytes uploaded and copied. Copied bytes never pass through the function."""

    etag: str
    uploaded_bytes: int
    copied_bytes: int


class Concatenator:
    """Concatenates objects, conditional on the target. A crash leaves the old target or the new one, nothing in between.
    ``readers``: concurrent reads of a part's small sources."""

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
        """Write ``key`` from planned parts; ``resumed``: an unfinished upload of the same parts. Raises PreconditionFailedError (the target or a
        source differs from the plan), ObjectNotFoundError (a source or the unfinished upload is gone), WriteConflictError; then nothing has
        changed: read the state again and start over. Raises UnavailableError; then the upload is passed to ``save_upload`` if it has
        ``MIN_RESUMABLE_PARTS``, else it is aborted."""
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
        except _SavedUploadError as saved:
            raise saved.why from saved
        except RunlakeError:
            # The bucket's lifecycle aborts the upload if this call fails.
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
        """Send parts in groups, so that at most ``WORKERS`` are in memory; appends the sent ones to ``done``."""

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
        """The bytes of the sources, read in parallel."""
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
    """The upload was saved for another pass: it is not aborted."""

    def __init__(self, why: UnavailableError) -> None:
        super().__init__(str(why))
        self.why = why


def _groups(parts: Sequence[UploadPart], done: int) -> Iterator[Sequence[int]]:
    """Numbers of the remaining parts, grouped by concurrent sends."""
    first = done
    while first < len(parts):
        copied, last = parts[first].copied, first + 1
        while last < len(parts) and parts[last].copied == copied and last - first < (COPIERS if copied else WORKERS):
            last += 1
        yield range(first + 1, last + 1)
        first = last


def parts_of(sources: Sequence[SourceRange]) -> list[UploadPart]:
    """The multipart plan for the non-empty sources."""
    return plan_parts([source for source in sources if source.size])
