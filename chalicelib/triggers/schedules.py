"""The schedules: compact and finalize runs every few minutes, then explain failed ones and bundle sidecars of ended ones; end abandoned
runs every hour.

Due runs come from the catalog's index of activity; each is a partition of work under a lease, and a few are processed at once. If more are
due than one invocation can process before the next one, it starts further workers, which share the work. A run that fails is retried with
growing delays and set aside in the end; it never blocks another run. Work stops before the function's time ends, and the next invocation
continues.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from typing import Any

from chalicelib import composition
from chalicelib.catalog.runs import RunRow, partition_key, run_of
from chalicelib.composition import BUNDLING, COMPACTION, EXPLANATION, SWEEP, Services
from chalicelib.coordination import Lease, Partition, SourceCoordinator, Status
from chalicelib.coordination.worker_pool import Backoff, OnFailure, Result, WorkerPool
from chalicelib.deadline import Deadline
from chalicelib.errors import PartitionNotFoundError, RunlakeError, UnavailableError
from chalicelib.ingestion.compaction_record import record_compaction
from chalicelib.observability import (
    CONSECUTIVE_FLUSH_FAILURES,
    FLUSH_ALERTS,
    FLUSH_COPIED_BYTES,
    FLUSH_MS,
    FLUSH_UPLOADED_BYTES,
    PENDING_FLUSH_BYTES,
    PENDING_FLUSH_SEGMENTS,
    RUNS_EXPLAINED,
    RUNS_FINALIZED,
    SIDECARS_BUNDLED,
    logger,
    record,
)
from chalicelib.runlog.compaction import RETIRABLE_MS
from chalicelib.runlog.log_end import FIRST_EPOCH

THREADS = 4
"""Runs processed at once, if the settings allow as many: each has parts of 8 MiB in memory and up to 8 connections."""
RUNS_PER_WORKER = 500
"""Runs per invocation before another one is started: half a minute of work."""
STOP_BEFORE_S = 30.0
EXPLAIN_S = 60.0
"""Time for explanations per invocation: less than usually passes until the next one. Two gigabytes take about three times as long."""
SLICE_S = 20.0
"""Time for the explanation or the bundles of one run; then it waits behind all others."""
EXPLAINERS = 2
"""Logs read at once for explanations, which are mostly computation: one is read while the other one is searched."""
BUNDLE_S = 60.0
"""Time for bundles of sidecars per invocation."""
BUNDLERS = 2
"""Runs whose sidecars are bundled at once."""
BUNDLE_WITHIN_MS = 12 * 3_600_000
"""An ended run stays due this long for its sidecars to be bundled; then they stay as they are."""
_RETIRE_WITHIN_MS = 10 * 60_000
"""How long an idle running run stays due for the deletion of its compacted segments: several ticks."""

Due = Callable[[Services], Sequence[RunRow]]
Work = Callable[[Services, Lease, RunRow, Deadline], None]


def compact(services: Services, remaining_ms: int, worker: int = 0) -> dict[str, int]:
    """Compact running runs, finalize sealed runs, delete compacted segments; in what is left of the time explain failed runs, then bundle
    sidecars. Returns the number of runs by result, of compaction only. ``worker``: 0 is the schedule's own invocation, which determines the due
    runs and starts further workers."""
    deadline = _deadline(services, remaining_ms)
    unexplained: list[RunRow] = []
    unbundled: list[RunRow] = []
    coordinator = composition.coordinator(services, COMPACTION)
    result = _share(services, coordinator, deadline, worker, partial(_to_compact, unexplained, unbundled), _settle)
    _explain_all(services, deadline, worker, unexplained)
    _bundle_all(services, deadline, worker, unbundled)
    return result


def sweep(services: Services, remaining_ms: int, worker: int = 0) -> dict[str, int]:
    """End runs without a sign of life (line or heartbeat) for ``streamTimeoutMinutes``. Returns the number of runs by result."""
    coordinator = composition.coordinator(services, SWEEP)
    return _share(services, coordinator, _deadline(services, remaining_ms), worker, _to_sweep, _abandon)


def _deadline(services: Services, remaining_ms: int) -> Deadline:
    return Deadline(services.clock, remaining_ms / 1000 - STOP_BEFORE_S)


def _share(
    services: Services, coordinator: SourceCoordinator, deadline: Deadline, worker: int, due: Due, work: Work
) -> dict[str, int]:
    coordinator.initialize()
    waiting = 0

    def supplier(shared: dict[str, Any]) -> list[str]:
        nonlocal waiting
        keys = [partition_key(row.run) for row in due(services)]
        waiting = len(keys)
        shared |= {"due": waiting, "looked_ms": services.clock.now_ms()}
        return keys

    if worker == 0:
        _supply(coordinator, supplier)
        _start_more(services, waiting)
    threads = min(services.settings.max_concurrent_streams, THREADS)
    counted = _work_on(services, coordinator, deadline, work, threads, _failed(services))
    return {result.value: counted[result] for result in Result}


def _explain_all(services: Services, deadline: Deadline, worker: int, unexplained: Sequence[RunRow]) -> None:
    """Explain runs, for ``EXPLAIN_S`` at most."""

    def work(coordinator: SourceCoordinator) -> Work:
        return partial(_explain, coordinator)

    within = Deadline(services.clock, min(EXPLAIN_S, deadline.remaining_s()))
    _afterwards(services, EXPLANATION, work, EXPLAINERS, within, worker, unexplained)


def _bundle_all(services: Services, deadline: Deadline, worker: int, unbundled: Sequence[RunRow]) -> None:
    """Bundle sidecars of runs, for ``BUNDLE_S`` at most."""
    within = Deadline(services.clock, min(BUNDLE_S, deadline.remaining_s()))
    _afterwards(services, BUNDLING, lambda _: _bundle, BUNDLERS, within, worker, unbundled)


def _afterwards(
    services: Services,
    source: str,
    work: Callable[[SourceCoordinator], Work],
    threads: int,
    within: Deadline,
    worker: int,
    rows: Sequence[RunRow],
) -> None:
    """A source of work of its own, so that no compaction waits for it, and its failures do not count as failed compactions. ``rows``: runs for
    which the schedule has found something to do; it makes no request if there are none."""
    if not (worker or rows):
        return
    coordinator = composition.coordinator(services, source)
    try:
        coordinator.initialize()
        if not worker:
            _supply(coordinator, lambda _: [partition_key(row.run) for row in rows])
            _retry_reopened(services, source, rows)
        _work_on(services, coordinator, within, work(coordinator), threads, partial(_not_done, source))
    except UnavailableError as error:
        logger.warning(
            "work after the compaction failed: the next invocation does it", extra={"source": source, "error": str(error)}
        )


def _retry_reopened(services: Services, source: str, rows: Sequence[RunRow]) -> None:
    """Retry runs whose work was set aside before they were reopened and ended again. A read for each run that was ever reopened."""
    administration = composition.administration(services, source)
    for row in rows:
        if row.epoch > FIRST_EPOCH:
            with suppress(PartitionNotFoundError):
                partition = administration.get(partition_key(row.run))
                if partition.status is Status.COMPLETED and _failed_ms(partition) < row.last_append_ms:
                    administration.retry(partition.key)


def _failed_ms(partition: Partition) -> int:
    """The time of its last failure; 0 if its state has none."""
    try:
        return int(json.loads(partition.state or "{}")["failed_ms"])
    except (ValueError, TypeError, KeyError, RecursionError):
        return 0


def _supply(coordinator: SourceCoordinator, supplier: Callable[[dict[str, Any]], Sequence[str]]) -> None:
    try:
        coordinator.run_supplier(supplier)
    except UnavailableError as error:
        logger.warning(
            "could not create the partitions of all due runs: the created ones are processed", extra={"error": str(error)}
        )


def _work_on(
    services: Services, coordinator: SourceCoordinator, deadline: Deadline, work: Work, threads: int, failed: OnFailure
) -> Counter[Result]:
    def work_one(lease: Lease) -> None:
        deadline.check()
        row = services.runs.get(run_of(lease.key))
        if row is not None:
            work(services, lease, row, deadline)

    backoff = Backoff(services.settings.set_aside_after_failures)
    return WorkerPool(coordinator, backoff, threads, failed, services.clock.now_ms).run(work_one, deadline)


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


def _not_done(source: str, lease: Lease, error: Exception, failures: int) -> None:
    run = run_of(lease.key)
    extra = {"source": source, "fqn": run.fqn, "run_id": run.run_id, "failures": failures}
    logger.warning("work on a run after the compaction failed", exc_info=error, extra=extra)


def _to_compact(unexplained: list[RunRow], unbundled: list[RunRow], services: Services) -> Sequence[RunRow]:
    """Due runs. ``unexplained`` and ``unbundled``: receive those that await an explanation, and those that may await bundles."""
    now_ms = services.clock.now_ms()
    rows: list[RunRow] = []
    for row in services.runs.active(now_ms + 1):
        if row.awaits_explanation(now_ms):
            unexplained.append(row)
        if _may_have_sidecars(row, now_ms):
            unbundled.append(row)
        if _is_due(row, now_ms):
            rows.append(row)
    return sorted(rows, key=lambda row: -row.pending_bytes)


def _to_sweep(services: Services) -> Sequence[RunRow]:
    now_ms, idle_ms = services.clock.now_ms(), _idle_ms(services)
    return [row for row in services.runs.active(now_ms - idle_ms) if _is_idle(row, now_ms, idle_ms)]


def _is_idle(row: RunRow, now_ms: int, idle_ms: int) -> bool:
    """Whether a run is overdue. The interval of its heartbeats counts if it is longer than ``idle_ms``."""
    return row.status != "finalized" and row.last_sign_ms < now_ms - max(idle_ms, row.heartbeat_limit_ms)


def _is_due(row: RunRow, now_ms: int) -> bool:
    if row.awaits_explanation(now_ms):
        return False
    idle_ms = now_ms - row.last_append_ms
    if row.status == "finalized":
        return idle_ms >= RETIRABLE_MS
    return row.is_due or RETIRABLE_MS <= idle_ms < RETIRABLE_MS + _RETIRE_WITHIN_MS


def _may_have_sidecars(row: RunRow, now_ms: int) -> bool:
    """Whether a run's sidecars should be bundled, as far as the row tells: a run without enough of them was retired by an earlier tick."""
    idle_ms = now_ms - row.last_append_ms
    return row.status == "finalized" and _is_due(row, now_ms) and RETIRABLE_MS + _RETIRE_WITHIN_MS <= idle_ms < BUNDLE_WITHIN_MS


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
    now_ms = services.clock.now_ms()
    awaits_bundles = compaction.awaits_bundles and now_ms - row.last_append_ms < BUNDLE_WITHIN_MS
    record_compaction(
        services.runs, row.run, compaction, finalization, row.segments if is_final else None, now_ms, retires=not awaits_bundles
    )
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


def _explain(coordinator: SourceCoordinator, services: Services, lease: Lease, row: RunRow, deadline: Deadline) -> None:
    if not row.awaits_explanation(services.clock.now_ms()):
        return  # another worker or a request did it, or the run was reopened
    within = Deadline(services.clock, min(SLICE_S, deadline.remaining_s()))
    explainer = composition.leased_explainer(services, lease)
    is_explained = explainer.explain(row, lease.state, partial(coordinator.save_state, lease), within)
    if is_explained:
        record(RUNS_EXPLAINED, 1)
    elif is_explained is False:
        logger.warning("a failed run has no readable log to explain it", extra={"fqn": row.run.fqn, "run_id": row.run.run_id})


def _bundle(services: Services, lease: Lease, row: RunRow, deadline: Deadline) -> None:
    """The compaction of the next tick sees that few sidecars are left, and retires the run."""
    if not _may_have_sidecars(row, services.clock.now_ms()):
        return  # it was reopened
    within = Deadline(services.clock, min(SLICE_S, deadline.remaining_s()))
    bundled = composition.leased_bundler(services, lease).bundle(row.run, within)
    record(SIDECARS_BUNDLED, bundled.sidecars)


def _record_pending(size: int, segments: int) -> None:
    record(PENDING_FLUSH_BYTES, size)
    record(PENDING_FLUSH_SEGMENTS, segments)
