"""The interface between the framework, which reads, orders and checkpoints, and handlers, which process each event."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol, runtime_checkable

from chalicelib.pipelines.files.bucket_location import BucketLocation
from chalicelib.pipelines.handler_metrics import HandlerMetrics
from chalicelib.ports import Clock, Database, ObjectStore, Write

if TYPE_CHECKING:
    from chalicelib.events.ports import Target
    from chalicelib.events.targets.configuration import TargetConfiguration

MAX_COMMITTED_WRITES = 90
"""The number of writes that handlers may add to one transaction; the rest of DynamoDB's hundred are the checkpoint's."""

FQN, RUN_ID, LINE, TIME_MS = "runlake_fqn", "runlake_run_id", "runlake_line", "runlake_time_ms"
STEP, DATA = "runlake_step", "runlake_data"
EVENT_ID, WRITER, LEVEL = "runlake_event_id", "runlake_writer", "runlake_level"
ANNOTATIONS, INSTANCE = "runlake_annotations", "runlake_instance"
GENERATION, NAMESPACE, APP, PROGRAM = "runlake_generation", "runlake_namespace", "runlake_app", "runlake_program"
"""Attributes that the framework sets on every ``logging.LogRecord``: any formatter and filter may use them."""


@dataclass(frozen=True, slots=True)
class HandlerContext:
    """The archive's services for a handler. ``pipeline`` is the pipeline's name; ``fence`` raises LeaseError if the worker's
    lease is lost, and is called right before anything is published. ``stores`` returns other buckets by location, if there
    are any. ``outputs``: the names of the outputs of this worker's handlers, registered by each: no two handlers write the same.
    ``make_target`` creates a target of events, given the timeout of a request in seconds; ``instance_id``: this installation.
    ``metrics``: of this handler alone."""

    store: ObjectStore
    database: Database
    clock: Clock
    pipeline: str
    fence: Fence
    stores: Callable[[BucketLocation], ObjectStore] | None = None
    outputs: set[str] = field(default_factory=set, compare=False)
    make_target: MakeTarget | None = None
    instance_id: str = ""
    metrics: HandlerMetrics = field(default_factory=HandlerMetrics, compare=False)

    def metric(self, name: str, value: float) -> None:
        """Record a value of a metric of this handler: its count, sum, least and greatest value are reported at each checkpoint. ``name``:
        a letter and at most 99 letters, digits and ``._-``, not that of a dimension, at most 20 names; ``value``: finite. Others are
        dropped and counted. Never raises, makes no request."""
        self.metrics.record(name, value)


class MakeTarget(Protocol):
    """Creates targets."""

    def __call__(self, configuration: TargetConfiguration, timeout_s: float, /) -> Target:
        """Raises InvalidConfigurationError, UnavailableError."""


class Fence(Protocol):
    """Checks that the worker still owns its lease."""

    def __call__(self) -> None:
        """Raises LeaseError if it does not."""


@runtime_checkable
class TakesContext(Protocol):
    """A handler that uses the archive: the framework calls ``use`` once, before the first record."""

    def use(self, context: HandlerContext) -> None:
        """Called before the first record."""


@runtime_checkable
class CommitsWithCheckpoint(Protocol):
    """A handler whose rows are written in the checkpoint's transaction: its output becomes visible exactly once, even if a
    process crashes."""

    def pending_writes(self) -> Sequence[Write]:
        """Called after ``flush()``: writes that make the output since the last commit visible; at most ``MAX_COMMITTED_WRITES``."""

    def committed(self) -> None:
        """The transaction was applied: the writes of the last ``pending_writes`` are stored, and none that came since."""


@runtime_checkable
class HasDeletionHook(Protocol):
    """A handler that is notified of deletions, to remove what it keeps of their events."""

    def deleted(self, generation: str) -> None:
        """The generation of a pipeline (``runlake_generation`` of its events) was deleted. Called after ``flush()``, at least once for each
        handler and generation, whether or not the handler received its events; this worker delivers none of them afterwards. What it does
        is complete when it returns, or in the next ``pending_writes``. An error counts as the handler's: the call is repeated at the next
        checkpoint, and later deletions wait."""
