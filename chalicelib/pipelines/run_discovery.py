"""Which runs a pipeline has to work on: those that are running, those that have ended, and those that somebody names."""

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
    """A run and how long its log is known to be. ``ended``: nothing more comes, as far as is known."""

    run: Run
    bytes: int
    lines: int
    ended: bool
    started_ms: int

    @classmethod
    def from_row(cls, row: RunRow) -> KnownRun:
        """From the catalog."""
        size = max(row.bytes, row.compacted_bytes)
        return cls(row.run, size, row.lines, row.status == "finalized" or bool(row.seal), row.started_ms)


class RunDiscovery(Protocol):
    """Where runs come from."""

    def live(self) -> Iterable[KnownRun]:
        """Runs that go on, and those that ended lately."""

    def all(self, since_ms: int) -> Iterator[KnownRun]:
        """Runs that began at or after a time, whether they have ended or not."""


@dataclass(frozen=True, slots=True)
class CatalogRunDiscovery:
    """By the catalog. ``names``: the pipelines' names (FQN), in pages: a page and where the next begins."""

    runs: RunCatalog
    names: Callable[[str], tuple[Iterable[str], str | None]]
    source: RunSelection
    clock: Clock

    def live(self) -> list[KnownRun]:
        """By the index of activity: 64 queries. Runs stay there for 20 minutes and more after they have ended."""
        rows = self.runs.active(self.clock.now_ms() + 1)
        return [KnownRun.from_row(row) for row in rows if self.source.wants(row.run.fqn)]

    def all(self, since_ms: int) -> Iterator[KnownRun]:
        """A LIST for a thousand names, a query for a hundred runs of each."""
        after: str | None = ""
        while after is not None:
            names, after = self.names(after)
            for fqn in names:
                if self.source.wants(fqn):
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
