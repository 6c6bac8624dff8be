"""Table ``objects``: what the catalog remembers of each file, by its id, so that it can tell what has changed and what to remove."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, ClassVar

from chalicelib.catalog.files import FileRecord
from chalicelib.ports import ABSENT_ROW, Clause, Key, Row, When

OBJECTS = "objects"


def file_key(file_id: str) -> Key:
    """The row of a file."""
    return Key(OBJECTS, f"file#{file_id}")


def url_key(url: str) -> Key:
    """The row that tells which file an object is, where its key does not."""
    return Key(OBJECTS, f"url#{url}")


def checkpoint_key(name: str) -> Key:
    """The row in which a job notes how far it has come."""
    return Key(OBJECTS, f"checkpoint#{name}")


@dataclass(frozen=True, slots=True)
class FileState:
    """A file as its rows were last written. Revision 0: never. Neither ``record`` nor ``problem``: it is gone.

    ``unsettled``: sources (what, where) whose latest file may have to be found anew because of it. ``forgotten_s``: when the row of a
    file that is gone expires, in seconds since the epoch.
    """

    DELETED_TTL_S: ClassVar[int] = 15 * 86_400
    """How long a file that is gone is remembered: no message of the queue is older."""
    UPLOAD_WINDOW_S: ClassVar[int] = 2 * 3600
    """Twice as long as a link for an upload works, which is signed before the file is there: longer than an upload by it can last."""

    id: str
    revision: int = 0
    url: str = ""
    record: FileRecord | None = None
    problem: str = ""
    unsettled: tuple[tuple[str, str], ...] = ()
    expires_s: int = 0

    @property
    def key(self) -> Key:
        """Its row."""
        return file_key(self.id)

    @property
    def is_known(self) -> bool:
        """Whether it is listed, or marked."""
        return bool(self.record or self.problem)

    def is_at(self, url: str) -> bool:
        """Whether this object is the file, good or refused."""
        return self.is_known and self.url == url

    def is_late_upload(self, url: str, created_ms: int) -> bool:
        """Whether an object is one that a link made a second time, after the first was deleted."""
        gone_s = self.expires_s - self.DELETED_TTL_S
        return bool(self.revision) and not self.is_known and self.url == url and created_ms < (gone_s + self.UPLOAD_WINDOW_S) * 1000

    @property
    def unchanged(self) -> When:
        """The condition that the row is still of this revision."""
        return ((Clause(("revision",), "=", self.revision),),) if self.revision else ABSENT_ROW

    def next_row(
        self, url: str, record: FileRecord | None, problem: str, unsettled: Iterable[tuple[str, str]] = ()
    ) -> dict[str, Any]:
        """The row of the next revision. Sources that were unsettled before are settled by whoever writes it."""
        optional = {
            "document": record.text() if record else "",
            "problem": problem,
            "unsettled": [list(source) for source in sorted(set(unsettled))],
        }
        row = {"key": self.key.partition, "revision": self.revision + 1, "url": url}
        return row | {name: value for name, value in optional.items() if value}


@dataclass(frozen=True, slots=True)
class UrlState:
    """Which file an object under an odd key is; empty: none that is known. ``left``: the files that it was before its last look, whose
    originals the next one has to look at."""

    id: str
    revision: int
    former_ids: tuple[str, ...] = ()


def url_state_of_row(row: Row) -> UrlState:
    """The name of a row."""
    return UrlState(row["id"], row["revision"], tuple(row.get("left", ())))


def file_state_of_row(key: Key, row: Row | None) -> FileState:
    """The file of a row, or of a key that has none."""
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
