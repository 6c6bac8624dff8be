"""The schedules: compact and finalize runs every few minutes, end abandoned runs every hour.

Due runs come from the catalog's index of activity; each is a partition of work under a lease, and a few are processed at once. If more are
due than one invocation can process before the next one, it starts further workers, which share the work. A run that fails is retried with
growing delays and set aside in the end; it never blocks another run. Work stops before the function's time ends, and the next invocation
continues.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from chalicelib import composition
from chalicelib.catalog.runs import RunRow, partition_key, run_of
from chalicelib.composition import COMPACTION, SWEEP, Services
from chalicelib.coordination import Lease
from chalicelib.coordination.worker_pool import Backoff, Result, WorkerPool
from chalicelib.deadline import Deadline
from chalicelib.errors import RunlakeError, UnavailableError
from chalicelib.ingestion.compaction_record import record_compaction
from chalicelib.observability import (
    CONSECUTIVE_FLUSH_FAILURES,
    FLUSH_ALERTS,
    FLUSH_COPIED_BYTES,
    FLUSH_MS,
    FLUSH_UPLOADED_BYTES,
    PENDING_FLUSH_BYTES,
    PENDING_FLUSH_SEGMENTS,
    RUNS_FINALIZED,
    logger,
    record,
)
from chalicelib.runlog.compaction import RETIRABLE_MS

THREADS = 4
"""Runs processed at once, if the settings allow as many: each has parts of 8 MiB in memory and up to 8 connections."""
RUNS_PER_WORKER = 500
"""Runs per invocation before another one is started: half a minute of work."""
STOP_BEFORE_S = 30.0
_RETIRE_WITHIN_MS = 10 * 60_000
"""How long an idle running run stays due for the deletion of its compacted segments: several ticks."""

Due = Callable[[Services], Sequence[RunRow]]
Work = Callable[[Services, Lease, RunRow, Deadline], None]


def compact(services: Services, remaining_ms: int, worker: int = 0) -> dict[str, int]:
    """Compact running runs, finalize sealed runs, delete compacted segments. Returns the number of runs by result. ``worker``: 0 is the
    schedule's own invocation, which determines the due runs and starts further workers."""
    return _share(services, COMPACTION, remaining_ms, worker, _to_compact, _settle)


def sweep(services: Services, remaining_ms: int, worker: int = 0) -> dict[str, int]:
    """End runs without a sign of life (line or heartbeat) for ``streamTimeoutMinutes``. Returns the number of runs by result."""
    return _share(services, SWEEP, remaining_ms, worker, _to_sweep, _abandon)


def _share(services: Services, source: str, remaining_ms: int, worker: int, due: Due, work: Work) -> dict[str, int]:
    deadline = Deadline(services.clock, remaining_ms / 1000 - STOP_BEFORE_S)
    coordinator = composition.coordinator(services, source)
    coordinator.initialize()
    waiting = 0

    def supplier(shared: dict[str, Any]) -> list[str]:
        nonlocal waiting
        keys = [partition_key(row.run) for row in due(services)]
        waiting = len(keys)
        shared |= {"due": waiting, "looked_ms": services.clock.now_ms()}
        return keys

    if worker == 0:
        try:
            coordinator.run_supplier(supplier)
        except UnavailableError as error:
            logger.warning(
                "could not create the partitions of all due runs: the created ones are processed", extra={"error": str(error)}
            )
        _start_more(services, waiting)

    def work_one(lease: Lease) -> None:
        deadline.check()
        row = services.runs.get(run_of(lease.key))
        if row is not None:
            work(services, lease, row, deadline)

    threads = min(services.settings.max_concurrent_streams, THREADS)
    backoff = Backoff(services.settings.set_aside_after_failures)
    pool = WorkerPool(coordinator, backoff, threads, _failed(services), services.clock.now_ms)
    counted = pool.run(work_one, deadline)
    return {result.value: counted[result] for result in Result}


def _start_more(services: Services, waiting: int) -> None:
    workers = services.workers
    if workers is None:
        return
    for number in range(1, min(services.settings.max_workers, -(-waiting // RUNS_PER_WORKER))):
        try:
            workers.start(number)
        except RunlakeError as error:
            logger.warning("could not start another worker: the work takes longer", extra={"error": str(error)})
            return


def _failed(services: Services) -> Callable[[Lease, Exception, int], None]:
    def failed(lease: Lease, error: Exception, failures: int) -> None:
        run = run_of(lease.key)
        logger.error("could not process a run", exc_info=error, extra={"fqn": run.fqn, "run_id": run.run_id, "failures": failures})
        record(CONSECUTIVE_FLUSH_FAILURES, failures)
        settings = services.settings
        if failures >= min(settings.pending_flush_alert_after_failures, settings.set_aside_after_failures):
            record(FLUSH_ALERTS, 1)

    return failed


def _to_compact(services: Services) -> Sequence[RunRow]:
    now_ms = services.clock.now_ms()
    rows = [row for row in services.runs.active(now_ms + 1) if _is_due(row, now_ms)]
    return sorted(rows, key=lambda row: -row.pending_bytes)


def _to_sweep(services: Services) -> Sequence[RunRow]:
    now_ms, idle_ms = services.clock.now_ms(), _idle_ms(services)
    return [row for row in services.runs.active(now_ms - idle_ms) if _is_idle(row, now_ms, idle_ms)]


def _is_idle(row: RunRow, now_ms: int, idle_ms: int) -> bool:
    """Whether a run is overdue. The interval of its heartbeats counts if it is longer than ``idle_ms``."""
    return row.status != "finalized" and row.last_sign_ms < now_ms - max(idle_ms, row.heartbeat_limit_ms)


def _is_due(row: RunRow, now_ms: int) -> bool:
    idle_ms = now_ms - row.last_append_ms
    if row.status == "finalized":
        return idle_ms >= RETIRABLE_MS
    return row.is_due or RETIRABLE_MS <= idle_ms < RETIRABLE_MS + _RETIRE_WITHIN_MS


def _idle_ms(services: Services) -> int:
    return services.settings.stream_timeout_minutes * 60_000


def _settle(services: Services, lease: Lease, row: RunRow, deadline: Deadline) -> None:
    if not _is_due(row, services.clock.now_ms()):
        return  # another worker did it
    started_s = services.clock.monotonic_s()
    _record_pending(row.pending_bytes, row.pending_segments)
    compaction, finalization = composition.leased_finalizer(services, lease).compact_and_finalize(row.run, deadline)
    record(FLUSH_MS, (services.clock.monotonic_s() - started_s) * 1000)
    record(FLUSH_UPLOADED_BYTES, compaction.uploaded_bytes + finalization.uploaded_bytes)
    record(FLUSH_COPIED_BYTES, compaction.copied_bytes + finalization.copied_bytes)
    lease.check()
    is_final = row.status == "finalized"
    record_compaction(services.runs, row.run, compaction, finalization, row.segments if is_final else None, services.clock.now_ms())
    if finalization.finalized and not is_final:
        record(RUNS_FINALIZED, 1)
    _record_pending(0, 0)


def _abandon(services: Services, lease: Lease, row: RunRow, deadline: Deadline) -> None:
    now_ms, idle_ms = services.clock.now_ms(), _idle_ms(services)
    if not _is_idle(row, now_ms, idle_ms):
        return
    end = composition.leased_finalizer(services, lease).abandon(
        row.run, now_ms - idle_ms, deadline, services.end_finder.find_abandoned, row.alive_ms
    )
    lease.check()
    if end.finalized:
        services.runs.record_finalization(row.run, end.lines, end.bytes, end.next_segment, services.clock.now_ms())
        record(RUNS_FINALIZED, 1)


def _record_pending(size: int, segments: int) -> None:
    record(PENDING_FLUSH_BYTES, size)
    record(PENDING_FLUSH_SEGMENTS, segments)
