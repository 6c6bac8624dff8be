"""What EventBridge's schedules do: compact and finish runs every few minutes, end abandoned ones every hour.

Which runs are due is asked of the catalog; each is worked by itself, a few at once. A run that fails is counted and left for the
next tick, and never stops another. Work ends before the function does: what is left goes on next time.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from enum import StrEnum

from chalicelib.catalog.runs import RunRow
from chalicelib.composition import Services
from chalicelib.deadline import Deadline
from chalicelib.errors import DeadlineExceededError, RunlakeError
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
from chalicelib.runlog.compaction import RETIRE_AFTER_MS
from chalicelib.runlog.finalization import Finalization

THREADS = 4
"""Runs worked at once, if the settings allow as many: each has parts of 8 MiB in memory and up to 8 connections."""
STOP_BEFORE_S = 30.0
_RETIRABLE_MS = RETIRE_AFTER_MS + 60_000
"""How long after a run's last line all its segments can be retired: S3's clock and the writer's may differ a little."""
_RETIRE_WITHIN_MS = 10 * 60_000
"""For how long an open run is then looked at again: several ticks."""


class Result(StrEnum):
    """What became of a run."""

    DONE = "done"
    FAILED = "failed"
    LEFT = "left"


def compact(services: Services, remaining_ms: int) -> dict[str, int]:
    """Bring partial.txt of open runs up to date, finish sealed runs, retire segments. The answer counts runs by result."""
    now_ms = services.clock.now_ms()
    due = [row for row in services.runs.active(now_ms + 1) if _is_due(row, now_ms)]
    due.sort(key=lambda row: -row.pending_bytes)
    return _work(services, due, remaining_ms, _settle)


def sweep(services: Services, remaining_ms: int) -> dict[str, int]:
    """End runs that nobody has written to for ``streamTimeoutMinutes``. The answer counts runs by result."""
    idle_before_ms = services.clock.now_ms() - services.settings.stream_timeout_minutes * 60_000
    idle = [row for row in services.runs.active(idle_before_ms) if row.status != "finalized"]

    def abandon(services: Services, row: RunRow, deadline: Deadline) -> None:
        _finalized(services, row, services.finalizer.abandon(row.run, idle_before_ms, deadline))

    return _work(services, idle, remaining_ms, abandon)


def _is_due(row: RunRow, now_ms: int) -> bool:
    idle_ms = now_ms - row.last_append_ms
    if row.status == "finalized":
        return idle_ms >= _RETIRABLE_MS
    return row.is_due or _RETIRABLE_MS <= idle_ms < _RETIRABLE_MS + _RETIRE_WITHIN_MS


def _settle(services: Services, row: RunRow, deadline: Deadline) -> None:
    started_s = services.clock.monotonic_s()
    compaction, finalization = services.finalizer.settle(row.run, deadline)
    record(FLUSH_MS, (services.clock.monotonic_s() - started_s) * 1000)
    record(FLUSH_UPLOADED_BYTES, compaction.uploaded_bytes + finalization.uploaded_bytes)
    record(FLUSH_COPIED_BYTES, compaction.copied_bytes + finalization.copied_bytes)
    if finalization.finalized:
        _finalized(services, row, finalization)
        if row.status == "finalized":
            services.runs.retired(row.run, row.segments)
    elif compaction.next_segment:
        services.runs.compacted(row.run, compaction.bytes, compaction.next_segment, services.clock.now_ms())


def _finalized(services: Services, row: RunRow, end: Finalization) -> None:
    """Tell the catalog at once: the notification of logs.txt may be late, or lost."""
    if end.finalized and row.status != "finalized":
        services.runs.finalized(row.run, end.lines, end.bytes, end.next_segment, services.clock.now_ms())
        record(RUNS_FINALIZED, 1)


def _work(
    services: Services, rows: Iterable[RunRow], remaining_ms: int, work: Callable[[Services, RunRow, Deadline], None]
) -> dict[str, int]:
    deadline = Deadline(services.clock, remaining_ms / 1000 - STOP_BEFORE_S)

    def guarded(row: RunRow) -> Result:
        result = _attempt(services, row, deadline, work)
        record(PENDING_FLUSH_BYTES, 0 if result is Result.DONE else row.pending_bytes)
        record(PENDING_FLUSH_SEGMENTS, 0 if result is Result.DONE else row.pending_segments)
        return result

    with ThreadPoolExecutor(min(services.settings.max_concurrent_streams, THREADS)) as threads:
        counted = Counter(threads.map(guarded, rows))
    return {result.value: counted[result] for result in Result}


def _attempt(services: Services, row: RunRow, deadline: Deadline, work: Callable[[Services, RunRow, Deadline], None]) -> Result:
    try:
        deadline.check()
        work(services, row, deadline)
        return Result.DONE
    except DeadlineExceededError:
        return Result.LEFT
    except Exception:  # a run that fails, however it does, stops no other
        logger.exception("a run could not be worked", extra={"fqn": row.run.fqn, "run_id": row.run.run_id})
        _count_failure(services, row)
        return Result.FAILED


def _count_failure(services: Services, row: RunRow) -> None:
    try:
        failures = services.runs.failed(row.run)
    except RunlakeError as error:
        logger.warning("a failure could not be counted", extra={"error": str(error)})
        failures = row.failures + 1
    record(CONSECUTIVE_FLUSH_FAILURES, failures)
    if failures >= services.settings.pending_flush_alert_after_failures:
        record(FLUSH_ALERTS, 1)
