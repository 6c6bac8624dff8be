"""The port to a store of partitions, writes with a certain outcome, and bounded parallel requests."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from threading import Event
from typing import Protocol, TypeVar

from chalicelib.coordination.partition import ItemTtl, Partition, Status
from chalicelib.errors import OutcomeUnknownError, StoreUnavailableError
from chalicelib.ports import Clock

PAGE_SIZE = 25
"""Partitions that one query of the index returns at most."""
MAX_ATTEMPTS = 4
_FIRST_PAUSE_S = 0.05


@dataclass(frozen=True, slots=True)
class ConditionFailed:
    """A conditional write was not applied; ``current`` is the item in the store, None if there is none."""

    current: Partition | None


@dataclass(frozen=True, slots=True)
class IndexPosition:
    """A position in the index: behind this partition."""

    priority: str
    key: str


@dataclass(frozen=True, slots=True)
class PartitionQuery:
    """Partitions of a source in one status with a ``priority`` from ``first`` to ``last`` (None: no bound), behind ``after``."""

    source: str
    status: Status
    first: str | None = None
    last: str | None = None
    after: IndexPosition | None = None
    limit: int = PAGE_SIZE
    newest_first: bool = False


class PartitionStore(Protocol):
    """Raises StoreUnavailableError (nothing was done), OutcomeUnknownError (the response to a write was lost). Results are never partial."""

    @property
    def item_ttl(self) -> ItemTtl:
        """Time to live of items."""

    def initialize(self) -> None:
        """Prepare the store; safe to repeat and to run on several nodes at once. Raises InvalidConfigurationError."""

    def get(self, source: str, key: str) -> Partition | None:
        """The current partition: strongly consistent."""

    def query(self, query: PartitionQuery) -> tuple[Sequence[Partition], IndexPosition | None]:
        """Partitions in order of priority, and the position to continue from (None: no more). The index may lag behind the items."""

    def create(self, new: Partition) -> ConditionFailed | None:
        """Write ``new`` if its key has no item; None when it was written."""

    def replace(self, old: Partition, new: Partition) -> ConditionFailed | None:
        """Write ``new`` if the item is exactly ``old``; None when it was written."""

    def delete(self, old: Partition) -> ConditionFailed | None:
        """Delete the item if it is exactly ``old``; None when it was deleted."""


def resolve_outcome(
    write: Callable[[], ConditionFailed | None], is_ours: Callable[[Partition | None], bool], clock: Clock
) -> ConditionFailed | None:
    """Run a conditional write until its outcome is known, although responses may be lost.

    A write whose response was lost is repeated. If the first one had been applied, the condition of the repeat fails, and ``is_ours``
    recognizes the item in the store: a success. Raises StoreUnavailableError when nothing was done, OutcomeUnknownError when the store
    does not recover in time.
    """
    doubt: OutcomeUnknownError | None = None
    for attempt in range(MAX_ATTEMPTS):
        try:
            refused = write()
        except OutcomeUnknownError as error:
            doubt = error
        except StoreUnavailableError:
            if doubt is None:
                raise
        else:
            return None if refused and is_ours(refused.current) else refused
        if attempt + 1 < MAX_ATTEMPTS:
            clock.sleep(_FIRST_PAUSE_S * 2**attempt)
    assert doubt
    raise doubt


MAX_THREADS = 8
Item = TypeVar("Item")
Answer = TypeVar("Answer")


def in_parallel(call: Callable[[Item], Answer], items: Iterable[Item], threads: int = MAX_THREADS) -> list[Answer]:
    """The results in order. After the first error no further call starts; it is raised when the running ones have ended."""
    todo = list(items)
    if len(todo) <= 1:
        return [call(item) for item in todo]
    answers: dict[int, Answer] = {}
    errors: list[BaseException] = []
    failed = Event()

    def one(number: int) -> None:
        if failed.is_set():
            return
        try:
            answers[number] = call(todo[number])
        except BaseException as error:
            errors.append(error)
            failed.set()

    with ThreadPoolExecutor(min(threads, len(todo))) as pool:
        list(pool.map(one, range(len(todo))))
    if errors:
        raise errors[0]
    return [answers[number] for number in range(len(todo))]
