"""Every fault at every call of an explanation in the background, of the bucket, the catalog and the work's store; two workers; repeat, and
compare with one read of the log."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from functools import cache
from itertools import combinations
from typing import Any

import pytest
from pydantic import SecretStr

from chalicelib import composition
from chalicelib.catalog.runs import RunRow
from chalicelib.coordination import InMemoryPartitionStore, WorkSource
from chalicelib.errors import RunlakeError
from chalicelib.explanation import run_explainer
from chalicelib.explanation.explainer import Explainer
from chalicelib.explanation.explanation import Explanation
from chalicelib.explanation.run_explainer import ScheduledExplainer
from chalicelib.explanation.usual_lines import UsualLines
from chalicelib.ports import FAILED, SUCCEEDED, Run, RunEnd
from chalicelib.runlog.batch import Batch
from chalicelib.settings import Settings
from chalicelib.triggers import schedules
from tests.faults.interception import CONFLICT, FAULTS, LATER, Crash, Intercepted, StopAt
from tests.faults.stepping import Actor
from tests.functional.test_explained_runs import slow
from tests.support.run_catalog import InMemoryRunCatalog
from tests.world import RUN, World

LOG = "".join({2: "ERROR no rows\n", 5: "ERROR no answer\n"}.get(number, f"line {number}\n") for number in range(9))
SUCCESS = "ERROR no answer\nend\n"
END = RunEnd(FAILED, exit_code=1)


@pytest.fixture(autouse=True)
def _small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run_explainer, "PIECE_BYTES", 40)
    monkeypatch.setattr(schedules, "EXPLAINERS", 1)


@cache
def _settings() -> Settings:
    """Read once: it takes as long as the tick itself."""
    return Settings(bucket_name="bucket", archive_bucket_name="archive", position_keys=SecretStr("0123456789abcdef"))


class Ticked:
    """A world with one run, and ticks of the schedule."""

    world: World
    runs: InMemoryRunCatalog
    work: InMemoryPartitionStore

    def gate(self) -> Any:
        """Surrounds each call of the bucket."""
        return lambda operation, call: call()

    def tick(self, wrap: Any = lambda port: port) -> None:
        work = wrap(self.work)
        ports = composition.Ports(
            store=wrap(Intercepted(self.world.store, self.gate())),
            archive_store=self.world.archive_store,
            index=self.world.index,
            runs=wrap(self.runs),
            database=self.world.database,
            publisher=None,
            clock=self.world.clock,
            work_sources=lambda source: (work, WorkSource(source)),
        )
        schedules.compact(composition.assemble(_settings(), ports), 840_000)

    def settle(self) -> None:
        """Ticks until nothing is to do anymore."""
        for _ in range(12):
            with suppress(RunlakeError):
                self.tick()
            self.world.clock.advance(660)  # a lease of a dead worker ends
            if not list(self.runs.active(self.world.clock.now_ms() + 1)):
                return

    def check(self) -> None:
        """The result is that of an undisturbed tick."""
        raise NotImplementedError


class Failed(Ticked):
    """A finalized, failed run, and one that succeeded before it. A read of each piece takes as long as a visit: the log takes two."""

    def __init__(self) -> None:
        self.world, self.runs, self.work = World(), InMemoryRunCatalog(), InMemoryPartitionStore()
        self._end(Run(RUN.fqn, "earlier"), SUCCESS, RunEnd(SUCCEEDED))
        self._end(RUN, LOG, END)

    def _end(self, run: Run, log: str, end: RunEnd) -> None:
        parts = self.world.parts()
        parts.writer.append(run, Batch.from_text(log))
        parts.finalizer.close(run, end=end)
        for found in parts.writer.tails.list_segments(run):
            self.runs.record_segment(run, parts.writer.tails.segment(run, self.world.layout.sequence_of(run, found.key)))
        self.runs.record_finalization(run, log.count("\n"), len(log), 2, self.world.clock.now_ms())

    def gate(self) -> Any:
        return slow(self.world)

    def check(self) -> None:
        explainer = Explainer()
        explainer.feed(LOG.encode())
        row = self.runs.get(RUN)
        assert row and row.is_explained
        compared = Explanation.of(explainer.candidates(END, {"ERROR no answer"})).to_text()
        assert '"line":2' in compared.partition("}")[0], "the other error is usual"
        assert row.explanation in (compared, Explanation.of(explainer.candidates(END)).to_text()), (
            "another run's log may be unreadable"
        )
        assert list(self.runs.active(self.world.clock.now_ms() + 1)) == [], "it is retired"


class _Port(Intercepted):
    """A port whose time to live of items is no call."""

    @property
    def item_ttl(self) -> Any:
        return self._inner.item_ttl


def stop_at_every_call(make: Callable[[], Ticked], moment: str, how: str) -> None:
    """A tick meets a fault at one of its calls, then the next ticks finish the work; for each of its calls."""
    number = 0
    while True:
        ticked = make()
        stop = StopAt(number, moment, how)
        with suppress(RunlakeError, Crash):
            ticked.tick(lambda port, gate=stop: _Port(port, gate))
        if not stop.fired:
            break
        if moment != LATER:
            stop.land()
        ticked.settle()
        stop.land()
        ticked.check()
        number += 1
    assert number > 3


@pytest.mark.parametrize("ticks", [0, 1], ids=["first piece", "last piece"])
@pytest.mark.parametrize(("moment", "how"), [fault for fault in FAULTS if fault[0] != CONFLICT])
def test_stop_at_every_call(ticks: int, moment: str, how: str) -> None:
    def make() -> Failed:
        failed = Failed()
        for _ in range(ticks):
            failed.tick()
        return failed

    stop_at_every_call(make, moment, how)


def test_two_workers_that_both_believe_to_hold_the_lease_record_one_explanation() -> None:
    """All orders of their calls: a HEAD, two GETs, a write."""
    for turns in combinations(range(8), 4):
        failed = Failed()
        row = failed.runs.get(RUN)
        assert row

        def explain(wrap: Any, failed: Failed = failed, row: RunRow = row) -> bool:
            world = failed.world
            usual = UsualLines(world.store, world.layout, failed.runs, world.clock)
            explainer = ScheduledExplainer(wrap(world.store), world.layout, wrap(failed.runs), usual)
            return explainer.explain(row, None, pytest.fail, failed.world.deadline())

        one, two = Actor("one", explain), Actor("two", explain)
        for turn in range(8):
            (one if turn in turns else two).step()
        assert one.result and two.result and one.done and two.done
        failed.settle()
        failed.check()
