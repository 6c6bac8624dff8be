"""Table ``objects``: the state of each file that its catalog rows were last written from, to detect changes and rows to delete."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, ClassVar

from chalicelib.catalog.file_ids import run_object_id
from chalicelib.catalog.files import FileRecord, location_of
from chalicelib.ports import ABSENT_ROW, Clause, Key, Row, RowCondition

OBJECTS = "objects"


def file_key(file_id: str) -> Key:
    """The key of a file's row."""
    return Key(OBJECTS, f"file#{file_id}")


def url_key(url: str) -> Key:
    """The key of the row that maps an object to a file, for objects whose S3 key does not contain the file's id."""
    return Key(OBJECTS, f"url#{url}")


def checkpoint_key(name: str) -> Key:
    """The key of the row with a job's checkpoint."""
    return Key(OBJECTS, f"checkpoint#{name}")


@dataclass(frozen=True, slots=True)
class FileState:
    """The state that a file's rows were last written from. Revision 0: no row. Neither ``record`` nor ``problem``: the file is
    deleted.

    ``unsettled``: sources (what, where) whose latest file may have to be determined again because of this file. ``expires_s``: when
    the row of a deleted file expires, in seconds since the epoch.
    """

    DELETED_TTL_S: ClassVar[int] = 15 * 86_400
    """How long the row of a deleted file is kept: longer than the queue keeps a message."""
    UPLOAD_WINDOW_S: ClassVar[int] = 2 * 3600
    """Twice the life of a presigned upload URL, which is signed before the upload: longer than an upload through it can take."""

    id: str
    revision: int = 0
    url: str = ""
    record: FileRecord | None = None
    problem: str = ""
    unsettled: tuple[tuple[str, str], ...] = ()
    expires_s: int = 0

    @property
    def key(self) -> Key:
        """The key of its row."""
        return file_key(self.id)

    @property
    def is_known(self) -> bool:
        """Whether the file is listed, or marked as rejected."""
        return bool(self.record or self.problem)

    def is_at(self, url: str) -> bool:
        """Whether the object at this URL is the file, valid or rejected."""
        return self.is_known and self.url == url

    def is_run_log(self, archive: str) -> bool:
        """Whether the file is a run's log; ``archive``: the bucket of the archive. The rule does not contain the name of the logs' bucket,
        so it also holds for a row from before that bucket was renamed."""
        bucket, key = location_of(self.url)
        return self.record is not None and bucket != archive and self.id == run_object_id(key)

    def is_late_upload(self, url: str, created_ms: int) -> bool:
        """Whether an object was created by a repeated upload through a presigned URL, after the file was deleted."""
        gone_s = self.expires_s - self.DELETED_TTL_S
        return bool(self.revision) and not self.is_known and self.url == url and created_ms < (gone_s + self.UPLOAD_WINDOW_S) * 1000

    @property
    def unchanged(self) -> RowCondition:
        """The condition that the row still has this revision."""
        return ((Clause(("revision",), "=", self.revision),),) if self.revision else ABSENT_ROW

    def next_row(
        self, url: str, record: FileRecord | None, problem: str, unsettled: Iterable[tuple[str, str]] = ()
    ) -> dict[str, Any]:
        """The row of the next revision. Its writer has settled the sources that were unsettled before."""
        optional = {
            "document": record.text() if record else "",
            "problem": problem,
            "unsettled": [list(source) for source in sorted(set(unsettled))],
        }
        row = {"key": self.key.partition, "revision": self.revision + 1, "url": url}
        return row | {name: value for name, value in optional.items() if value}


@dataclass(frozen=True, slots=True)
class UrlState:
    """The file of an object whose key does not contain the file's id; ``id`` is empty if it is no known file. ``former_ids``:
    files that the object was before its last update, whose originals (``{id}/data``) the next update must read."""

    id: str
    revision: int
    former_ids: tuple[str, ...] = ()


def url_state_of_row(row: Row) -> UrlState:
    """The state in a row ``url#…``."""
    return UrlState(row["id"], row["revision"], tuple(row.get("left", ())))


def file_state_of_row(key: Key, row: Row | None) -> FileState:
    """The state in a row ``file#…``; revision 0 if there is no row."""
    file_id = key.partition.removeprefix("file#")
    if row is None:
        return FileState(file_id)
    return FileState(
        id=file_id,
        revision=row["revision"],
        url=row["url"],
        record=FileRecord.from_text(row["document"]) if "document" in row else None,
        problem=row.get("problem", ""),
        unsettled=tuple((what, where) for what, where in row.get("unsettled", ())),
        expires_s=row.get("expires_at", 0),
    )
