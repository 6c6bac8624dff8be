"""The table of pipelines' files: its partitions, and reads that are independent of the rows' meaning."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from chalicelib.pipelines.files.key_layout import prefix_end
from chalicelib.ports import Database, Row

TABLE = "pipeline_files"
"""Partition ``partition``, sort key ``at``."""
BASES, COMMITS = "#bases", "#commits"
"""Partitions without files: no base begins like this."""
PAGE_ROWS = 1000
_FIRST = " "
"""Sorts before all characters of keys: appended to a key, it precedes all longer keys."""


def rows_of_partition(database: Database, partition: str, prefix: str = "") -> Iterator[Row]:
    """Rows of a partition whose sort keys begin with ``prefix``, in order."""
    for page in pages(database, partition, prefix or None, prefix_end(prefix) if prefix else None):
        yield from page


def next_key(at: str) -> str:
    """The first possible key after one."""
    return at + _FIRST


def pages(
    database: Database, partition: str, start: str | None, end: str | None, onward: Callable[[str], str] = next_key
) -> Iterator[Sequence[Row]]:
    """Rows of a partition from one sort key to another, in order, 1,000 for each Query. ``onward``: the start of a page, given
    the last key of the page before; keys between them are skipped."""
    while start is None or end is None or start < end:
        rows, more = database.query(TABLE, partition, start, end, limit=PAGE_ROWS)
        yield rows
        if not more or not rows:
            return
        start = onward(rows[-1]["at"])
