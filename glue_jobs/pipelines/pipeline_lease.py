"""Divides a log pipeline among the tasks of a job: the driver takes the pipeline over, each task processes its own runs.

The driver holds the pipeline's lease, so the schedule does not run it, and starts its next epoch. Each task has its own head in
addition to the pipeline's, and commits only during that epoch: tasks of a killed job cannot commit once another worker has
started. Its uncommitted runs are found by the next worker of the pipeline.
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
"""The pipeline is free again this long after its driver was killed, plus clock skew."""
PATIENCE_S = 45.0
"""A restarted job waits this long for the lease of a killed one, or for the schedule's invocation, which may end soon."""
_PAUSE_S = 2.0


@dataclass(frozen=True, slots=True)
class FixedRuns:
    """A ``RunDiscovery`` of a given list of runs."""

    runs: Sequence[KnownRun]

    def live(self) -> Sequence[KnownRun]:
        """All runs."""
        return self.runs

    def all(self, since_ms: int) -> Iterator[KnownRun]:
        """No further runs."""
        return iter(())


@contextmanager
def hold_pipeline(services: Services, file: PipelineFile, patience_s: float = 0.0) -> Iterator[int | None]:
    """Hold a pipeline during the block. Yields its epoch, or None if another worker holds it for longer than ``patience_s``. Each
    run then has its own checkpoint row. Raises UnavailableError, LeaseError."""
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
            checkpoints.take_over(f"job:{uuid4().hex}")  # tasks that still run can no longer commit
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
    """Ended runs of a pipeline that began at or after a time."""
    if FINALIZED not in file.source.include:
        return
    discovery = worker_dependencies(services, file, 0, _silent).discovery
    yield from (known for known in discovery.all(since_ms) if known.ended)


def _keep_s(services: Services) -> int:
    return services.settings.expiration_days * 86_400


def _silent(message: str, **facts: object) -> None:
    """The tasks log."""


def _ignore(name: str, value: float) -> None:
    """The job has its own metrics."""
