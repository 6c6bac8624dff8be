"""The measurements, one function each; results are text for the table."""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from functools import partial
from typing import Any

from bench import (
    archive_measures,
    codecs,
    coordination_kill,
    forwarding_measures,
    masking_measures,
    schedule_measures,
)
from bench.append_latency import append_latency
from bench.bench_world import MIB, Function, append_event, cookie_of, gateway_event
from bench.measure import Measure, Measurement
from bench.pipeline_visits import pipeline_visits
from bench.start_up import start_up
from bench.workload import LINE
from bench.write_amplification import write_amplification
from chalicelib.deadline import Deadline
from chalicelib.ports import Run
from chalicelib.runlog.batch import Batch
from chalicelib.runlog.segment import metadata_of

BATCH = LINE * 40


def requests_of_appends(function: Function) -> list[Measure]:
    """Requests of a warm append, a retry and a cold one, as they leave the process."""
    run = "svc.bench/requests"
    cold_new = _spent(function, lambda: function.append(append_event(run, BATCH)))
    cookie = function.append(append_event(run, BATCH))
    warm = _spent(function, lambda: function.append(append_event(run, BATCH, cookie)))
    retry = _spent(function, lambda: function.append(append_event(run, BATCH, cookie)))
    cold = _spent(function, lambda: function.append(append_event(run, BATCH)))
    most = max(sum(cold), sum(cold_new))
    return [
        Measure("requests of a warm append, S3 and DynamoDB", "1 and 0", _and(warm), warm == (1, 0)),
        Measure("requests of a retry", "2 and 0", _and(retry), retry == (2, 0)),
        Measure("requests of a cold append; to a new run", "at most 4 in all", f"{sum(cold)}; {sum(cold_new)}", most <= 4),
    ]


def two_writers(function: Function, count: int = 300) -> list[Measure]:
    """Two connectors, each with its own cookie, append to one run as fast as they can."""
    run = "svc.bench/two-writers"
    failures: list[Any] = []

    def work(name: str) -> None:
        cookie: str | None = None
        for number in range(count):
            answer = function.answer(append_event(run, f"{name} {number}\n", cookie))
            if answer["statusCode"] != 200:
                failures.append(answer)
                return
            cookie = cookie_of(answer)

    before = function.requests.by_service.copy()
    threads = [threading.Thread(target=work, args=(name,)) for name in ("one", "other")]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    each = function.requests.since(before).total() / (2 * count)
    measured = f"{len(failures)} failures, {each:.2f} requests an append"
    return [Measure("two writers on one run", "no failure, at most 2.5 requests an append", measured, not failures and each <= 2.5)]


def pages_of_a_large_log(function: Function, size: int = 256 * MIB) -> list[Measure]:
    """First and last page of a finalized log."""
    run = Run("svc.bench", "large")
    _write(function, run, size, 4 * MIB)
    _finish(function, run)
    total = _page(function, run, 0)[0]
    last = total - 1000
    spent = [_spent(function, partial(_page, function, run, after)) for after in (0, last // 2, last)]
    first = [_page_s(function, run, after) for after in range(0, 40_000, 1000)]
    reading_on = [_page_s(function, run, after) for after in range(total - 40_000, total, 1000)]
    leaping = [_page_s(function, run, after) for after in range(total - 1500, total - 40_000, -1000)]
    first_ms, on_ms, leap_ms = (statistics.median(times) * 1000 for times in (first, reading_on, leaping))
    ratio = on_ms / first_ms
    gets, queries = max(s3 for s3, _ in spent), max(catalog for _, catalog in spent)
    return [
        Measure(
            f"requests of a page of a finished {size // MIB} MiB log",
            "at most 1 query + 2 GETs",
            f"{queries} query + {gets} GETs",
            gets <= 2 and queries <= 1,
        ),
        Measure(
            "last page's time over the first page's, p50 of 40 each, read one after the other",
            "at most 1.3",
            f"{ratio:.2f} ({on_ms:.1f} ms over {first_ms:.1f} ms; {leap_ms:.1f} ms when leapt to)",
            ratio <= 1.3,
        ),
    ]


def finalizing(function: Function, size: int = 2048 * MIB) -> list[Measure]:
    """A log that exists only as segments: the close, and its finalization in a separate process."""
    run = Run("svc.bench", "huge")
    _write(function, run, size, 4 * MIB)
    started_s = time.perf_counter()
    closed = function.services.finalizer.close(run)
    close_s = time.perf_counter() - started_s
    assert not closed.finalized
    started_s = time.perf_counter()
    done = subprocess.run(
        [sys.executable, "-m", "bench.finalize", run.fqn, run.run_id], capture_output=True, text=True, timeout=900
    )
    if done.returncode:
        raise RuntimeError(f"the finalization failed: {done.stderr[-3000:]}")
    peak = done.stdout.splitlines()[-1].split()
    finalize_s = time.perf_counter() - started_s
    peak_mib = int(peak[0]) / 1024
    assert int(peak[1]) == size
    return [
        Measure(
            f"peak memory while a log of {size // MIB:,} MiB is finalized",
            "below 200 MiB",
            f"{peak_mib:.0f} MiB ({finalize_s:.0f} s)",
            peak_mib < 200,
        ),
        Measure(f"response time of a close of a log of {size // MIB:,} MiB", "below 5 s", f"{close_s:.2f} s", close_s < 5),
    ]


def package_size(_: Function) -> list[Measure]:
    """Size of the deployed zip."""
    from local import package

    package.ensure_packaged()
    size = package.ZIP.stat().st_size
    return [Measure("package size, zipped", "below 20 MB", f"{size / 1e6:.1f} MB", size < 20_000_000)]


_RUN_LOG = ("chalicelib/runlog", "chalicelib/aws/clients.py", "chalicelib/aws/object_store.py")
_HTTP = (
    *(
        "app.py",
        "chalicelib/routes",
        "chalicelib/access",
        "chalicelib/observability.py",
        "chalicelib/aws",
        "chalicelib/composition",
    ),
    "requirements.lock",
)
_PACKAGE = ("app.py", "chalicelib", "requirements.lock")
_CATALOG = ("chalicelib/catalog", "chalicelib/aws/database.py")
_COORDINATION = ("chalicelib/coordination", "chalicelib/aws/coordination.py", "chalicelib/aws/partition_store.py")
ALL = (
    Measurement("requests_of_appends", requests_of_appends, (*_RUN_LOG, *_HTTP)),
    Measurement("append_latency", append_latency, (*_RUN_LOG, *_HTTP, "chalicelib/masking"), {"count": 20}),
    Measurement("two_writers", two_writers, (*_RUN_LOG, *_HTTP), {"count": 20}),
    Measurement("pages_of_a_large_log", pages_of_a_large_log, (*_RUN_LOG, *_HTTP), {"size": 8 * MIB}),
    Measurement("write_amplification", write_amplification, _RUN_LOG, {"size": 8 * MIB}),
    Measurement("finalizing", finalizing, _RUN_LOG, {"size": 24 * MIB}),
    Measurement(
        "archive",
        archive_measures.archive,
        (*_CATALOG, *_HTTP, "chalicelib/ingestion"),
        {"size": 120, "ingested": 40, "queries": 3},
    ),
    Measurement(
        "coordination_kill", coordination_kill.coordination_kill, _COORDINATION, {"partitions": 10, "workers": 3, "steps": 2}
    ),
    Measurement(
        "schedules", schedule_measures.schedules, (*_RUN_LOG, *_COORDINATION, "chalicelib/triggers"), {"open_runs": 64, "due": 40}
    ),
    Measurement("pipeline_visits", pipeline_visits, ("chalicelib/pipelines", "chalicelib/runlog"), {"batches": 3}),
    Measurement("masking", masking_measures.masking, ("chalicelib/masking",), {"size": 64 * 1024}),
    Measurement("forwarding", forwarding_measures.forwarding, ("chalicelib/events",), {"events": 200}),
    Measurement("codecs", codecs.codecs, ("chalicelib/events/codecs", "chalicelib/events/event.py"), {"events": 50}),
    Measurement("start_up", start_up, _PACKAGE, {"rounds": 1}),
    Measurement("package_size", package_size, (*_PACKAGE, "local/package.py", "local/bundle.py")),
)


def _spent(function: Function, operation: Callable[[], object]) -> tuple[int, int]:
    before = function.requests.by_service.copy()
    operation()
    spent = function.requests.since(before)
    return spent["s3"], spent["dynamodb"]


def _and(spent: tuple[int, int]) -> str:
    return f"{spent[0]} and {spent[1]}"


def _write(function: Function, run: Run, size: int, segment_bytes: int) -> None:
    """Write a log of exactly this size, through the writer."""
    batch = Batch.from_text((LINE * (segment_bytes // len(LINE) + 1))[: segment_bytes - 1] + "\n")
    position: str | None = None
    entries = []
    for _ in range(size // segment_bytes):
        appended = function.services.writer.append(run, batch, position=position)
        position = appended.position
        assert appended.entry and metadata_of(appended.entry)
        entries.append(appended.entry)
    function.services.index.put(run, entries)


def _finish(function: Function, run: Run) -> None:
    function.services.finalizer.close(run)
    function.services.finalizer.compact_and_finalize(run, Deadline(function.services.clock))


def _page(function: Function, run: Run, after: int) -> tuple[int, str]:
    path = f"/v1/services/ingestionPipelines/logs/{run.fqn}/{run.run_id}"
    answer = function.answer(gateway_event("GET", path, None, {}, {"after": str(after)}))
    page = json.loads(answer["body"])
    assert len(page["logs"].split("\n")) == min(1000, page["total"] - after)
    return page["total"], page["logs"]


def _page_s(function: Function, run: Run, after: int) -> float:
    started_s = time.perf_counter()
    _page(function, run, after)
    return time.perf_counter() - started_s
