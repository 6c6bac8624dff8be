"""Where partitions are kept: what a store does for a coordinator, and how a write's outcome is made certain."""

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
"""Partitions that one look at the index reads at most."""
MAX_ATTEMPTS = 4
_FIRST_PAUSE_S = 0.05


@dataclass(frozen=True, slots=True)
class ConditionFailed:
    """A conditional write that was not applied, and what is there instead; None: nothing."""

    current: Partition | None


@dataclass(frozen=True, slots=True)
class IndexPosition:
    """A place in the index: behind this partition."""

    priority: str
    key: str


@dataclass(frozen=True, slots=True)
class PartitionQuery:
    """Which partitions of a source to look at: of one status, by ``priority`` from ``first`` to ``last`` (None: no bound)."""

    source: str
    status: Status
    first: str | None = None
    last: str | None = None
    after: IndexPosition | None = None
    limit: int = PAGE_SIZE
    newest_first: bool = False


class PartitionStore(Protocol):
    """Raises StoreUnavailableError (nothing was done), OutcomeUnknownError (a write whose answer was lost). Never answers a part."""

    @property
    def item_ttl(self) -> ItemTtl:
        """How long items are kept."""

    def initialize(self) -> None:
        """Make the store ready; any number of nodes may, at once and again. Raises InvalidConfigurationError."""

    def get(self, source: str, key: str) -> Partition | None:
        """The partition as it is now: strongly consistent."""

    def query(self, query: PartitionQuery) -> tuple[Sequence[Partition], IndexPosition | None]:
        """Partitions in order of priority, and where to go on (None: there are no more). The index may lag behind the items."""

    def create(self, new: Partition) -> ConditionFailed | None:
        """Write it if there is none of its key; None when it was written."""

    def replace(self, old: Partition, new: Partition) -> ConditionFailed | None:
        """Write ``new`` in the place of exactly ``old``; None when it was written."""

    def delete(self, old: Partition) -> ConditionFailed | None:
        """Remove exactly ``old``; None when it was removed."""


def resolve_outcome(
    write: Callable[[], ConditionFailed | None], is_ours: Callable[[Partition | None], bool], clock: Clock
) -> ConditionFailed | None:
    """The certain outcome of a conditional write, whatever happens to its answers.

    A write whose answer was lost is repeated. If it had been applied, the repeat is refused and finds ``is_ours``: a success. Raises
    StoreUnavailableError when nothing was done, OutcomeUnknownError when the store does not come back in time.
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
    """The answers in order. After the first error no further call begins; those that run end; then it is raised."""
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
