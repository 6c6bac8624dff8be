"""A destination in memory that behaves like S3, and jobs over it without Spark: their rows are numbers."""

from __future__ import annotations

import io
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from pathlib import PurePosixPath
from typing import IO, Any

import pyarrow as pa
import pyarrow.parquet as pq

from chalicelib.errors import ObjectNotFoundError
from glue_jobs.dataset.committing import Change, Committer
from glue_jobs.dataset.entries import APPEND, DATA, REWRITE, STAGING, Entry, Layout
from glue_jobs.dataset.files import ListedFile
from glue_jobs.dataset.publication import OUTPUT
from glue_jobs.dataset.small_files import Sizes, bins

LAYOUT = Layout(2, "UTC", "these")
SIZES = Sizes(small_bytes=10_000, target_bytes=20_000, most_files=2)
Partition = tuple[str, int]


class MemoryFiles:
    """``Files``. A move is a copy: the source remains."""

    uri = "memory:"

    def __init__(self) -> None:
        self.bodies: dict[str, bytes] = {}

    def list(self, prefix: str) -> Iterator[ListedFile]:
        return iter([ListedFile(name, len(self.bodies[name])) for name in sorted(self.bodies) if name.startswith(prefix)])

    def read(self, name: str, start: int = 0, end: int | None = None) -> bytes:
        if name not in self.bodies:
            raise ObjectNotFoundError(name)
        return self.bodies[name][start:end]

    def create(self, name: str, body: bytes) -> bool:
        return self.bodies.setdefault(name, body) is body

    def put(self, name: str, body: bytes) -> None:
        self.bodies[name] = body

    def upload(self, name: str, body: IO[bytes]) -> None:
        self.bodies[name] = body.read()

    def move(self, source: str, target: str) -> None:
        self.bodies[target] = self.read(source)

    def delete(self, names: Iterable[str]) -> None:
        for name in names:
            self.bodies.pop(name, None)

    def clear(self, folder: str) -> None:
        self.delete([name for name in self.bodies if name.startswith(folder)])


def table(numbers: Sequence[int]) -> bytes:
    """A Parquet file with one column."""
    sink = io.BytesIO()
    pq.write_table(pa.table({"n": pa.array(numbers, pa.int64())}), sink)
    return sink.getvalue()


def numbers_of(body: bytes) -> list[int]:
    return pq.read_table(io.BytesIO(body))["n"].to_pylist()


class Job:
    """Does the work of ``build_dataset`` with numbers instead of lines: ``source`` has all numbers so far, in order."""

    def __init__(self, files: Any, source: Sequence[tuple[Partition, int]]) -> None:
        self.files, self.source, self.committer = files, source, Committer(files, LAYOUT)

    def run(self) -> list[Entry]:
        """Repeat until nothing is new and no files remain to merge."""
        return [*iter(self.append, None), *iter(self.rewrite, None)]

    def append(self) -> Entry | None:
        state, ledger = self.committer.settled(), self.committer.ledger
        offset = ledger.planned(state.number + 1)
        start = state.offset["n"] if state.offset else 0
        if offset is None:
            if start == len(self.source):
                return None
            offset = ledger.plan(state.number + 1, {"n": len(self.source)})
        rows = self.source[start : offset["n"]]
        return self.committer.commit(state, Change(APPEND, offset), lambda attempt: self._stage(attempt, [rows]))

    def rewrite(self) -> Entry | None:
        state = self.committer.settled()
        found = bins(state.files.values(), SIZES)
        if not found:
            return None
        removed = [file for each in found for file in each]

        def put_together(attempt: str) -> None:
            self._stage(attempt, [[row for file in each for row in self._rows(file.path)] for each in found])

        return self.committer.commit(state, Change(REWRITE, removed=removed), put_together)

    def _rows(self, path: str) -> list[tuple[Partition, int]]:
        return [(_partition(path), n) for n in numbers_of(self.files.read(path))]

    def _stage(self, attempt: str, tasks: Sequence[Sequence[tuple[Partition, int]]]) -> None:
        for task, rows in enumerate(tasks):
            for date, bucket in sorted({partition for partition, _ in rows}):
                body = table([n for partition, n in rows if partition == (date, bucket)])
                self.files.put(f"{STAGING}{attempt}/{OUTPUT}date={date}/what_bucket={bucket}/part-{task}.zstd.parquet", body)
        self.files.put(f"{STAGING}{attempt}/{OUTPUT}_SUCCESS", b"")


def _partition(path: str) -> Partition:
    date, bucket = PurePosixPath(path).parts[1:3]
    return date.partition("=")[2], int(bucket.partition("=")[2])


def by_glob(files: Any) -> Counter[tuple[Partition, int]]:
    """The rows of all files in data/."""
    found = [each.name for each in files.list(DATA)]
    return Counter((_partition(name), n) for name in found for n in numbers_of(files.read(name)))


def by_ledger(files: Any) -> Counter[tuple[Partition, int]]:
    """The rows of the files that the ledger lists."""
    state = Committer(files, LAYOUT).ledger.head().state
    return Counter((_partition(name), n) for name in state.files for n in numbers_of(files.read(name)))
