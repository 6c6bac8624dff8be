"""Selects the runs that a worker processes: its checkpointed runs, running runs, recently ended runs, and runs with a handler
that lags.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from itertools import islice

from chalicelib.errors import UnavailableError
from chalicelib.pipelines.active_runs import ActiveRuns
from chalicelib.pipelines.checkpoints import Checkpoints
from chalicelib.pipelines.configuration import FINALIZED, LIVE, RunSelection
from chalicelib.pipelines.rows import RunCheckpoint
from chalicelib.pipelines.run_discovery import KnownRun, RunDiscovery
from chalicelib.pipelines.shards import ONLY, Shard
from chalicelib.ports import Clock, Run

DISCOVERY_INTERVAL_MS = 5000
"""Time between two lookups of new runs."""
_GAP_MS = 15 * 60_000
"""The activity index lists runs for longer than this after their end: after a longer gap the catalog is listed."""
_MARGIN_MS = 7 * 86_400_000
"""Runs that started before the gap may have ended in it: the catalog is listed from a week before the gap."""
_MOST_REMEMBERED = 100_000


class RunScheduler:
    """``forced``: runs that become active regardless of their known state. ``listed``: the catalog listing is complete. ``max_runs``:
    the maximum number of active runs. ``shard``: the shard whose runs are selected; runs of other shards are ignored."""

    def __init__(
        self,
        discovery: RunDiscovery,
        source: RunSelection,
        checkpoints: Checkpoints,
        active_runs: ActiveRuns,
        clock: Clock,
        max_runs: int,
        shard: Shard = ONLY,
    ) -> None:
        self._discovery, self._source, self._checkpoints = discovery, source, checkpoints
        self._active_runs, self._clock = active_runs, clock
        self._max_runs, self._shard = max_runs, shard
        self._lacks_room = False
        self.waiting: dict[Run, KnownRun] = {}
        self.forced: set[Run] = set()
        self.listed = False
        self._caught_up: dict[Run, tuple[int, bool]] = {}
        self._listing: Iterator[KnownRun] = iter(())
        self._since_ms: int | None = None
        self._looked_ms = self._known_until_ms = 0

    def force(self, run: Run, checkpoint: RunCheckpoint) -> None:
        """Schedule a run of which only its checkpoint is known."""
        self.waiting[run] = KnownRun(run, checkpoint.position.byte, checkpoint.position.line, False, checkpoint.position.time_ms)
        self.forced.add(run)

    def list_since(self, looked_ms: int) -> None:
        """Discovery was complete until ``looked_ms``. If that is long ago, list the catalog from there."""
        self._known_until_ms, self.listed = looked_ms, False
        self._since_ms = max(0, looked_ms - _MARGIN_MS) if self._clock.now_ms() - looked_ms > _GAP_MS else None
        self._restart_listing()

    def _restart_listing(self) -> None:
        self._listing = iter(()) if self._since_ms is None else iter(self._discovery.all(self._since_ms))

    @property
    def discovered_until_ms(self) -> int:
        """The time until which discovery is complete."""
        return self._looked_ms if self.listed and not self.waiting else self._known_until_ms

    @property
    def is_full(self) -> bool:
        """Whether runs wait, or may be in the rest of the catalog listing, and there is no room for them."""
        may_wait = bool(self.waiting) or not self.listed
        return may_wait and (self._lacks_room or len(self._active_runs) >= self._max_runs)

    @property
    def is_crowded(self) -> bool:
        """Whether runs wait for room while at least half of the active runs are done."""
        return self.is_full and 2 * sum(active.is_done for active in self._active_runs.runs.values()) >= len(self._active_runs)

    def discover(self) -> None:
        """Find new runs, unless the last lookup is too recent; list the catalog again if it is long ago, since runs that have ended
        meanwhile may be in no index any more. Raises UnavailableError."""
        now_ms = self._clock.now_ms()
        if self._looked_ms and now_ms - self._looked_ms < DISCOVERY_INTERVAL_MS:
            return
        self._enqueue(self._discovery.live())
        if self._looked_ms and now_ms - self._looked_ms > _GAP_MS:
            self.list_since(self.discovered_until_ms)
        self._looked_ms = now_ms

    def _enqueue(self, known_runs: Iterable[KnownRun]) -> None:
        for known in self._active_runs.update(known_runs):
            if self._shard.has(known.run.fqn) and self._caught_up.get(known.run) != (known.bytes, known.ended):
                self.waiting[known.run] = known

    def admit(self, receiving: Mapping[str, bool]) -> None:
        """Make waiting runs active, as many as there is room for. ``receiving``: whether each handler receives events. Raises
        UnavailableError: runs that were not admitted still wait, and the next call continues with them."""
        room = self._max_runs - len(self._active_runs)
        self._lacks_room = False
        if room <= 0:
            return
        if len(self.waiting) < room:
            self._list(room)
        batch = list(islice(self.waiting.values(), room))
        checkpoints = self._checkpoints.find([known.run for known in batch]) if batch else {}
        for known in batch:
            checkpoint = checkpoints.get(known.run)
            if (checkpoint is None and not self._is_selected(known)) or not self._has_work(
                known, checkpoint or RunCheckpoint(), receiving
            ):
                self.mark_caught_up(known)
            elif not self._active_runs.has_room_for(known.run, receiving):
                self._lacks_room = True
                return
            else:
                self._active_runs.add(known, checkpoint or RunCheckpoint(), receiving)  # may raise: the run still waits then
                self.forced.discard(known.run)
            del self.waiting[known.run]

    def _list(self, max_runs: int) -> None:
        """Read the next runs of the catalog. A generator that raised is exhausted, so after an error the listing restarts and
        skips runs that are active or caught up."""
        try:
            known_runs = list(islice(self._listing, max_runs))
        except UnavailableError:
            self._restart_listing()
            raise
        self.listed = len(known_runs) < max_runs
        self._enqueue(known_runs)

    def _is_selected(self, known: KnownRun) -> bool:
        """Whether the pipeline's source selects a run that has no checkpoint."""
        return (FINALIZED if known.ended else LIVE) in self._source.include

    def _has_work(self, known: KnownRun, checkpoint: RunCheckpoint, receiving: Mapping[str, bool]) -> bool:
        behind = any(receiving.get(name) for name in checkpoint.lagging)
        return behind or known.run in self.forced or checkpoint.position.byte < known.bytes

    def mark_caught_up(self, known: KnownRun) -> None:
        """Ignore a run until its known size or end changes."""
        if len(self._caught_up) >= _MOST_REMEMBERED:
            self._caught_up.clear()
        self._caught_up[known.run] = (known.bytes, known.ended)
