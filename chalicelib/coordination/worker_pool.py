"""Threads of one node that work on partitions until none is free or the time is over."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from datetime import timedelta
from enum import StrEnum
from threading import Lock
from typing import Any

from chalicelib.coordination.coordinator import SourceCoordinator
from chalicelib.coordination.lease import Lease
from chalicelib.coordination.partition import Status
from chalicelib.deadline import Deadline
from chalicelib.errors import DamagedPartitionError, DeadlineExceededError, LeaseError, UnavailableError

Work = Callable[[Lease], None]
OnFailure = Callable[[Lease, Exception, int], None]
"""Called after a failure with the lease, the error and the number of consecutive failures."""
_ERROR_CHARS = 1000


class Result(StrEnum):
    """Result of the work on an acquired partition."""

    DONE = "done"
    FAILED = "failed"
    QUARANTINED = "set_aside"
    UNFINISHED = "left"
    LOST = "lost"


@dataclass(frozen=True, slots=True)
class Backoff:
    """Delays between attempts of a failing partition: ``step_s``, then two times that, three times, at most ``max_s``. The
    ``max_failures``th consecutive failure quarantines it: it is completed with the error in its state until an operator retries it. Ten
    failures take 45 minutes; with doubled delays the alert would come hours later."""

    max_failures: int
    step_s: float = 60.0
    max_s: float = 3600.0

    def delay(self, failures: int) -> timedelta:
        """The delay after this number of consecutive failures."""
        return timedelta(seconds=min(self.max_s, self.step_s * failures))


def close_after_failure(coordinator: SourceCoordinator, lease: Lease, error: Exception, backoff: Backoff, now_ms: int) -> Status:
    """Close a partition whose work failed until its delay is over, or quarantine it; the error is added to its state, so that
    the next attempt continues at the checkpoint. Raises LeaseError, StoreUnavailableError: then the lease expires and the partition is
    retried."""
    state = _checkpoint(lease) | {"error": f"{type(error).__name__}: {error}"[:_ERROR_CHARS], "failed_ms": now_ms}
    return coordinator.close(lease, backoff.delay(lease.closed_count + 1), backoff.max_failures, state=state)


def _checkpoint(lease: Lease) -> dict[str, Any]:
    with suppress(DamagedPartitionError):
        if isinstance(lease.state, dict):
            return lease.state
    return {}


class WorkerPool:
    """Threads that acquire partitions from a coordinator and run ``work`` on each.

    ``work`` calls ``Lease.check`` before each step that is visible to others, and raises DeadlineExceededError when the time is over. Any
    other error counts as a failure of its partition only.
    """

    def __init__(
        self, coordinator: SourceCoordinator, backoff: Backoff, threads: int, failed: OnFailure, now_ms: Callable[[], int]
    ) -> None:
        self._coordinator, self._backoff, self._threads, self._failed, self._now_ms = coordinator, backoff, threads, failed, now_ms
        self._waiting: deque[Lease] = deque()
        self._taking = Lock()

    def run(self, work: Work, deadline: Deadline) -> Counter[Result]:
        """Work on free partitions, each under a lease that is renewed meanwhile. Acquired and unfinished ones are released at the end, also
        after an error. Raises StoreUnavailableError when the store does not respond."""
        results: Counter[Result] = Counter()

        def go_on() -> Counter[Result]:
            own: Counter[Result] = Counter()  # adding to a shared counter is not atomic
            while deadline.remaining_s() > 0 and (lease := self._next()):
                own[self._worked(lease, work)] += 1
            return own

        try:
            with self._coordinator.heartbeat(), ThreadPoolExecutor(self._threads) as threads:
                for thread in [threads.submit(go_on) for _ in range(self._threads)]:
                    results.update(thread.result())
        finally:
            results[Result.UNFINISHED] += len(self._waiting)
            self._waiting.clear()
            self._coordinator.shutdown()
        return results

    def _next(self) -> Lease | None:
        with self._taking:
            if not self._waiting:
                self._waiting.extend(self._coordinator.acquire_many(self._threads))
            return self._waiting.popleft() if self._waiting else None

    def _worked(self, lease: Lease, work: Work) -> Result:
        try:
            work(lease)
        except LeaseError:
            return Result.LOST
        except DeadlineExceededError:
            return Result.UNFINISHED  # released at the end
        except Exception as error:  # any failure is that of one partition
            return self._close(lease, error)
        try:
            self._coordinator.complete_and_delete(lease)
        except (LeaseError, UnavailableError):
            return Result.LOST  # the work is done; after the lease has expired, another worker notices
        return Result.DONE

    def _close(self, lease: Lease, error: Exception) -> Result:
        self._failed(lease, error, lease.closed_count + 1)
        try:
            status = close_after_failure(self._coordinator, lease, error, self._backoff, self._now_ms())
        except (LeaseError, UnavailableError):
            return Result.FAILED  # the lease expires, and another worker retries
        return Result.QUARANTINED if status is Status.COMPLETED else Result.FAILED
