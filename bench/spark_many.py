"""``python -m bench.spark_many``: ``build_dataset`` and ``rebuild_catalog`` over a run of 100,000 one-line segments, of which every line must
exist once afterwards. Bulk compaction: ``python -m bench.spark_compaction --dirty``."""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import duckdb

from bench.figures import print_rows, save
from bench.measure import Measure
from bench.spark_compaction_archive import BenchArchive, BenchRun, bench_archive
from bench.spark_dataset_world import RAW
from bench.spark_job import job
from bench.spark_upkeep import with_files
from chalicelib.ports import Run

SEGMENTS = 100_000
_CODE = ("glue_jobs", "chalicelib/lines", "chalicelib/runlog")


class _Turns:
    """Result and duration of each job."""

    def __init__(self, segments: int) -> None:
        self.rows: list[Measure] = []
        self._segments = segments

    @contextmanager
    def turn(self, name: str) -> Iterator[list[bool]]:
        """Times the block, which adds its checks to the yielded list."""
        holds: list[bool] = []
        started_s = time.perf_counter()
        yield holds
        said = f"{time.perf_counter() - started_s:.0f} s, {'as it must be' if all(holds) else f'WRONG {holds}'}"
        print(f"{name}: {said}", file=sys.stderr)
        self.rows.append(Measure(f"{name}: a run of {self._segments:,} segments of one line", "every line, once", said, all(holds)))


def measure(segments: int = SEGMENTS) -> list[Measure]:
    """A row for each job."""
    many = BenchRun(
        Run("svc.many", "run-1"), [b"2026-11-21 03:00:00,000 - svc.load - INFO - row %d\n" % n for n in range(segments)]
    )
    turns = _Turns(segments)
    with bench_archive() as (archive, _), tempfile.TemporaryDirectory(prefix="runlake-many-") as folder:
        with_files(archive)
        archive.fill([many])
        _dataset(turns, many, Path(folder))
        _rebuild(turns, archive, many)
    return turns.rows


def _dataset(turns: _Turns, many: BenchRun, folder: Path) -> None:
    with turns.turn("build_dataset, from segments") as holds:
        told = job("--dest", folder.as_uri(), "--live", name="build_dataset")
        stored = duckdb.sql(f"select {RAW} from read_parquet('{folder}/data/**/*.parquet') order by line")
        found = stored.fetchall() if stored else []
        holds += [told["rows"] == len(many.bodies), b"".join(row[0] for row in found) == many.log]


def _rebuild(turns: _Turns, archive: BenchArchive, many: BenchRun) -> None:
    with turns.turn("rebuild_catalog, all rows lost") as holds:
        before = archive.runs.get(many.run)
        archive.rows.delete({"fqn": many.run.fqn, "run_id": many.run.run_id})
        archive.delete_segment_rows(many)
        told = job(name="rebuild_catalog")
        after = archive.runs.get(many.run)
        holds += [sum(told["runs"].values()) == 1, archive.segment_rows_of(many) == many.entries]
        holds += [before is not None and after is not None and (after.lines, after.bytes) == (before.lines, before.bytes)]


def main() -> int:
    """Exit code 1 if a line was lost."""
    parser = argparse.ArgumentParser(prog="python -m bench.spark_many", description=__doc__)
    parser.add_argument("--segments", type=int, default=SEGMENTS)
    parser.add_argument(
        "--write", action="store_true", help="store the rows in docs/figures.json; then run python -m docs.generate"
    )
    arguments = parser.parse_args()
    rows = measure(arguments.segments)
    if arguments.write:
        save(rows, "large-run", "spark_many", _CODE)
    return print_rows(rows)


if __name__ == "__main__":
    sys.exit(main())
