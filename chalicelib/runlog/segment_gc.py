"""Deletes compacted segments after writing their entries (metadata) to S3, so that the catalog can be rebuilt.

::

    {run}/retired/{digest}      gzip of JSON lines, one per segment of a batch that was deleted together, at most 1,000

``digest`` is the hash of the lines: equal entries make the same object, and no object is overwritten. Two concurrent passes each write the
entries that they delete; if a pass misses a segment, the pass that deleted it has written its entry. Decision 0016.
"""

from __future__ import annotations

import gzip
import json
import zlib
from base64 import urlsafe_b64encode
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from functools import partial
from hashlib import blake2b

from chalicelib.errors import DamagedLogError, ObjectNotFoundError, PreconditionFailedError
from chalicelib.ports import ABSENT, ListedObject, ObjectStore, PutOptions, Run, SegmentEntry, SegmentIndex
from chalicelib.runlog.concatenation import READERS
from chalicelib.runlog.layout import Layout
from chalicelib.runlog.log_end import LogEndFinder
from chalicelib.runlog.segment import pack_landmarks, unpack_landmarks

MAX_BATCH = 1000
"""Segments per DeleteObjects request, and per object of entries."""
_OPTIONAL = ("connector", "reason", "landmarks", "events", "zone")


@dataclass(frozen=True, slots=True)
class SegmentGc:
    """Writes entries, then deletes the segments. A crash leaves both, or only the entries. Idempotent."""

    store: ObjectStore
    index: SegmentIndex
    layout: Layout
    tails: LogEndFinder

    def retire(self, run: Run, segments: Sequence[ListedObject]) -> int:
        """Delete segments, listed in ascending order. Per 1,000: a HEAD, a query, a PUT and a DeleteObjects; another HEAD for each segment
        whose row is missing or inconsistent. Raises ObjectNotFoundError if another pass was faster: read the state again."""
        for first in range(0, len(segments), MAX_BATCH):
            going = segments[first : first + MAX_BATCH]
            self.write_entries(run, self._entries(run, going))
            self.store.delete_many([found.key for found in going])
        return len(segments)

    def write_entries(self, run: Run, entries: Sequence[SegmentEntry]) -> None:
        """Write entries, at most 1,000, in ascending order. One PUT."""
        if not entries:
            return
        lines = _lines(entries)
        digest = urlsafe_b64encode(blake2b(lines, digest_size=8).digest()).decode().rstrip("=")
        about = {"first": str(entries[0].sequence), "last": str(entries[-1].sequence)}
        options = PutOptions(about, content_type="application/gzip")
        with suppress(PreconditionFailedError):  # the same object exists already
            self.store.put(self.layout.retired(run, digest), gzip.compress(lines, mtime=0), options, ABSENT)

    def _entries(self, run: Run, going: Sequence[ListedObject]) -> list[SegmentEntry]:
        """Entries from index rows that match the listing and their neighbours; else from the metadata of the segments."""
        numbers = [self.layout.sequence_of(run, found.key) for found in going]
        first = self.tails.segment(run, numbers[0])
        rows = {row.sequence: row for row in self.index.rows_from(run, first.line, first.sequence, len(going))}
        known = rows | {first.sequence: first}
        sizes = {number: found.size for number, found in zip(numbers, going, strict=True)}
        unsure = [number for number in numbers if not _fits(known, number, sizes[number])]
        with ThreadPoolExecutor(READERS) as readers:
            read = dict(zip(unsure, readers.map(partial(self._head, run), unsure), strict=True))
        return [entry for number in numbers if (entry := read[number] if number in read else known[number])]

    def _head(self, run: Run, sequence: int) -> SegmentEntry | None:
        """None: another pass deleted the segment, after writing its entry."""
        try:
            return self.tails.segment(run, sequence)
        except ObjectNotFoundError:
            return None


def read_retired_entries(body: bytes) -> list[SegmentEntry]:
    """The entries of an object under ``retired/``. Raises DamagedLogError."""
    try:
        if not body:
            raise EOFError
        return [_entry(json.loads(line)) for line in gzip.decompress(body).splitlines()]
    except (OSError, EOFError, zlib.error, ValueError, TypeError, KeyError) as error:
        raise DamagedLogError(f"invalid segment entries bytes={len(body)} error={type(error).__name__}") from error


def _lines(entries: Iterable[SegmentEntry]) -> bytes:
    return b"".join(json.dumps(_document(entry), separators=(",", ":")).encode() + b"\n" for entry in entries)


def _document(entry: SegmentEntry) -> dict[str, object]:
    document = asdict(replace(entry, end=None)) | {"landmarks": pack_landmarks(entry.landmarks)}
    return {name: value for name, value in document.items() if value or (value is not None and name not in _OPTIONAL)}


def _entry(document: dict[str, object]) -> SegmentEntry:
    """Unknown fields, which a later version may add, are ignored."""
    known = {name: document[name] for name in SegmentEntry.__dataclass_fields__ if name in document}
    entry = SegmentEntry(**known)  # type: ignore[arg-type]
    return replace(entry, landmarks=unpack_landmarks(str(document.get("landmarks", ""))))


def _fits(rows: dict[int, SegmentEntry], number: int, size: int) -> bool:
    """Whether a segment's row has the listed size, and adjoins the rows of its neighbours."""
    row, before, after = rows.get(number), rows.get(number - 1), rows.get(number + 1)
    if row is None or row.bytes != size:
        return False
    follows = before is None or (before.end_line, before.end_byte) == (row.line, row.byte)
    return follows and (after is None or (row.end_line, row.end_byte) == (after.line, after.byte))
