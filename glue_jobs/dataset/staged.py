"""Files that Spark has staged, with their sizes and the row counts of their footers."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pyarrow as pa
import pyarrow.parquet as pq

from chalicelib.errors import DamagedLogError
from glue_jobs.dataset.entries import DATA, STAGING, Added, DataFile
from glue_jobs.dataset.files import Files, ListedFile
from glue_jobs.dataset.publication import OUTPUT

_SUFFIX = ".parquet"
_TAIL_BYTES = 64 * 1024
_TRAILER_BYTES = 8
_THREADS = 16


def staged(files: Files, attempt: str, number: int) -> tuple[Added, ...]:
    """An attempt's files with their final names. A LIST, and a GET or two for each file."""
    folder = f"{STAGING}{attempt}/{OUTPUT}"
    listed = [each for each in files.list(folder) if _is_data(each.name.removeprefix(folder))]
    with ThreadPoolExecutor(_THREADS) as threads:
        rows = list(threads.map(lambda each: rows_of(files, each), listed))
    return tuple(_added(each, folder, number, index, count) for index, (each, count) in enumerate(zip(listed, rows, strict=True)))


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


def _added(listed: ListedFile, folder: str, number: int, index: int, rows: int) -> Added:
    name = listed.name.removeprefix(folder)
    path = f"{DATA}{_folders(name)}{number:010d}-{index:05d}.zstd{_SUFFIX}"
    return Added(DataFile(path, listed.bytes, rows), name)


def _folders(name: str) -> str:
    head, slash, _ = name.rpartition("/")
    return head + slash
