"""Where partitions are kept: what a store does for a coordinator, and how a write's outcome is made certain."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from chalicelib.coordination.partition import Partition, Retention, Status
from chalicelib.errors import OutcomeUnknownError, StoreUnavailableError
from chalicelib.ports import Clock

PAGE = 25
"""Partitions that one look at the index reads at most."""
ATTEMPTS = 4
_FIRST_PAUSE_S = 0.05


@dataclass(frozen=True, slots=True)
class Refused:
    """A conditional write that was not applied, and what is there instead; None: nothing."""

    current: Partition | None


@dataclass(frozen=True, slots=True)
class Place:
    """A place in the index: behind this partition."""

    priority: str
    key: str


@dataclass(frozen=True, slots=True)
class Look:
    """Which partitions of a source to look at: of one status, by ``priority`` from ``first`` to ``last`` (None: no bound)."""

    source: str
    status: Status
    first: str | None = None
    last: str | None = None
    after: Place | None = None
    limit: int = PAGE
    newest_first: bool = False


class Store(Protocol):
    """Raises StoreUnavailableError (nothing was done), OutcomeUnknownError (a write whose answer was lost). Never answers a part."""

    @property
    def retention(self) -> Retention:
        """How long items are kept."""

    def initialize(self) -> None:
        """Make the store ready; any number of nodes may, at once and again. Raises InvalidConfigurationError."""

    def get(self, source: str, key: str) -> Partition | None:
        """The partition as it is now: strongly consistent."""

    def look(self, look: Look) -> tuple[Sequence[Partition], Place | None]:
        """Partitions in order of priority, and where to go on (None: there are no more). The index may lag behind the items."""

    def create(self, new: Partition) -> Refused | None:
        """Write it if there is none of its key; None when it was written."""

    def replace(self, old: Partition, new: Partition) -> Refused | None:
        """Write ``new`` in the place of exactly ``old``; None when it was written."""

    def delete(self, old: Partition) -> Refused | None:
        """Remove exactly ``old``; None when it was removed."""


def settled(write: Callable[[], Refused | None], is_ours: Callable[[Partition | None], bool], clock: Clock) -> Refused | None:
    """The certain outcome of a conditional write, whatever happens to its answers.

    A write whose answer was lost is repeated. If it had been applied, the repeat is refused and finds ``is_ours``: a success. Raises
    StoreUnavailableError when nothing was done, OutcomeUnknownError when the store does not come back in time.
    """
    doubt: OutcomeUnknownError | None = None
    for attempt in range(ATTEMPTS):
        try:
            refused = write()
        except OutcomeUnknownError as error:
            doubt = error
        except StoreUnavailableError:
            if doubt is None:
                raise
        else:
            return None if refused and is_ours(refused.current) else refused
        if attempt + 1 < ATTEMPTS:
            clock.sleep(_FIRST_PAUSE_S * 2**attempt)
    assert doubt
    raise doubt
