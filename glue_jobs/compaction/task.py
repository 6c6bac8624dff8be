"""What one task of compaction in bulk does with its runs: a few at once, each under a lease of its own.

A run is looked at before its lease is asked for, so that one that is done costs a request or two and no write. One that another has is
tried again at the end, for as long as the lease of a worker that was killed can last.
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

LEASE_S = 30.0
"""Short: a job that is begun again soon has the runs of one that was killed."""
_MORE_PATIENCE_S = 5.0
PAUSE_S = 1.0
MANY_SEGMENTS = 200
"""A run that has so many is read by several threads: one would take seconds."""
_AHEAD = 4
_OWNER = re.compile(r":bulk\.([^.:]+)\.(\d+)\.(\d+):")

FINALIZED, COMPACTED, RETIRED, UNCHANGED = "finalized", "compacted", "retired", "unchanged"
FAILED, BUSY, QUARANTINED = "failed", "busy", "set_aside"
OUTCOMES = (FINALIZED, COMPACTED, RETIRED, UNCHANGED, FAILED, BUSY, QUARANTINED)
"""What becomes of a run. The last three are left undone: damaged or refused, another's, given up on by the schedule."""
UNDONE = (FAILED, BUSY, QUARANTINED)


@dataclass(frozen=True, slots=True)
class Attempt:
    """Which try of which task of which job: the owner of its leases says so."""

    job: str
    task: int
    number: int

    def owner(self) -> str:
        """A new owner's name."""
        return f"{socket.gethostname()}:{os.getpid()}:bulk.{self.job}.{self.task}.{self.number}:{uuid4().hex}"

    def inherits(self, partition: Partition) -> bool:
        """Whether an earlier try of the same task has it: Spark begins another one when that is dead."""
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
    """What became of it. ``is_again``: it may be another thing soon."""

    run: Run
    outcome: str
    segments: int = 0
    uploaded_bytes: int = 0
    copied_bytes: int = 0
    retired_segments: int = 0
    problem: str | None = None
    is_retryable: bool = False


class Task:
    """``threads``: runs at once, each with up to three parts of 8 MiB in memory. ``lease_s``: how long a run is its worker's after each
    renewal. ``dry_run``: only looks, takes no lease."""

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
        """A result for each run, as they come. Raises UnavailableError when coordination itself does not answer."""
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
        """Runs that another has, or for which the store does not answer, are tried again as long as the lease of a killed worker can last."""
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
        """In no order; a few are begun ahead of those that are asked for."""
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
        except Exception as error:  # however it fails, it stops no other
            return _failed(run, error)

    def _leased(self, planned: PlannedRun, lease: Lease, seen: RunState) -> Result:
        try:
            done = self._finalizer(planned, lease, seen).compact_and_finalize(planned.run, Deadline(self._services.clock), seen)
            lease.check()
            final_segments = planned.segments if planned.is_final else None
            record_compaction(self._services.runs, planned.run, *done, final_segments, self._services.clock.now_ms())
        except LeaseError as error:
            return Result(planned.run, BUSY, problem=_problem_text(planned.run, error), is_retryable=True)
        except UnavailableError:
            self._coordinator.release(lease)
            raise
        except Exception as error:
            # As the schedule does: it tries later and later, and in the end leaves it to somebody.
            close_after_failure(self._coordinator, lease, error, self._backoff, self._services.clock.now_ms())
            raise
        self._forget(lease)
        return _result(planned, seen, *done)

    def _finalizer(self, planned: PlannedRun, lease: Lease, seen: RunState) -> Finalizer:
        """Runs are what goes on beside each other: readers of one run beside that, each a thread made anew, take half of a task's
        processor."""
        readers = READERS if len(seen.pending) >= MANY_SEGMENTS else 1
        return leased_finalizer(self._services, lease, readers=readers, removes_markers=planned.has_markers)

    def _forget(self, lease: Lease) -> None:
        try:
            self._coordinator.complete_and_delete(lease)
        except (LeaseError, UnavailableError):
            return  # the run is done; the lease ends by itself, and who takes it then finds that out

    def _may_take(self, partition: Partition) -> bool:
        """What failed lately is tried at once: somebody began this job."""
        return partition.status is Status.CLOSED or self._attempt.inherits(partition)

    def _is_done(self, planned: PlannedRun, seen: RunState) -> bool:
        """Whether a run needs no lease: S3 has nothing left to do, and the catalog, where it was asked, knows that by now."""
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
        """What working it would do."""
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
        problem = f"set aside after it failed again and again: ask for another try run={run.fqn}/{run.run_id}"
        return Result(run, QUARANTINED, problem=problem)
    problem = f"another has it run={run.fqn}/{run.run_id} owner={partition.owner}"
    return Result(run, BUSY, problem=problem, is_retryable=True)


def _failed(run: Run, error: Exception) -> Result:
    return Result(run, FAILED, problem=_problem_text(run, error), is_retryable=isinstance(error, UnavailableError))


def _problem_text(run: Run, error: Exception) -> str:
    return f"{run.fqn}/{run.run_id}: {type(error).__name__}: {error}"[:500]


def _ignore(name: str, value: float) -> None:
    """The job has figures of its own."""
