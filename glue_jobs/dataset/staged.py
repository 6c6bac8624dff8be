"""Staged files as those that an entry adds. Those that Spark has written are listed, and their footers have the row counts."""

from __future__ import annotations

from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor

import pyarrow as pa
import pyarrow.parquet as pq

from chalicelib.errors import DamagedLogError
from glue_jobs.dataset.entries import DATA, STAGING, Added, DataFile, StagedFile
from glue_jobs.dataset.files import Files, ListedFile
from glue_jobs.dataset.publication import OUTPUT

_SUFFIX = ".parquet"
_TAIL_BYTES = 64 * 1024
_TRAILER_BYTES = 8
_THREADS = 16


def added_files(staged: Iterable[StagedFile], number: int) -> tuple[Added, ...]:
    """Files with their final names."""
    return tuple(_added(each, number, index) for index, each in enumerate(sorted(staged)))


def staged_files(files: Files, attempt: str) -> list[StagedFile]:
    """All files that Spark's writer has completed for an attempt. A LIST, and a GET or two for each file."""
    folder = f"{STAGING}{attempt}/{OUTPUT}"
    listed = [each for each in files.list(folder) if _is_data(each.name.removeprefix(folder))]
    with ThreadPoolExecutor(_THREADS) as threads:
        rows = list(threads.map(lambda each: rows_of(files, each), listed))
    return [StagedFile(each.name.removeprefix(folder), each.bytes, count) for each, count in zip(listed, rows, strict=True)]


def rows_of(files: Files, listed: ListedFile) -> int:
    """The row count of a Parquet file. Raises DamagedLogError if it is not one."""
    start = max(listed.bytes - _TAIL_BYTES, 0)
    tail = files.read(listed.name, start, listed.bytes)
    needed = int.from_bytes(tail[-_TRAILER_BYTES:-4], "little") + _TRAILER_BYTES
    if len(tail) < needed <= listed.bytes:
        tail = files.read(listed.name, listed.bytes - needed, listed.bytes)
    try:
        return int(pq.read_metadata(pa.BufferReader(tail)).num_rows)
    except pa.ArrowInvalid as error:
        raise DamagedLogError(f"invalid Parquet file in the staging folder name={listed.name}") from error


def _is_data(name: str) -> bool:
    """Excludes files of unfinished tasks and Spark's marker files."""
    return name.endswith(_SUFFIX) and not any(part.startswith(("_", ".")) for part in name.split("/"))


def _added(staged: StagedFile, number: int, index: int) -> Added:
    path = f"{DATA}{_folders(staged.name)}{number:010d}-{index:05d}.zstd{_SUFFIX}"
    return Added(DataFile(path, staged.bytes, staged.rows), staged.name)


def _folders(name: str) -> str:
    head, slash, _ = name.rpartition("/")
    return head + slash
