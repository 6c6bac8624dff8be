"""A pipeline worked by many workers at once: the driver takes it over, each task works runs of its own.

The driver holds the pipeline's lease, so the schedule leaves it alone, and takes its next epoch. Each task has a head of its own beside
the pipeline's, and commits only while that epoch is the pipeline's: tasks of a job that was killed can do nothing more as soon as another
worker has begun. What they had in hand is found by whoever takes the pipeline over next.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from uuid import uuid4

from chalicelib import composition
from chalicelib.composition import PIPELINES_WORK, Services
from chalicelib.coordination import Lease
from chalicelib.errors import LeaseError, UnavailableError
from chalicelib.pipelines.checkpoints import Checkpoints, Part
from chalicelib.pipelines.configuration import FINALIZED, PipelineFile
from chalicelib.pipelines.finding import Known
from chalicelib.pipelines.worker import Parts, Tell, Worker

_TRIES = 20
_PAUSE_S = 2.0


@dataclass(frozen=True, slots=True)
class Named:
    """A ``Finder`` of runs that somebody named."""

    runs: Sequence[Known]

    def live(self) -> Sequence[Known]:
        """All of them."""
        return self.runs

    def all(self, since_ms: int) -> Iterator[Known]:
        """No others."""
        return iter(())


@dataclass(frozen=True, slots=True)
class Done:
    """What a task did."""

    runs: int
    events: int
    dead: int
    errors: int
    problem: str | None = None


@contextmanager
def taken_over(services: Services, file: PipelineFile) -> Iterator[int | None]:
    """Hold a pipeline meanwhile; its epoch, or None when another has it. Every run's place is in a row of its own then. Raises
    UnavailableError, LeaseError."""
    coordinator = composition.coordinator(services, PIPELINES_WORK)
    coordinator.initialize()
    lease = coordinator.acquire(file.name)
    if not isinstance(lease, Lease):
        yield None
        return
    try:
        with coordinator.heartbeat():
            checkpoints = Checkpoints(services.database, file.name, services.clock, _keep_s(services))
            checkpoints.take_over(f"job:{uuid4().hex}")
            checkpoints.release(list(checkpoints.in_hand()))
            yield checkpoints.epoch
            lease.check()
            checkpoints.take_over(f"job:{uuid4().hex}")  # a task that is still there can do nothing more
    finally:
        coordinator.shutdown()


def due(services: Services, file: PipelineFile, since_ms: int) -> Iterator[Known]:
    """Runs of a pipeline that have ended, of those that began at or after a time."""
    if FINALIZED not in file.source.include:
        return
    finder = composition.pipeline_parts(services, file, 0, _silent).finder
    yield from (known for known in finder.all(since_ms) if known.ended)


def work(services: Services, file: PipelineFile, part: Part, runs: Sequence[Known], buffer_bytes: int, tell: Tell) -> Done:
    """Work these runs to their ends. The same again, after a kill anywhere, goes on where it was committed."""
    parts: Parts = replace(composition.pipeline_parts(services, file, buffer_bytes, tell), finder=Named(runs), part=part)
    worker = Worker(file, parts, lambda: None, f"{part.name}:{uuid4().hex}")
    try:
        worker.start()
        try:
            _to_the_end(services, worker, tell)
        finally:
            worker.stop()
        worker.checkpoints.finish_part()
    except (LeaseError, UnavailableError) as error:
        return _done(worker, runs, f"{type(error).__name__}: {error}")
    return _done(worker, runs, None if worker.is_idle else "not all was processed: a store was away, or a flush failed")


def _to_the_end(services: Services, worker: Worker, tell: Tell) -> None:
    left = _TRIES
    while not worker.is_idle and left:
        try:
            busy = worker.step()
        except UnavailableError as error:
            tell("a store is away: the task goes on when it is back", error=str(error))
            busy = False
        left = _TRIES if busy else left - 1
        if not busy and not worker.is_idle:
            services.clock.sleep(_PAUSE_S)


def _done(worker: Worker, runs: Sequence[Known], problem: str | None) -> Done:
    delivery = getattr(worker, "delivery", None)
    errors = sum(delivery.budget.total.values()) if delivery else 0
    return Done(len(runs), worker.processed, delivery.dead.count if delivery else 0, errors, problem)


def _keep_s(services: Services) -> int:
    return services.settings.expiration_days * 86_400


def _silent(message: str, **facts: object) -> None:
    """The tasks tell."""
