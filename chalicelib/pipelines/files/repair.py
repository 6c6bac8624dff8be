"""Finds and repairs inconsistencies between rows and objects.

==============  =====================================================================  ================================================
kind            finding                                                                repair
==============  =====================================================================  ================================================
row-unreadable  an invalid row                                                         remove the row
row-only        a row whose object is gone                                             remove the row
object-only     an object without a row: it was published and never committed          remove the object
longer          an object with bytes after those that its row commits                  truncate it to the committed bytes
changed         the size matches, and the ETag differs                                 update the row's ETag, if the object is readable
shorter         an object that is shorter than its committed size                      limit the row to the readable events
unfinished      an expiring file                                                       complete its removal
==============  =====================================================================  ================================================

An unreadable object is removed with its row. Objects and rows that were written within the grace period are spared: a handler may
be about to commit them. A second pass finds nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Literal

from chalicelib.deadline import Deadline
from chalicelib.errors import DamagedLogError, InvalidConfigurationError, ObjectNotFoundError, PreconditionFailedError
from chalicelib.pipelines.files.appendable_object import BASE_METADATA, COPY_FROM_BYTES
from chalicelib.pipelines.files.key_layout import is_file_of
from chalicelib.pipelines.files.output_sets import OutputSet
from chalicelib.pipelines.files.path_template import is_templated_key
from chalicelib.pipelines.files.removal import FileRemoval
from chalicelib.pipelines.files.rows import CLOSED, EXPIRING, DamagedRow, FileContents, FileRow, FileRows
from chalicelib.pipelines.files.streams import events_of
from chalicelib.pipelines.transactions import apply_write
from chalicelib.ports import Clock, Condition, Database, Delete, ListedObject, ObjectStore, PutOptions
from chalicelib.runlog.log_end import list_all

GRACE_MS = 3_600_000

FindingKind = Literal["row-unreadable", "row-only", "object-only", "longer", "changed", "shorter", "unfinished"]


@dataclass(frozen=True, slots=True)
class FileFinding:
    """``path`` of the object; ``row`` and ``object`` at the time of the check."""

    kind: FindingKind
    path: str
    detail: str
    row: FileRow | DamagedRow | None = None
    object: ListedObject | None = None


class Repair:
    """Checks the files of one output set. ``grace_ms``: the minimum age of a finding. Memory: half a KB a file."""

    def __init__(self, store: ObjectStore, database: Database, clock: Clock, grace_ms: int = GRACE_MS) -> None:
        self._store, self._database, self._clock, self._grace_ms = store, database, clock, grace_ms

    def findings(self, base: OutputSet) -> Iterator[FileFinding]:
        """The inconsistencies. A LIST and a Query for each 1,000 files, and a HEAD for each object with a key of a template
        and without a row. Objects that are not files of this output set, such as those of a nested one, are ignored."""
        before_ms = self._clock.now_ms() - self._grace_ms
        listed = list_all(self._store, f"{base.name}/")
        objects = {each.key: each for each in listed if is_file_of(base.name, each.key) or is_templated_key(base.name, each.key)}
        for row in FileRows(self._database).listed(base.name, ""):
            if isinstance(row, DamagedRow):
                yield FileFinding("row-unreadable", row.key.sort, row.reason, row)
                continue
            listed_object = objects.pop(row.object_key, None)
            if row.changed_ms < before_ms and (listed_object is None or listed_object.last_modified_ms < before_ms):
                kind = _kind_of(row, listed_object)
                if kind:
                    yield FileFinding(kind, row.object_key, _detail(row, listed_object), row, listed_object)
        for listed_object in objects.values():
            if listed_object.last_modified_ms < before_ms and self._is_of(base, listed_object):
                yield FileFinding("object-only", listed_object.key, f"bytes={listed_object.size}", None, listed_object)

    def _is_of(self, base: OutputSet, listed_object: ListedObject) -> bool:
        """Whether an object is of this output set: a templated key may also be one of a nested or an outer output set."""
        if is_file_of(base.name, listed_object.key):
            return True
        try:
            return self._store.head(listed_object.key).metadata.get(BASE_METADATA) == base.name
        except ObjectNotFoundError:
            return False

    def repair(self, finding: FileFinding) -> bool:
        """Repair one finding, if nothing has changed since. At most five requests, and the object once if it is read. Raises
        UnavailableError."""
        row, listed_object = finding.row, finding.object
        if isinstance(row, DamagedRow):
            self._database.transact([Delete(row.key)])
            return True
        try:
            if row is None:
                assert listed_object
                self._store.delete(listed_object.key, if_match=listed_object.etag)
                return True
            if listed_object is None or finding.kind == "unfinished" or row.contents.size == 0:
                return FileRemoval(self._store, self._database, self._clock).remove(row)
            if finding.kind == "longer":
                return self._truncate(row, listed_object)
            return self._limit_to_readable(row, listed_object)
        except (PreconditionFailedError, ObjectNotFoundError):
            return False  # a concurrent change
        except InvalidConfigurationError:
            return False  # the format's library is not installed here

    def repair_all(
        self, base: OutputSet, deadline: Deadline, has_room: Callable[[FileFinding], bool] = lambda _: True
    ) -> tuple[list[FileFinding], bool]:
        """Repair all findings, until the deadline or until ``has_room``, called with each one that was repaired, returns that the
        caller takes no more. Returns the repaired findings, and whether none is left."""
        repaired: list[FileFinding] = []
        is_all = True
        for finding in self.findings(base):
            if deadline.remaining_s() <= 0:
                return repaired, False
            if not self.repair(finding):
                is_all = False
                continue
            repaired.append(finding)
            if not has_room(finding):
                return repaired, False
        return repaired, is_all

    def _truncate(self, row: FileRow, listed_object: ListedObject) -> bool:
        """Truncate the object to the committed bytes, which no writer has changed."""
        key, size = row.object_key, row.contents.size
        options = PutOptions(self._store.head(key).metadata, content_type=self._store.head(key).content_type)
        still = Condition(if_match=listed_object.etag)
        if size <= COPY_FROM_BYTES:
            etag = self._store.put(key, self._store.get(key, 0, size, if_match=listed_object.etag).body, options, still)
        else:
            upload = self._store.create_multipart(key, options)
            part = self._store.copy_part(key, upload, 1, key, 0, size, if_match=listed_object.etag)
            etag = self._store.complete_multipart(key, upload, [(1, part)], still)
        return self._write(row, replace(row.contents, etag=etag))

    def _limit_to_readable(self, row: FileRow, listed_object: ListedObject) -> bool:
        """Update the row from the object's readable events."""
        size = min(listed_object.size, row.contents.size)
        as_found = replace(row, contents=replace(row.contents, size=size))
        events = disorder_ms = 0
        from_ms, to_ms = row.contents.to_ms, 0
        try:
            for event in events_of(self._store, as_found):
                events += 1
                disorder_ms = max(disorder_ms, to_ms - event.time)
                from_ms, to_ms = min(from_ms, event.time), max(to_ms, event.time)
        except DamagedLogError:
            pass  # keep the events before the damage
        if not events:
            return FileRemoval(self._store, self._database, self._clock).remove(row)
        changed_ms = row.contents.changed_ms
        return self._write(row, FileContents(size, listed_object.etag, events, from_ms, to_ms, disorder_ms, changed_ms))

    def _write(self, row: FileRow, contents: FileContents) -> bool:
        return apply_write(self._database, self._clock, row.written(contents=contents, state=CLOSED, staged=None)[1])


def _kind_of(row: FileRow, listed_object: ListedObject | None) -> FindingKind | None:
    if row.state == EXPIRING:
        return "unfinished"
    if listed_object is None:
        return "row-only"
    if row.contents.size == 0:
        return "object-only"  # its row was staged and never committed
    if listed_object.size != row.contents.size:
        return "longer" if listed_object.size > row.contents.size else "shorter"
    return "changed" if listed_object.etag != row.contents.etag else None


def _detail(row: FileRow, listed_object: ListedObject | None) -> str:
    told = f"counted={row.contents.size}"
    return f"{told} bytes={listed_object.size}" if listed_object else told
