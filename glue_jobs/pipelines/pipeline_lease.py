"""A pipeline worked by many workers at once: the driver takes it over, each task works runs of its own.

The driver holds the pipeline's lease, so the schedule leaves it alone, and takes its next epoch. Each task has a head of its own beside
the pipeline's, and commits only while that epoch is the pipeline's: tasks of a job that was killed can do nothing more as soon as another
worker has begun. What they had in hand is found by whoever takes the pipeline over next.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from uuid import uuid4

from chalicelib.composition import Services
from chalicelib.composition.pipelines import PIPELINES_WORK, worker_dependencies
from chalicelib.coordination import Lease, LeaseTerms, SourceCoordinator
from chalicelib.deadline import Deadline
from chalicelib.pipelines.checkpoints import Checkpoints
from chalicelib.pipelines.configuration import FINALIZED, PipelineFile
from chalicelib.pipelines.run_discovery import KnownRun
from chalicelib.pipelines.shards import OF_A_JOB

LEASE_S = 30.0
"""After its driver was killed a pipeline is free again this late, and its clocks' skew."""
PATIENCE_S = 45.0
"""So a job that is begun again waits for as long, and for the invocation of the schedule's that has the pipeline and may be done soon."""
_PAUSE_S = 2.0


@dataclass(frozen=True, slots=True)
class FixedRuns:
    """A ``RunDiscovery`` of runs that somebody named."""

    runs: Sequence[KnownRun]

    def live(self) -> Sequence[KnownRun]:
        """All of them."""
        return self.runs

    def all(self, since_ms: int) -> Iterator[KnownRun]:
        """No others."""
        return iter(())


@contextmanager
def hold_pipeline(services: Services, file: PipelineFile, patience_s: float = 0.0) -> Iterator[int | None]:
    """Hold a pipeline meanwhile; its epoch, or None when another has it, for longer than ``patience_s``. Every run's place is in a row of
    its own then. Raises UnavailableError, LeaseError."""
    terms = LeaseTerms(LEASE_S)
    coordinator = SourceCoordinator(*services.work_sources(PIPELINES_WORK), services.clock, _ignore, terms=terms)
    coordinator.initialize()
    try:
        lease = _acquired(services, coordinator, file.name, patience_s)
        if lease is None:
            yield None
            return
        with coordinator.heartbeat():
            checkpoints = Checkpoints(services.database, file.name, services.clock, _keep_s(services), shard=OF_A_JOB)
            checkpoints.take_over(f"job:{uuid4().hex}")
            yield checkpoints.epoch
            lease.check()
            checkpoints.take_over(f"job:{uuid4().hex}")  # a task that is still there can do nothing more
    finally:
        coordinator.shutdown()


def _acquired(services: Services, coordinator: SourceCoordinator, name: str, patience_s: float) -> Lease | None:
    end = Deadline(services.clock, patience_s)
    while not isinstance(acquired := coordinator.acquire(name), Lease):
        if end.remaining_s() <= 0:
            return None
        services.clock.sleep(_PAUSE_S)
    return acquired


def due(services: Services, file: PipelineFile, since_ms: int) -> Iterator[KnownRun]:
    """Runs of a pipeline that have ended, of those that began at or after a time."""
    if FINALIZED not in file.source.include:
        return
    discovery = worker_dependencies(services, file, 0, _silent).discovery
    yield from (known for known in discovery.all(since_ms) if known.ended)


def _keep_s(services: Services) -> int:
    return services.settings.expiration_days * 86_400


def _silent(message: str, **facts: object) -> None:
    """The tasks tell."""


def _ignore(name: str, value: float) -> None:
    """The job has figures of its own."""
