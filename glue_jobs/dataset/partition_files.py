"""Writes the Parquet files of a task: by Arrow, first to this machine's disk, then as complete files to the staging folder."""

from __future__ import annotations

import tempfile
import uuid
from collections import OrderedDict
from typing import IO

import pyarrow as pa
import pyarrow.parquet as pq

from glue_jobs.dataset.entries import StagedFile
from glue_jobs.dataset.files import Files
from glue_jobs.dataset.row_tables import REPEATED, SCHEMA

MAX_OPEN = 16
"""Files that a task writes at the same time. Times of a log usually ascend, so older partitions get no more rows."""
GROUP_BYTES = 32 * 1024 * 1024
"""Of Arrow columns: some 8 MiB of Parquet. A query of one pipeline and one hour reads only matching row groups."""
PAGE_ROWS = 2000
"""With the page index, engines read only matching pages."""
_ANY_PAGE_BYTES = 1
"""Ends each page after ``PAGE_ROWS``."""
_FEW_VALUES = 64
"""Dictionaries of so few values are stored with row groups in which not all of them occur."""
LONG_TEXTS = ("message", "raw", "raw_head")
"""Texts of which most values are unique: dictionaries cost time without saving space, and statistics exclude nothing."""
_NUMBERS = ("line", "timestamp")


class PartitionFiles:
    """The files of one attempt at a task, whose names no other attempt uses: files of attempts that failed, or that were not the first to
    finish, are never listed. They stay in the staging folder until it is removed. A file is uploaded when it is complete.

    Disk: the files being written, ``MAX_OPEN`` at most; they have no names, so that nothing remains of a task that is killed.
    """

    def __init__(self, files: Files, folder: str) -> None:
        self._files, self._folder = files, folder
        self._name = f"part-{uuid.uuid4().hex}"
        self._open: OrderedDict[str, _OpenFile] = OrderedDict()
        self._complete: list[StagedFile] = []

    def write(self, partition: str, rows: pa.Table) -> None:
        """Append sorted rows (``SCHEMA``) of a partition, as row groups. Raises UnavailableError."""
        if partition not in self._open:
            if len(self._open) == MAX_OPEN:
                self._upload(next(iter(self._open)))
            self._open[partition] = _OpenFile()
        self._open.move_to_end(partition)
        self._open[partition].write(rows)

    def finish(self) -> list[StagedFile]:
        """Upload the remaining files; returns all. Raises UnavailableError."""
        for partition in list(self._open):
            self._upload(partition)
        return self._complete

    def close(self) -> None:
        """Discard files that were not uploaded."""
        while self._open:
            self._open.popitem()[1].body.close()

    def _upload(self, partition: str) -> None:
        written = self._open.pop(partition)
        name = f"{partition}/{self._name}-{len(self._complete)}.zstd.parquet"
        with written.body:
            written.complete()
            size = written.body.tell()
            written.body.seek(0)
            self._files.upload(self._folder + name, written.body)
        self._complete.append(StagedFile(name, size, written.rows))


class _OpenFile:
    def __init__(self) -> None:
        self.rows = 0
        self.body: IO[bytes] = tempfile.TemporaryFile()  # noqa: SIM115 - open while rows are added
        self._writer = pq.ParquetWriter(
            self.body,
            SCHEMA,
            compression="zstd",
            use_dictionary=sorted(REPEATED | {"segment", "epoch", "cause_rank", "cause_rule", "cause_family"}),
            column_encoding=dict.fromkeys(_NUMBERS, "DELTA_BINARY_PACKED"),
            write_statistics=[name for name in SCHEMA.names if name not in LONG_TEXTS],
            write_page_index=True,
            write_batch_size=PAGE_ROWS,
            data_page_size=_ANY_PAGE_BYTES,
            store_schema=False,
        )

    def write(self, rows: pa.Table) -> None:
        group_rows = max(rows.num_rows * GROUP_BYTES // max(rows.nbytes, GROUP_BYTES), 1)
        for first in range(0, rows.num_rows, group_rows):
            self._writer.write_table(_with_own_values(rows.slice(first, group_rows)), group_rows)
        self.rows += rows.num_rows

    def complete(self) -> None:
        self._writer.close()


def _with_own_values(rows: pa.Table) -> pa.Table:
    """Rows whose dictionaries have no values of other rows: each row group stores its dictionaries as they are."""
    for name in REPEATED:
        if len(rows[name].chunk(0).dictionary) > _FEW_VALUES:
            rows = rows.set_column(
                SCHEMA.get_field_index(name), SCHEMA.field(name), rows[name].cast(pa.string()).dictionary_encode()
            )
    return rows
