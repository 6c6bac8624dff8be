"""One task of bulk compaction: works several runs at once, each under its own lease.

A run is checked before its lease is acquired, so one without work costs a request or two and no write. A run leased by another
worker is tried again at the end, for as long as the lease of a killed worker can last.
"""

from __future__ import annotations

import os
import re
import socket
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass
from itertools import islice
from uuid import uuid4

from chalicelib.catalog.runs import partition_key
from chalicelib.composition import COMPACTION, Services, leased_finalizer
from chalicelib.coordination import Lease, LeaseTerms, Partition, SourceCoordinator, Status
from chalicelib.coordination.worker_pool import Backoff, close_after_failure
from chalicelib.deadline import Deadline
from chalicelib.errors import LeaseError, UnavailableError
from chalicelib.ingestion.compaction_record import record_compaction
from chalicelib.ports import Run
from chalicelib.runlog.compaction import Compaction, RunState, retry_on_condition
from chalicelib.runlog.concatenation import READERS
from chalicelib.runlog.finalization import Finalization, Finalizer
from chalicelib.runlog.segment import SEAL
from glue_jobs.job_runtime.summary import error_text

LEASE_S = 30.0
"""Short, so that a restarted job soon gets the runs of a killed one."""
_MORE_PATIENCE_S = 5.0
PAUSE_S = 1.0
MANY_SEGMENTS = 200
"""A run with so many segments is read by several threads: one would take seconds."""
_AHEAD = 4
_OWNER = re.compile(r":bulk\.([^.:]+)\.(\d+)\.(\d+):")

FINALIZED, COMPACTED, RETIRED, UNCHANGED = "finalized", "compacted", "retired", "unchanged"
FAILED, BUSY, QUARANTINED = "failed", "busy", "set_aside"
OUTCOMES = (FINALIZED, COMPACTED, RETIRED, UNCHANGED, FAILED, BUSY, QUARANTINED)
"""Results of runs. The last three leave work undone: damaged or rejected, leased by another worker, quarantined by the schedule."""
UNDONE = (FAILED, BUSY, QUARANTINED)


@dataclass(frozen=True, slots=True)
class Attempt:
    """An attempt of a task of a job; part of the owner name of its leases."""

    job: str
    task: int
    number: int

    def owner(self) -> str:
        """A new owner name."""
        return f"{socket.gethostname()}:{os.getpid()}:bulk.{self.job}.{self.task}.{self.number}:{uuid4().hex}"

    def inherits(self, partition: Partition) -> bool:
        """Whether an earlier attempt of the same task owns the partition: Spark starts another one only after it has died."""
        owner = _OWNER.search(partition.owner or "")
        return owner is not None and (owner[1], int(owner[2])) == (self.job, self.task) and int(owner[3]) < self.number


@dataclass(frozen=True, slots=True)
class PlannedRun:
    """A run of the plan: see ``transforms.compaction.RUNS``."""

    run: Run
    segments: int = 0
    is_listed: bool = False
    is_final: bool = False
    has_markers: bool = True


@dataclass(frozen=True, slots=True)
class Result:
    """The result for a run. ``is_retryable``: another attempt may soon have another result."""

    run: Run
    outcome: str
    segments: int = 0
    uploaded_bytes: int = 0
    copied_bytes: int = 0
    retired_segments: int = 0
    problem: str | None = None
    is_retryable: bool = False


class Task:
    """``threads``: concurrent runs, each with up to three parts of 8 MiB in memory. ``lease_s``: duration of a lease after each
    renewal. ``dry_run``: only checks runs, acquires no lease."""

    def __init__(
        self, services: Services, attempt: Attempt, threads: int, *, lease_s: float = LEASE_S, dry_run: bool = False
    ) -> None:
        self._services, self._attempt, self._threads, self._dry_run = services, attempt, threads, dry_run
        store, source = services.work_sources(COMPACTION)
        terms = LeaseTerms(lease_s)
        self._patience_s = terms.timeout_s + terms.skew_s + _MORE_PATIENCE_S
        self._coordinator = SourceCoordinator(store, source, services.clock, _ignore, terms=terms, owner_factory=attempt.owner)
        self._backoff = Backoff(services.settings.set_aside_after_failures)

    def work(self, planned: Sequence[PlannedRun]) -> Iterator[Result]:
        """A result for each run, in order of completion. Raises UnavailableError if the coordination store does not respond."""
        if self._dry_run:
            yield from self._in_parallel(self._forecast, planned)
            return
        self._coordinator.initialize()
        try:
            with self._coordinator.heartbeat():
                yield from self._in_rounds(planned)
        finally:
            self._coordinator.shutdown()

    def _in_rounds(self, planned: Sequence[PlannedRun]) -> Iterator[Result]:
        """Retries runs that another worker has leased or whose store did not respond, for as long as the lease of a killed worker
        can last."""
        by_run = {each.run: each for each in planned}
        end: Deadline | None = None
        while planned:
            again = []
            for result in self._in_parallel(self._worked, planned):
                if result.is_retryable and (end is None or end.remaining_s() > 0):
                    again.append(by_run[result.run])
                else:
                    yield result
            planned = again
            if planned:
                end = end or Deadline(self._services.clock, self._patience_s)
                self._services.clock.sleep(PAUSE_S)

    def _in_parallel(self, work: Callable[[PlannedRun], Result], planned: Iterable[PlannedRun]) -> Iterator[Result]:
        """Unordered results; a few runs are started ahead of the consumer."""
        waiting = iter(planned)
        with ThreadPoolExecutor(self._threads) as threads:
            running: set[Future[Result]] = set()
            while True:
                running |= {threads.submit(work, each) for each in islice(waiting, self._threads * _AHEAD - len(running))}
                if not running:
                    return
                done, running = wait(running, return_when=FIRST_COMPLETED)
                for each in done:
                    yield each.result()

    def _worked(self, planned: PlannedRun) -> Result:
        run = planned.run
        try:
            seen = self._services.compactor.read_state(run)
            if self._is_done(planned, seen):
                return Result(run, UNCHANGED)
            acquired = self._coordinator.acquire(partition_key(run), self._may_take)
            return self._leased(planned, acquired, seen) if isinstance(acquired, Lease) else _leased_by_another(run, acquired)
        except Exception as error:  # a failed run does not stop other runs
            return _failed(run, error)

    def _leased(self, planned: PlannedRun, lease: Lease, seen: RunState) -> Result:
        try:
            done = self._finalizer(planned, lease, seen).compact_and_finalize(planned.run, Deadline(self._services.clock), seen)
            lease.check()
            final_segments = planned.segments if planned.is_final else None
            now_ms, retires = self._services.clock.now_ms(), not done[0].awaits_bundles  # the schedule bundles sidecars
            record_compaction(self._services.runs, planned.run, *done, final_segments, now_ms, retires=retires)
        except LeaseError as error:
            return Result(planned.run, BUSY, problem=_problem_text(planned.run, error), is_retryable=True)
        except UnavailableError:
            self._coordinator.release(lease)
            raise
        except Exception as error:
            # As in the schedule: retries with growing delays, and quarantine in the end.
            close_after_failure(self._coordinator, lease, error, self._backoff, self._services.clock.now_ms())
            raise
        self._forget(lease)
        return _result(planned, seen, *done)

    def _finalizer(self, planned: PlannedRun, lease: Lease, seen: RunState) -> Finalizer:
        """Several runs are worked in parallel already. Starting reader threads for each run as well would take half of a task's
        CPU time, so only runs with many segments get them."""
        readers = READERS if len(seen.pending) >= MANY_SEGMENTS else 1
        return leased_finalizer(self._services, lease, readers=readers, removes_markers=planned.has_markers)

    def _forget(self, lease: Lease) -> None:
        try:
            self._coordinator.complete_and_delete(lease)
        except (LeaseError, UnavailableError):
            return  # the run is done; the lease expires, and its next owner finds no work

    def _may_take(self, partition: Partition) -> bool:
        """Recently failed runs are tried at once, because somebody started this job."""
        return partition.status is Status.CLOSED or self._attempt.inherits(partition)

    def _is_done(self, planned: PlannedRun, seen: RunState) -> bool:
        """Whether a run needs no lease: S3 has no work left, and the catalog, if it listed the run, shows this."""
        if seen.pending or planned.is_final or (seen.partial is not None and seen.base is seen.logs):
            return False
        row = self._services.runs.get(planned.run) if planned.is_listed else None
        return row is None or not row.is_due

    def _forecast(self, planned: PlannedRun) -> Result:
        try:
            return retry_on_condition(lambda: self._seen(planned))
        except Exception as error:
            return _failed(planned.run, error)

    def _seen(self, planned: PlannedRun) -> Result:
        """The result that working the run would have."""
        compactor, run = self._services.compactor, planned.run
        seen = compactor.read_state(run)
        last = compactor.last_pending(run, seen)
        if last is None:
            return Result(run, RETIRED if planned.is_final else UNCHANGED)
        parts = compactor.parts(seen)
        copied = sum(part.size for part in parts if part.copied)
        uploaded = sum(part.size for part in parts) - copied
        return Result(run, FINALIZED if last.kind == SEAL else COMPACTED, len(seen.pending), uploaded, copied)


def _result(planned: PlannedRun, seen: RunState, compaction: Compaction, end: Finalization) -> Result:
    uploaded, copied = compaction.uploaded_bytes + end.uploaded_bytes, compaction.copied_bytes + end.copied_bytes
    retired = compaction.retired_segments
    if compaction.compacted_segments or (end.finalized and seen.pending and (uploaded or copied or not end.bytes)):
        outcome = FINALIZED if end.finalized else COMPACTED
        return Result(planned.run, outcome, len(seen.pending), uploaded, copied, retired)
    return Result(planned.run, RETIRED if retired else UNCHANGED, retired_segments=retired)


def _leased_by_another(run: Run, partition: Partition) -> Result:
    if partition.status is Status.COMPLETED:
        problem = f"quarantined after repeated failures: retry the partition run={run.fqn}/{run.run_id}"
        return Result(run, QUARANTINED, problem=problem)
    problem = f"leased by another worker run={run.fqn}/{run.run_id} owner={partition.owner}"
    return Result(run, BUSY, problem=problem, is_retryable=True)


def _failed(run: Run, error: Exception) -> Result:
    return Result(run, FAILED, problem=_problem_text(run, error), is_retryable=isinstance(error, UnavailableError))


def _problem_text(run: Run, error: Exception) -> str:
    return f"{run.fqn}/{run.run_id}: {error_text(error)}"[:500]


def _ignore(name: str, value: float) -> None:
    """The job has its own metrics."""
