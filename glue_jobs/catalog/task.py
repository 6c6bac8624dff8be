"""Tasks of the catalog rebuild in Spark's workers: list, repair, register, check; Arrow batches in and out."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import TYPE_CHECKING, Any

from chalicelib import composition
from chalicelib.aws.clients import make_client
from chalicelib.aws.dynamodb import Table
from chalicelib.composition import Services
from chalicelib.ports import Run
from glue_jobs.catalog.catalog_repair import RUNS, SEGMENTS, RunRepair, RunRepairer
from glue_jobs.catalog.files import check_rows, register_archive, register_logs
from glue_jobs.catalog.run_items import DynamoDbRunItems
from glue_jobs.catalog.scan import known_runs
from glue_jobs.expiration.inventory import BucketInventory
from glue_jobs.job_runtime.environment import apply_environment
from glue_jobs.job_runtime.request_counts import request_counter, snapshot

if TYPE_CHECKING:
    from pyarrow import RecordBatch

FILES = "files"
MAX_CONCURRENT_RUNS, THREADS = 4, 8
"""Concurrent runs in a task, and concurrent requests for each run: as many connections as a client has."""
MAX_REPORTED = 20


class Task:
    """Code that runs in Spark's Python workers. Each method maps batches of one DataFrame to batches of another."""

    def __init__(self, work: Mapping[str, Any], environment: Mapping[str, str]) -> None:
        self._work, self._environment = dict(work), dict(environment)

    def list_runs(self, batches: Iterable[RecordBatch]) -> Iterator[RecordBatch]:
        """Folders of pipelines to runs (transforms.catalog.RUNS). A LIST for each 1,000 objects."""
        services = self._services()
        inventory = BucketInventory(services.store, services.layout)
        for folder in _rows(batches):
            rows = []
            for run, _, _, _, objects, log_bytes, *_ in inventory.runs(folder["folder"]):
                rows.append({"fqn": run.fqn, "run_id": run.run_id, "objects": objects, "has_log": log_bytes >= 0})
            yield _batch(rows, "RUNS")

    def scan_runs(self, batches: Iterable[RecordBatch]) -> Iterator[RecordBatch]:
        """Table segments to the runs that have rows in them."""
        services = self._services()
        client = make_client("dynamodb", region=None)
        for part in _rows(batches):
            runs = known_runs(client, services.settings, part["segment"], part["of"])
            yield _batch([{"fqn": run.fqn, "run_id": run.run_id} for run in runs], "KNOWN")

    def repair(self, batches: Iterable[RecordBatch]) -> Iterator[RecordBatch]:
        """A task's runs (PLANNED) to results (RESULTS)."""
        rows = list(_rows(batches))
        if not rows:
            return
        services, before = self._services(), snapshot()
        results: list[dict[str, Any]] = []
        if set(self._work["only"]) & {RUNS, SEGMENTS}:
            repairer = self._repairer(services)
            with ThreadPoolExecutor(MAX_CONCURRENT_RUNS) as threads:
                results += map(_work, threads.map(repairer.repair, (Run(row["fqn"], row["run_id"]) for row in rows)))
        if FILES in self._work["only"]:
            runs = [Run(row["fqn"], row["run_id"]) for row in rows if row["has_log"]]
            results += register_logs(services, runs, dry_run=self._work["dry_run"])
        yield _batch([*_summed(results), _requests(before)], "RESULTS")

    def archive(self, batches: Iterable[RecordBatch]) -> Iterator[RecordBatch]:
        """Key ranges of the archive to the results of their files (RESULTS)."""
        services, before = self._services(), snapshot()
        results = [
            result
            for each in _rows(batches)
            for result in register_archive(services, each["first"], each["last"], dry_run=self._work["dry_run"])
        ]
        yield _batch([*_summed(results), _requests(before)], "RESULTS")

    def check(self, batches: Iterable[RecordBatch]) -> Iterator[RecordBatch]:
        """Table segments of the archive to the results of rows without a file (RESULTS)."""
        services, before = self._services(), snapshot()
        client = make_client("dynamodb", region=None)
        check = partial(check_rows, services, client, prune=self._work["prune"], dry_run=self._work["dry_run"])
        results = [
            result
            for each in _rows(batches)
            for result in check(each["table"], each["segment"], each["of"], is_last=each["is_last"])
        ]
        yield _batch([*_summed(results), _requests(before)], "RESULTS")

    def _services(self) -> Services:
        apply_environment(self._environment)
        request_counter()
        return composition.services()

    def _repairer(self, services: Services) -> RunRepairer:
        settings, client = services.settings, make_client("dynamodb", region=None)
        items = DynamoDbRunItems(Table(client, settings.runs_table), Table(client, settings.segments_table))
        return RunRepairer(
            items,
            services.store,
            services.layout,
            services.clock,
            settings.expiration_days * 86_400,
            tables=frozenset(self._work["only"]),
            threads=THREADS,
            prune=self._work["prune"],
            grace_ms=self._work["grace_ms"],
            dry_run=self._work["dry_run"],
            events=services.events.indexing.rebuild,
        )


def _work(repair_: RunRepair) -> dict[str, Any]:
    counts = repair_.rows + Counter({"segments_unknown": repair_.unknown, "bytes": repair_.bytes})
    return {
        "outcome": repair_.outcome,
        "runs": 1,
        "counts": counts,
        "problems": repair_.problems,
        "differences": repair_.differences,
    }


def _summed(results: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """One row for each outcome, so that a task's output is small."""
    summed: dict[str, dict[str, Any]] = {}
    for each in results:
        into = summed.setdefault(
            each["outcome"], {"outcome": each["outcome"], "runs": 0, "counts": Counter(), "problems": [], "differences": []}
        )
        into["runs"] += each["runs"]
        into["counts"].update(each["counts"])
        for name in ("problems", "differences"):
            into[name] += each[name][: MAX_REPORTED - len(into[name])]
    return [row | {"counts": list(row["counts"].items())} for row in summed.values()]


def _requests(before: Counter[str]) -> dict[str, Any]:
    sent = [(f"requests.{name}", count) for name, count in (snapshot() - before).items()]
    return {"outcome": None, "runs": 0, "counts": sent, "problems": [], "differences": []}


def _rows(batches: Iterable[RecordBatch]) -> Iterator[dict[str, Any]]:
    for batch in batches:
        yield from batch.to_pylist()


def _batch(rows: list[dict[str, Any]], schema: str) -> RecordBatch:
    import pyarrow as pa
    from pyspark.sql.pandas.types import to_arrow_schema

    from glue_jobs.transforms import catalog

    return pa.RecordBatch.from_pylist(rows, schema=to_arrow_schema(getattr(catalog, schema)))
