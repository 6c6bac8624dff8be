"""Discovers the runs that a pipeline processes: running ones, ended ones, and ones that the caller names."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Protocol

from chalicelib.catalog.runs import RunCatalog, RunRow
from chalicelib.pipelines.configuration import RunSelection
from chalicelib.ports import Clock, Run

_NAMES, _RUNS = 100, 100


@dataclass(frozen=True, slots=True)
class KnownRun:
    """A run and the known size of its log. ``ended``: no more is appended, as far as is known."""

    run: Run
    bytes: int
    lines: int
    ended: bool
    started_ms: int

    @classmethod
    def from_row(cls, row: RunRow) -> KnownRun:
        """From a row of the catalog."""
        size = max(row.bytes, row.compacted_bytes)
        return cls(row.run, size, row.lines, row.status == "finalized" or bool(row.seal), row.started_ms)


class RunDiscovery(Protocol):
    """The source of runs."""

    def live(self) -> Iterable[KnownRun]:
        """Running runs, and those that ended recently."""

    def all(self, since_ms: int) -> Iterator[KnownRun]:
        """Runs that started at or after a time, running or ended."""


@dataclass(frozen=True, slots=True)
class CatalogRunDiscovery:
    """Discovery in the catalog. ``names``: returns a page of pipelines' names (FQN) and the start of the next page."""

    runs: RunCatalog
    names: Callable[[str], tuple[Iterable[str], str | None]]
    source: RunSelection
    clock: Clock

    def live(self) -> list[KnownRun]:
        """From the activity index: 64 queries. Runs stay in it for at least 20 minutes after their end."""
        rows = self.runs.active(self.clock.now_ms() + 1)
        return [KnownRun.from_row(row) for row in rows if self.source.matches(row.run.fqn)]

    def all(self, since_ms: int) -> Iterator[KnownRun]:
        """One LIST for 1,000 names, one Query for 100 runs of each."""
        after: str | None = ""
        while after is not None:
            names, after = self.names(after)
            for fqn in names:
                if self.source.matches(fqn):
                    yield from self._of(fqn, since_ms)

    def _of(self, fqn: str, since_ms: int) -> Iterator[KnownRun]:
        cursor: str | None = None
        while True:
            page = self.runs.newest(fqn, _RUNS, cursor)
            for row in page.rows:
                if row.started_ms < since_ms:
                    return
                yield KnownRun.from_row(row)
            if page.cursor is None:
                return
            cursor = page.cursor
