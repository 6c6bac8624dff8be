"""The measurements, one function each: what was reached, as a text for the table."""

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

from bench import archive_measures, coordination, coordination_kill, forwarding_measures, masking_measures, schedule_measures
from bench.bench_world import BUCKET, MIB, Function, append_event, cookie_of, gateway_event
from bench.measure import Measure
from chalicelib.deadline import Deadline
from chalicelib.ports import Run
from chalicelib.runlog.batch import Batch
from chalicelib.runlog.segment import metadata_of

LINE = "2026-11-21 03:12:45 INFO  {metadata.Ingestion} processed table warehouse.public.orders rows=1048576 in 132 ms\n"
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


def append_over_put(function: Function, count: int = 1500) -> list[Measure]:
    """A warm append through the function's entry, and a bare put_object of the same bytes by a plain boto3 client, in turn."""
    import boto3

    run, plain = "svc.bench/time", boto3.client("s3")
    cookie = function.append(append_event(run, BATCH))
    body = BATCH.encode()
    appends: list[float] = []
    puts: list[float] = []
    for number in range(count):
        event = append_event(run, BATCH, cookie)
        started_s = time.perf_counter()
        answer = function.answer(event)
        appends.append(time.perf_counter() - started_s)
        cookie = cookie_of(answer)
        started_s = time.perf_counter()
        plain.put_object(Bucket=BUCKET, Key=f"bare/{number:010d}", Body=body)
        puts.append(time.perf_counter() - started_s)
    append_ms, put_ms = statistics.median(appends) * 1000, statistics.median(puts) * 1000
    ratio = append_ms / put_ms
    measured = f"{ratio:.2f} ({append_ms:.2f} ms over {put_ms:.2f} ms, {len(body)} bytes)"
    return [Measure("handler time of a warm append over a bare put_object, p50", "at most 1.5", measured, ratio <= 1.5)]


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


def pages_of_a_large_log(function: Function) -> list[Measure]:
    """First and last page of a finished log of 256 MiB."""
    run = Run("svc.bench", "large")
    _write(function, run, 256 * MIB, 4 * MIB)
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
            "requests of a page of a finished 256 MiB log",
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


def uploads_of_compaction(function: Function) -> list[Measure]:
    """A run of 200 MiB, compacted 100 times on its way."""
    run = Run("svc.bench", "compacted")
    compacted = 0
    position: str | None = None
    batch = Batch.from_text((LINE * 20000)[: 2 * MIB - 1] + "\n")
    for _ in range(100):
        position = function.services.writer.append(run, batch, position=position).position
        before = function.requests.uploaded_bytes
        function.services.compactor.compact(run, Deadline(function.services.clock))
        compacted += function.requests.uploaded_bytes - before
    ratio = compacted / (100 * len(batch.body))
    return [
        Measure("bytes uploaded by compaction over bytes of log (200 MiB, 100 times)", "at most 1.2", f"{ratio:.3f}", ratio <= 1.2)
    ]


def finalizing_two_gibibytes(function: Function) -> list[Measure]:
    """A log of 2 GiB that stands in segments only: the close, and the finalization behind it in a process of its own."""
    run = Run("svc.bench", "huge")
    _write(function, run, 2048 * MIB, 4 * MIB)
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
    peak_mib, size = int(peak[0]) / 1024, int(peak[1])
    assert size == 2048 * MIB
    return [
        Measure(
            "peak memory while a 2 GiB log is finalized",
            "below 200 MiB",
            f"{peak_mib:.0f} MiB ({finalize_s:.0f} s)",
            peak_mib < 200,
        ),
        Measure("close's answer for a 2 GiB log", "below 5 s", f"{close_s:.2f} s", close_s < 5),
    ]


def import_time(_: Function) -> list[Measure]:
    """`import app` over `import chalice, boto3`, each in a fresh process, in turn."""
    ratios = []
    for _round in range(9):
        ours, theirs = _import_s("import app"), _import_s("import chalice, boto3")
        ratios.append(ours / theirs)
    ratio = statistics.median(ratios)
    return [Measure("import time of app over import chalice, boto3", "at most 2", f"{ratio:.2f}", ratio <= 2)]


def package_size(_: Function) -> list[Measure]:
    """The zip that is deployed."""
    from local import package

    package.ensure_packaged()
    size = package.ZIP.stat().st_size
    return [Measure("package size, zipped", "below 20 MB", f"{size / 1e6:.1f} MB", size < 20_000_000)]


ALL: tuple[Callable[[Function], list[Measure]], ...] = (
    requests_of_appends,
    append_over_put,
    two_writers,
    pages_of_a_large_log,
    uploads_of_compaction,
    finalizing_two_gibibytes,
    archive_measures.archive,
    archive_measures.read_units_of_pages,
    coordination.coordination,
    coordination_kill.coordination_kill,
    schedule_measures.schedules,
    masking_measures.masking,
    forwarding_measures.forwarding,
    import_time,
    package_size,
)


def _spent(function: Function, operation: Callable[[], object]) -> tuple[int, int]:
    before = function.requests.by_service.copy()
    operation()
    spent = function.requests.since(before)
    return spent["s3"], spent["dynamodb"]


def _and(spent: tuple[int, int]) -> str:
    return f"{spent[0]} and {spent[1]}"


def _write(function: Function, run: Run, size: int, segment_bytes: int) -> None:
    """A log of exactly so many bytes by the writer itself."""
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
    function.services.finalizer.settle(run, Deadline(function.services.clock))


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


def _import_s(statement: str) -> float:
    code = f"import time; s = time.perf_counter(); {statement}; print(time.perf_counter() - s)"
    return float(subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout)
