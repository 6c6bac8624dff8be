"""Cost of the maintenance jobs: rebuilding the catalog from S3, expiring old runs, cataloguing files.

``python -m bench.spark_upkeep``. The jobs count their own requests; the runs are those of the compaction's measurement, finalized.
"""

from __future__ import annotations

import hashlib
import json
import os
import sys
from collections import Counter
from collections.abc import Mapping
from random import Random

from bench.bench_world import ARCHIVE, MIB, archive_tables
from bench.figures import print_rows
from bench.measure import Measure, reported
from bench.spark_compaction import SEGMENT_BYTES, SEGMENTS
from bench.spark_compaction_archive import BenchArchive, BenchRun, bench_archive, uniform_runs
from bench.spark_job import job
from chalicelib import composition
from chalicelib.aws.clock import SystemClock
from glue_jobs.expiration.expiry import ExpiringRun, Outcome
from glue_jobs.job_runtime.prices import DPU_HOUR, dollars
from glue_jobs.job_runtime.request_counts import request_counter, snapshot
from glue_jobs.retention import expiry_of

RUNS, FILES, FILE_BYTES = 400, 200, MIB
_GB = 1e9
_CORES, _VCPU_OF_DPU = 2, 4


class _NextYear(SystemClock):
    """A clock one year ahead, because retention never expires young runs."""

    def now_ms(self) -> int:
        return super().now_ms() + 365 * 86_400_000


def measure(runs: int = RUNS, files: int = FILES) -> list[Measure]:
    """All rows."""
    with bench_archive() as (archive, _):
        with_files(archive)
        made = uniform_runs(runs, SEGMENTS, SEGMENT_BYTES)
        archive.fill(made)
        assert job()["runs"]["finalized"] == runs
        what = f"{runs:,} finished runs × {SEGMENTS} segments × {SEGMENT_BYTES // 1024} KiB"
        rebuilt = _rebuilt(archive, made, what)
        return [rebuilt, _expired(archive, made, what), _backfilled(archive, files)]


def with_files(archive: BenchArchive) -> None:
    """The archive's bucket and tables, for the jobs that this process starts."""
    archive.s3.create_bucket(Bucket=ARCHIVE)
    os.environ.update({f"RUNLAKE_{name.upper()}_TABLE": of for name, of in archive_tables("upkeep").items()})


def _rebuilt(archive: BenchArchive, made: list[BenchRun], what: str) -> Measure:
    lost = {f"{each.run.fqn}/{each.run.run_id}" for each in made}
    archive.rows.delete_all([{"fqn": each.run.fqn, "run_id": each.run.run_id} for each in made])
    told = job(name="rebuild_catalog")
    assert sum(told["runs"].values()) == len(lost) and told["files"]["files"] == len(made), told
    assert archive.runs.get(made[0].run), "its row is rebuilt"
    return _costs(f"rebuild_catalog, {what}", told["requests"], told["bytes"], told["seconds"])


def _expired(archive: BenchArchive, made: list[BenchRun], what: str) -> Measure:
    composition.install(None)
    request_counter()
    expiry = expiry_of(composition.services().with_ports(clock=_NextYear()), "bench")
    before = snapshot()
    outcomes = Counter(expiry.expire(_expiring(each)) for each in made)
    requests = snapshot() - before
    assert outcomes == {Outcome.EXPIRED: len(made)}, outcomes
    assert archive.get(archive.layout.logs(made[0].run)) is None
    return _costs(f"retention, {what}", requests, sum(len(each.log) for each in made), None)


def _expiring(each: BenchRun) -> ExpiringRun:
    last = each.entries[-1]
    return ExpiringRun(
        each.run.fqn,
        each.run.run_id,
        "keep_days",
        0,
        last.appended_ms,
        last.end_byte,
        len(each.entries) + 1,
        last.end_byte,
        last.sequence,
    )


def _backfilled(archive: BenchArchive, files: int) -> Measure:
    chance = Random(1)
    for number in range(files):
        body = chance.randbytes(FILE_BYTES)
        at_ms = 1_795_230_000_000 + number * 60_000
        metadata = {
            "version": 0, "start": at_ms, "end": at_ms + 60_000, "path": f"/var/log/app/{number}.log", "work_id": None,
            "where": f"web-{number % 20}", "what": "app", "id": f"{number:032x}", "hash": hashlib.blake2b(body, digest_size=16).hexdigest(),
        }  # fmt: skip
        archive.s3.put_object(Bucket=ARCHIVE, Key=f"{number:032x}/data", Body=body, Metadata={"datalake": json.dumps(metadata)})
    told = job(name="backfill")
    assert told["files"] == files, told
    return _costs(f"backfill, {files} files of {FILE_BYTES // MIB} MiB", told["requests"], files * FILE_BYTES, None)


def _costs(what: str, requests: Mapping[str, int], size: int, seconds: float | None) -> Measure:
    sent = f"{sum(requests.values()) / size * _GB:,.0f} requests, ${dollars(requests) / size * _GB:.4f}"
    if seconds is None:
        return reported(f"requests and dollars for 1 GB: {what}", sent)
    rate = size / 1e6 / seconds / _CORES
    hours = 1e6 / rate / _VCPU_OF_DPU / 3600
    glue = f"{rate:.2f} MB/s a core with the start of Spark, beside the emulator: about {hours:.0f} DPU-hours (${hours * DPU_HOUR:.0f}) for 1 TB"
    return reported(f"requests and dollars for 1 GB: {what}", f"{sent}; {glue}")


if __name__ == "__main__":
    sys.exit(print_rows(measure()))
