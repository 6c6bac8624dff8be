"""What stands between the framework, which reads, orders and checkpoints, and handlers, which do something with each event."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Protocol, runtime_checkable

from chalicelib.ports import Clock, Database, ObjectStore, Write

MAX_COMMITTED_WRITES = 90
"""How many writes handlers may add to one transaction; the others of DynamoDB's hundred are the checkpoint's."""

FQN, RUN_ID, LINE, TIME_MS = "runlake_fqn", "runlake_run_id", "runlake_line", "runlake_time_ms"
STEP, DATA = "runlake_step", "runlake_data"
GENERATION, NAMESPACE, APP, PROGRAM = "runlake_generation", "runlake_namespace", "runlake_app", "runlake_program"
"""Attributes that the framework sets on every ``logging.LogRecord``: any formatter and filter may use them."""


@dataclass(frozen=True, slots=True)
class HandlerContext:
    """What a handler may use of the archive. ``pipeline`` is the pipeline's name; ``fence`` raises LeaseError when the worker's lease is
    gone, and is asked right before anything is published. ``stores`` gives other buckets by name, where there are any to be had.
    ``outputs``: names of what the handlers of this worker write, entered by each: no two write the same."""

    store: ObjectStore
    database: Database
    clock: Clock
    pipeline: str
    fence: Fence
    stores: Callable[[str], ObjectStore] | None = None
    outputs: set[str] = field(default_factory=set, compare=False)


class Fence(Protocol):
    """Asks whether the worker still is the only one."""

    def __call__(self) -> None:
        """Raises LeaseError when it is not."""


@runtime_checkable
class TakesContext(Protocol):
    """A handler that works with the archive: the framework calls this once, before it is started."""

    def use(self, context: HandlerContext) -> None:
        """Given before the first record."""


@runtime_checkable
class CommitsWithCheckpoint(Protocol):
    """A handler whose rows are written in one transaction with the checkpoint: what it published is seen once, whatever crashes."""

    def pending_writes(self) -> Sequence[Write]:
        """After ``flush()``: writes that make visible what was published since the last commit; at most ``MAX_COMMITTED_WRITES``."""

    def committed(self) -> None:
        """The transaction was applied: what ``pending_writes`` answered last is done with, and nothing that came since."""
