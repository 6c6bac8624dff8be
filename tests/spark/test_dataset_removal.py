"""Rows of deleted runs leave the dataset by an entry of the ledger. Without Spark."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql.pandas.types import to_arrow_schema

from chalicelib.ports import Run
from chalicelib.runlog.deletion_marks import DeletionMark, put_mark
from glue_jobs.dataset.committing import Change, Committer
from glue_jobs.dataset.entries import APPEND, STAGING, Layout
from glue_jobs.dataset.files import LocalFiles
from glue_jobs.dataset.publication import OUTPUT
from glue_jobs.dataset.removal import MarkedRows
from glue_jobs.dataset.row_tables import values_of
from glue_jobs.dataset.write_tasks import write_files
from glue_jobs.datasource.schema import EVENTS, schema_of
from tests.world import World

GONE, OTHER, SAME_ID = Run("svc.flow", "r1"), Run("svc.flow", "r2"), Run("svc.other", "r1")


@pytest.mark.behavior("Rows of a deleted run leave the dataset with the next job.")
def test_rows_of_deleted_run_leave_the_dataset(tmp_path: Path) -> None:
    world, files = World(), LocalFiles(tmp_path)
    committer = Committer(files, Layout(4, "UTC", ""))
    values = {run: values_of(run.fqn, 1_795_219_200, (), 4) for run in (GONE, OTHER, SAME_ID)}
    same = {"outcome": "succeeded", "level": "INFO", "logger": "app"}
    rows = [
        {
            "fqn": run.fqn,
            "run_id": run.run_id,
            "line": line,
            "message": f"{run.fqn}/{run.run_id} says",
            "raw": f"{run.fqn}/{run.run_id} says\n".encode(),
        }
        | same
        for line in range(3)
        for run in (GONE, OTHER, SAME_ID)
    ]
    events = pa.RecordBatch.from_pylist(rows, to_arrow_schema(schema_of(EVENTS)))

    def removal() -> MarkedRows:
        now_ms = world.clock.now_ms()
        return MarkedRows(files, committer, world.store, 4, lambda: world.clock.now_ms() / 1000, now_ms)

    appending = removal()
    assert appending.remove() is None
    put_mark(world.store, DeletionMark(GONE.fqn, GONE.run_id, 1, "ada"))
    world.clock.advance(7200)
    assert removal().remove() is None
    committer.commit(
        committer.settled(),
        Change(APPEND, {}),
        lambda attempt: write_files(iter([events]), values, files, f"{STAGING}{attempt}/{OUTPUT}"),
    )
    entry = appending.remove()
    assert entry and entry.counts["rows"] == 6 and appending.remove() is None
    left = [pq.read_table(path, partitioning=None).to_pylist() for path in (tmp_path / "data").rglob("*.parquet")]
    assert (
        sorted((row["fqn"], row["run_id"]) for rows in left for row in rows) == [("svc.flow", "r2")] * 3 + [("svc.other", "r1")] * 3
    )
    assert not any(b"svc.flow/r1 says" in each.read_bytes() for each in tmp_path.rglob("*") if each.is_file())
    world.clock.advance(7200)
    later = removal()
    later.remove()
    calls = world.store.calls["list"]
    assert later.remove() is None and world.store.calls["list"] == calls + 1
