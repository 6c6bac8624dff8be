"""Output sets: the files of a handler, registered so that jobs over all files find them."""

from __future__ import annotations

from dataclasses import dataclass

from chalicelib.pipelines.files.bucket_location import BucketLocation
from chalicelib.pipelines.files.table import BASES, TABLE, next_key, rows_of_partition
from chalicelib.ports import Database, Key, Put, Row


@dataclass(frozen=True, slots=True)
class OutputSet:
    """The files of a handler. ``name`` is the ``base`` of its configuration and of the files' keys; ``keep_…`` is the retention
    (0: no limit)."""

    name: str
    bucket: str
    keep_ms: int
    keep_bytes: int
    keep_files: int
    role: str = ""
    owner: str = ""

    @property
    def location(self) -> BucketLocation:
        """The bucket of its files."""
        return BucketLocation(self.bucket, self.role, self.owner)


def put_output_set(database: Database, base: OutputSet) -> None:
    """Register an output set. One write."""
    row = {
        "partition": BASES,
        "at": base.name,
        "bucket": base.bucket,
        "role": base.role,
        "owner": base.owner,
        "keep": [base.keep_ms, base.keep_bytes, base.keep_files],
    }
    database.put_many([Put(Key(TABLE, BASES, base.name), row)])


def list_output_sets(database: Database) -> list[OutputSet]:
    """All output sets that were ever registered. One Query for 1,000."""
    return [_base(row) for row in rows_of_partition(database, BASES)]


def output_set_names(database: Database, after: str, limit: int) -> tuple[list[str], str | None]:
    """A page of the names of output sets, in order: at most ``limit`` after ``after``; and where the next one begins, None at the end. One
    Query."""
    rows, more = database.query(TABLE, BASES, next_key(after) if after else None, None, limit=limit)
    names = [str(row["at"]) for row in rows]
    return names, names[-1] if more and names else None


def get_output_set(database: Database, name: str) -> OutputSet | None:
    """The output set of a name. One read."""
    key = Key(TABLE, BASES, name)
    found = database.get_many([key]).get(key)
    return _base(found) if found else None


def _base(row: Row) -> OutputSet:
    keep_ms, keep_bytes, keep_files = (int(each) for each in row["keep"])
    return OutputSet(row["at"], row["bucket"], keep_ms, keep_bytes, keep_files, row["role"], row["owner"])
