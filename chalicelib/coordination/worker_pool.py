"""Partitions worked by the threads of one node, until there are no more or no time is left."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import timedelta
from enum import StrEnum
from threading import Lock

from chalicelib.coordination.coordinator import SourceCoordinator
from chalicelib.coordination.lease import Lease
from chalicelib.coordination.partition import Status
from chalicelib.deadline import Deadline
from chalicelib.errors import DeadlineExceededError, LeaseError, UnavailableError

Work = Callable[[Lease], None]
OnFailure = Callable[[Lease, Exception, int], None]
"""Told of a failure: the lease, the error, and how many have been in a row."""
_ERROR_CHARS = 1000


class Result(StrEnum):
    """What became of a partition that was taken."""

    DONE = "done"
    FAILED = "failed"
    QUARANTINED = "set_aside"
    UNFINISHED = "left"
    LOST = "lost"


@dataclass(frozen=True, slots=True)
class Backoff:
    """When a partition that failed is tried again: after ``step_s``, then twice that, three times that, at most ``max_s``; the
    ``max_failures``th failure in a row sets it aside, completed with the error as its state, until somebody asks for another try. Ten failures
    take 45 minutes: with doubled pauses the alert would come hours later."""

    max_failures: int
    step_s: float = 60.0
    max_s: float = 3600.0

    def delay(self, failures: int) -> timedelta:
        """The pause after so many failures in a row."""
        return timedelta(seconds=min(self.max_s, self.step_s * failures))


def close_after_failure(coordinator: SourceCoordinator, lease: Lease, error: Exception, backoff: Backoff, now_ms: int) -> Status:
    """Close a partition whose work failed, until its pause is over, or set it aside; the error is its state. Raises LeaseError,
    StoreUnavailableError: then it ends by itself."""
    state = {"error": f"{type(error).__name__}: {error}"[:_ERROR_CHARS], "failed_ms": now_ms}
    return coordinator.close(lease, backoff.delay(lease.closed_count + 1), backoff.max_failures, state=state)


class WorkerPool:
    """Threads that take partitions from a coordinator and work them. ``work`` asks its lease before what others can see, and raises
    DeadlineExceededError when no time is left; whatever else it raises counts against its partition alone."""

    def __init__(
        self, coordinator: SourceCoordinator, backoff: Backoff, threads: int, failed: OnFailure, now_ms: Callable[[], int]
    ) -> None:
        self._coordinator, self._backoff, self._threads, self._failed, self._now_ms = coordinator, backoff, threads, failed, now_ms
        self._waiting: deque[Lease] = deque()
        self._taking = Lock()

    def run(self, work: Work, deadline: Deadline) -> Counter[Result]:
        """Work what is free, each under a lease that is renewed meanwhile. What was taken and not worked is given up at the end, also
        when an error ends it: StoreUnavailableError when the store does not answer."""
        results: Counter[Result] = Counter()

        def go_on() -> None:
            while deadline.remaining_s() > 0 and (lease := self._next()):
                results[self._worked(lease, work)] += 1

        try:
            with self._coordinator.heartbeat(), ThreadPoolExecutor(self._threads) as threads:
                for thread in [threads.submit(go_on) for _ in range(self._threads)]:
                    thread.result()
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
            return Result.UNFINISHED  # and given up at the end
        except Exception as error:  # however it fails, it stops no other
            return self._close(lease, error)
        try:
            self._coordinator.complete_and_delete(lease)
        except (LeaseError, UnavailableError):
            return Result.LOST  # it is done; when its lease has ended by itself, somebody finds that out
        return Result.DONE

    def _close(self, lease: Lease, error: Exception) -> Result:
        self._failed(lease, error, lease.closed_count + 1)
        try:
            status = close_after_failure(self._coordinator, lease, error, self._backoff, self._now_ms())
        except (LeaseError, UnavailableError):
            return Result.FAILED  # its lease ends by itself, and then it is tried again
        return Result.QUARANTINED if status is Status.COMPLETED else Result.FAILED
