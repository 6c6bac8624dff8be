"""Tasks that write files: which slices they have, what is in their files, and that of several attempts at a task one counts."""

from __future__ import annotations

import io
from collections import Counter
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from chalicelib.errors import UnavailableError
from chalicelib.ports import Run
from glue_jobs.dataset import partition_files
from glue_jobs.dataset.committing import Change, Committer
from glue_jobs.dataset.entries import APPEND, DATA, STAGING, StagedFile
from glue_jobs.dataset.partition_files import PAGE_ROWS
from glue_jobs.dataset.row_tables import values_of
from glue_jobs.dataset.write_tasks import write_files, write_tasks
from glue_jobs.datasource.log import ArtifactPiece
from glue_jobs.datasource.schema import EVENTS, arrow_schema, schema_of
from glue_jobs.datasource.slices import Edge, Slice
from tests.faults.interception import AFTER, BEFORE, Crash, Intercepted, StopAt
from tests.spark.dataset_store import LAYOUT, MemoryFiles

RUN = Run("svc.orders", "run-1")
VALUES = {RUN: values_of(RUN.fqn, 0, (), 16)}
DAY = datetime(2026, 11, 20, tzinfo=UTC)


def batches(times: Sequence[datetime], size: int = 1) -> Iterator[pa.RecordBatch]:
    """Batches of ``size`` events of one run, with these times and increasing lines."""
    schema = arrow_schema(schema_of(EVENTS).names, EVENTS)
    rows = [
        (RUN.fqn, RUN.run_id, line, at, "INFO", f"svc.load{line}", f"row {line}", b"row %d\n" % line, None, None, None, "succeeded")
        for line, at in enumerate(times)
    ]
    for first in range(0, len(rows), size):
        columns = zip(*rows[first : first + size], strict=True)
        yield pa.RecordBatch.from_arrays(
            [pa.array(each, kind) for each, kind in zip(columns, schema.types, strict=True)], schema=schema
        )


def lines_of(files: Any, names: Sequence[str]) -> Counter[int]:
    return Counter(line for name in names for line in pq.read_table(io.BytesIO(files.read(name)))["line"].to_pylist())


OPEN = 2
TURNS = [DAY + timedelta(days=number % (OPEN + 1), hours=number) for number in range(2 * OPEN + 2)]
"""Times of days that take turns, one more than files are open at once."""


@pytest.fixture(autouse=True)
def _few_open_files(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(partition_files, "MAX_OPEN", OPEN)


@pytest.mark.behavior("Of repeated and speculative attempts at a task that writes files of the dataset one counts.")
@pytest.mark.parametrize(("moment", "how"), [(BEFORE, "error"), (AFTER, "error"), (AFTER, "crash")])
def test_one_attempt_at_a_task_counts(moment: str, how: str) -> None:
    """Stopped at each call, then repeated, with another attempt that ends later."""
    number = 0
    while True:
        files, stop = MemoryFiles(), StopAt(number, moment, how)
        tries: list[list[StagedFile]] = []

        def stage(attempt: str, files: MemoryFiles = files, stop: StopAt = stop, tries: list[Any] = tries) -> list[StagedFile]:
            for each in (Intercepted(files, stop), files, files):
                try:
                    tries.append(write_files(batches(TURNS), VALUES, each, f"{STAGING}{attempt}/files/", sorted_bytes=1))
                except (UnavailableError, Crash):
                    continue
            return tries[0]

        committer = Committer(files, LAYOUT)
        entry = committer.commit(committer.settled(), Change(APPEND, {"n": 1}), stage)
        in_data = [each.name for each in files.list(DATA)]
        assert lines_of(files, in_data) == dict.fromkeys(range(len(TURNS)), 1), f"stopped at call {number}"
        assert sorted(in_data) == sorted(each.file.path for each in entry.added) and not list(files.list(STAGING))
        assert len({each.name for staged in tries for each in staged}) == sum(map(len, tries)), "attempts share no name"
        assert entry.counts["rows"] == len(TURNS) and entry.counts["files"] == len(tries[0])
        if not stop.fired:
            break
        number += 1
    assert number > OPEN


def test_rows_of_turns_are_in_files_of_their_partitions() -> None:
    files = MemoryFiles()
    staged = write_files(batches(TURNS), VALUES, files, "x/", sorted_bytes=1)
    assert len(staged) > OPEN + 1, "files that were closed too early are followed by others"
    for each in staged:
        table = pq.read_table(io.BytesIO(files.read(f"x/{each.name}")))
        assert {f"date={at:%Y-%m-%d}/what_bucket={VALUES[RUN].bucket}" for at in table["timestamp"].to_pylist()} == {
            each.name.rpartition("/")[0]
        }
        assert (each.rows, each.bytes) == (table.num_rows, len(files.read(f"x/{each.name}")))


def test_pages_and_statistics_let_engines_skip() -> None:
    files = MemoryFiles()
    times = [DAY + timedelta(seconds=number) for number in range(5 * PAGE_ROWS)]
    (staged,) = write_files(batches(times[::-1], 1000), VALUES, files, "", sorted_bytes=64 * 1024)
    parquet = pq.ParquetFile(io.BytesIO(files.read(staged.name)))
    groups = [parquet.metadata.row_group(number) for number in range(parquet.metadata.num_row_groups)]
    columns = {
        name: [group.column(parquet.schema_arrow.names.index(name)) for group in groups] for name in parquet.schema_arrow.names
    }
    assert len(groups) > 1 and all(each.has_column_index for each in columns["timestamp"])
    assert all((each.statistics.max - each.statistics.min).seconds < 3 * PAGE_ROWS for each in columns["timestamp"]), (
        "of its own rows"
    )
    assert all("RLE_DICTIONARY" in each.encodings for name in ("level", "logger", "fqn", "run_id") for each in columns[name])
    assert not any(each.is_stats_set for each in columns["message"])
    stamps = [parquet.read_row_group(number)["timestamp"].to_pylist() for number in range(len(groups))]
    assert all(each == sorted(each) for each in stamps), "rows of a group are sorted"


def test_row_groups_have_only_their_own_values(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two days, whose rows are sorted together, and several row groups of each."""
    monkeypatch.setattr(partition_files, "GROUP_BYTES", 16 * 1024)
    files = MemoryFiles()
    times = [DAY + timedelta(days=number % 2, seconds=number) for number in range(1000)]
    for each in write_files(batches(times, 1000), VALUES, files, ""):
        parquet = pq.ParquetFile(io.BytesIO(files.read(each.name)), read_dictionary=["logger"])
        assert parquet.num_row_groups > 1 and each.rows == parquet.metadata.num_rows == 500
        for number in range(parquet.num_row_groups):
            loggers = parquet.read_row_group(number)["logger"].chunk(0)
            assert len(loggers.dictionary) == len(loggers) and set(loggers.to_pylist()) == set(loggers.dictionary.to_pylist())


def part(run: Run, day: int, size: int) -> Slice:
    edges = Edge(0), Edge(size), Edge(size)
    return Slice(run, "", *edges, (ArtifactPiece("logs.txt", "", 0, size),), day * 86_400)


def test_slices_of_a_bucket_and_a_day_share_a_task_up_to_its_size() -> None:
    parts = [part(Run(f"svc{fqn}.orders", f"run-{day}"), day, 400_000) for day in (2, 1) for fqn in range(6)]
    runs = {each.run: values_of(each.run.fqn, 0, (), 3) for each in parts}
    tasks = write_tasks(parts, runs, 1_000_000)
    assert Counter(each.run for task in tasks for each in task.slices) == Counter(each.run for each in parts)
    for task in tasks:
        assert len({runs[each.run].bucket for each in task.slices}) == 1 and len(task.slices) <= 2
        assert set(task.runs) == {each.run for each in task.slices}
        assert len({each.reference_s for each in task.slices}) == 1 or len(task.slices) == 1, (
            "a day's files are not cut for another's"
        )
    sizes = [len(task.slices) for task in tasks]
    assert sizes == sorted(sizes, reverse=True), "the largest first"
    assert len(write_tasks(parts, runs)) == len({values.bucket for values in runs.values()})
    assert write_tasks([], {}) == []
