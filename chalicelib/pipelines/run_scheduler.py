"""Which runs a worker takes in hand: those that it had, those that are running, those that ended since, and those that a handler missed."""

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
"""How often runs are looked for."""
_GAP_MS = 15 * 60_000
"""Runs stay in the index of activity for longer than that after they have ended: after a longer gap the catalog is listed."""
_MARGIN_MS = 7 * 86_400_000
"""Runs that began before the gap may have ended in it: those that began up to a week before are listed too."""
_MOST_REMEMBERED = 100_000


class RunScheduler:
    """``forced``: runs that are taken in hand whatever is known of them. ``listed``: no more is to be listed. ``most``: runs in hand at
    once. ``shard``: whose runs are taken, and no others."""

    def __init__(
        self,
        finder: RunDiscovery,
        source: RunSelection,
        checkpoints: Checkpoints,
        active_runs: ActiveRuns,
        clock: Clock,
        most: int,
        shard: Shard = ONLY,
    ) -> None:
        self._finder, self._source, self._checkpoints = finder, source, checkpoints
        self._active_runs, self._clock = active_runs, clock
        self._most, self._shard = most, shard
        self._lacks_room = False
        self.waiting: dict[Run, KnownRun] = {}
        self.forced: set[Run] = set()
        self.listed = False
        self._caught_up: dict[Run, tuple[int, bool]] = {}
        self._listing: Iterator[KnownRun] = iter(())
        self._since_ms: int | None = None
        self._looked_ms = self._known_until_ms = 0

    def force(self, run: Run, checkpoint: RunCheckpoint) -> None:
        """Take a run in hand of which a position is all that is known."""
        self.waiting[run] = KnownRun(run, checkpoint.position.byte, checkpoint.position.line, False, checkpoint.position.time_ms)
        self.forced.add(run)

    def list_since(self, looked_ms: int) -> None:
        """Everything was found until then. If that is long ago, the catalog is listed from there."""
        self._known_until_ms = looked_ms
        self._since_ms = max(0, looked_ms - _MARGIN_MS) if self._clock.now_ms() - looked_ms > _GAP_MS else None
        self._list_again()

    def _list_again(self) -> None:
        self._listing = iter(()) if self._since_ms is None else iter(self._finder.all(self._since_ms))

    @property
    def discovered_until_ms(self) -> int:
        """Until when everything was found."""
        return self._looked_ms if self.listed and not self.waiting else self._known_until_ms

    @property
    def is_full(self) -> bool:
        """Whether runs wait, and there is no room."""
        return bool(self.waiting) and (self._lacks_room or len(self._active_runs) >= self._most)

    @property
    def is_crowded(self) -> bool:
        """Whether others wait while half of what is in hand is done."""
        return self.is_full and 2 * sum(active.is_done for active in self._active_runs.runs.values()) >= len(self._active_runs)

    def discover(self) -> None:
        """Find what is new, if it is time. Raises UnavailableError."""
        now_ms = self._clock.now_ms()
        if self._looked_ms and now_ms - self._looked_ms < DISCOVERY_INTERVAL_MS:
            return
        self._learn(self._finder.live())
        self._looked_ms = now_ms

    def _learn(self, known_runs: Iterable[KnownRun]) -> None:
        for known in self._active_runs.update(known_runs):
            if self._shard.has(known.run.fqn) and self._caught_up.get(known.run) != (known.bytes, known.ended):
                self.waiting[known.run] = known

    def admit(self, receiving: Mapping[str, bool]) -> None:
        """Take runs in hand, as many as there is room for. ``gets``: which handlers get events. Raises UnavailableError: the runs that were
        not taken still wait, and the next call goes on with them."""
        room = self._most - len(self._active_runs)
        self._lacks_room = False
        if room <= 0:
            return
        if len(self.waiting) < room:
            self._list(room)
        batch = list(islice(self.waiting.values(), room))
        checkpoints = self._checkpoints.find([known.run for known in batch]) if batch else {}
        for known in batch:
            checkpoint = checkpoints.get(known.run)
            if (checkpoint is None and not self._wants(known)) or not self._has_work(
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

    def _list(self, most: int) -> None:
        """The next runs of the catalog. A generator that raised is over, so after an error the listing starts again; runs that are in hand
        or caught up are left out then."""
        try:
            known_runs = list(islice(self._listing, most))
        except UnavailableError:
            self._list_again()
            raise
        self.listed = len(known_runs) < most
        self._learn(known_runs)

    def _wants(self, known: KnownRun) -> bool:
        """Whether a run is worked of which nothing was processed yet."""
        return (FINALIZED if known.ended else LIVE) in self._source.include

    def _has_work(self, known: KnownRun, checkpoint: RunCheckpoint, receiving: Mapping[str, bool]) -> bool:
        behind = any(receiving.get(name) for name in checkpoint.lagging)
        return behind or known.run in self.forced or checkpoint.position.byte < known.bytes

    def mark_caught_up(self, known: KnownRun) -> None:
        """A run needs nothing as long as no more is known of it."""
        if len(self._caught_up) >= _MOST_REMEMBERED:
            self._caught_up.clear()
        self._caught_up[known.run] = (known.bytes, known.ended)
