"""Pipelines in parallel: no behaviour of a handler affects another pipeline or the caller."""

from __future__ import annotations

import logging
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from chalicelib.coordination import InMemoryPartitionStore, SourceCoordinator, WorkSource
from chalicelib.deadline import Deadline
from chalicelib.pipelines.allowed_modules import AllowedModules
from chalicelib.pipelines.configuration import PipelineFile, parse_pipeline_file
from chalicelib.pipelines.delivery import Progress
from chalicelib.pipelines.pipeline_state import DISABLED, HandlerState, PipelineStateStore
from chalicelib.pipelines.supervisor import Assignment, CallWatchdog, PipelineOutcome, Supervisor
from chalicelib.pipelines.worker import Worker
from chalicelib.ports import Run
from tests.pipelines_harness import MODULES, RECORDS, START_MS, PipelinesHarness, RecordingHandler, line, pipeline
from tests.support.clock import ManualClock

A = Run("svc.a", "r1")
RELEASE = threading.Event()


class Blocks(logging.Handler):
    """Returns when the test lets it."""

    def emit(self, record: logging.LogRecord) -> None:
        if not RELEASE.wait(60):
            raise TimeoutError


class BlocksWhenBuilt(logging.Handler):
    """Its constructor returns when the test lets it."""

    def __init__(self) -> None:
        RELEASE.wait(60)
        super().__init__()


class BlocksWhenClosed(logging.Handler):
    """Its ``close`` returns when the test lets it."""

    def close(self) -> None:
        RELEASE.wait(60)


class BlocksInRows(logging.Handler):
    """Returns its rows when the test lets it."""

    def emit(self, record: logging.LogRecord) -> None: ...

    def pending_writes(self) -> list[Any]:
        RELEASE.wait(60)
        return []

    def committed(self) -> None: ...


BLOCKS_WHEN_IMPORTED = f"from {__name__} import RELEASE, Blocks\nRELEASE.wait(60)\nclass Handler(Blocks): ...\n"


class Exits(logging.Handler):
    """Each of its methods calls ``sys.exit``."""

    def handle(self, record: logging.LogRecord) -> bool:
        sys.exit(3)

    def flush(self) -> None:
        sys.exit(4)

    def close(self) -> None:
        sys.exit(5)


class Leaks(logging.Handler):
    """Never releases memory."""

    bytes = 0

    def handle(self, record: logging.LogRecord) -> bool:
        type(self).bytes += 1_000_000
        return True


class PanicError(BaseException):
    """As libraries define them to end a thread: ``asyncio.CancelledError``, ``gevent.Timeout``, a panic of Rust code."""


def panic(self: logging.Handler, *_: Any) -> None:
    raise PanicError("no way on")


class Panics(logging.Handler):
    handle = panic  # type: ignore[assignment]


class PanicsWhenBuilt(logging.Handler):
    __init__ = panic


class PanicsWhenFlushed(Leaks):
    flush = panic


class PanicsWhenClosed(Leaks):
    close = panic


class Stops:
    """The wait of a test's heartbeat: until it is stopped."""

    def __init__(self) -> None:
        self._event = threading.Event()

    def wait(self, timeout: float) -> bool:
        return self._event.wait(30)

    def set(self) -> None:
        self._event.set()


@pytest.fixture
def world() -> Iterator[PipelinesHarness]:
    RecordingHandler.forget()
    RELEASE.clear()
    Leaks.bytes = 0
    yield PipelinesHarness()
    RELEASE.set()
    RecordingHandler.forget()


def ill(cls: str, name: str = "ill", **sections: Any) -> PipelineFile:
    named = cls if "." in cls else f"{__name__}.{cls}"
    handlers = {"bad": {"class": named}, "good": {"class": RECORDS, "to": f"{name} good"}}
    logging_ = {"version": 1, "handlers": handlers, "root": {"handlers": ["good", "bad"]}} | sections.pop("logging", {})
    modules = AllowedModules((*MODULES.added, "blocks_when_imported"))
    return parse_pipeline_file(yaml.safe_dump({"name": name, "logging": logging_, **sections}), name, modules=modules)


def supervisor(world: PipelinesHarness, **changes: Any) -> Supervisor:
    def make(share: Assignment, fence: Any, owner: str) -> Worker:
        return world.worker(share.file, fence=fence, owner=owner, shard=share.shard)

    def pause(seconds: float) -> None:
        threading.Event().wait(0.001)
        world.clock.advance(seconds / 20)

    coordinator = SourceCoordinator(
        InMemoryPartitionStore(), WorkSource("pipelines"), world.clock, lambda *_: None, stop_factory=Stops
    )
    given = {"until_idle": True, "pause": pause} | changes
    return Supervisor(coordinator, PipelineStateStore(world.database, world.clock), make, world.clock, world_tell(world), **given)


def world_tell(world: PipelinesHarness) -> Callable[..., None]:
    return lambda message, **facts: world.told.append({"message": message, **facts})


def logs(world: PipelinesHarness, count: int = 3) -> list[str]:
    texts = [f"line {number}" for number in range(count)]
    world.write(A, [line(START_MS + at, text) for at, text in enumerate(texts)])
    world.end(A)
    return texts


def test_each_pipeline_is_worked_and_its_lease_given_back(world: PipelinesHarness) -> None:
    texts = logs(world)
    outcome = supervisor(world).run([pipeline("one", to=["1"]), pipeline("two", to=["2"])], world.deadline(600))
    assert outcome == {"one": PipelineOutcome.STOPPED, "two": PipelineOutcome.STOPPED}
    assert RecordingHandler.messages("1") == RecordingHandler.messages("2") == texts


@pytest.mark.behavior("A handler that blocks is disabled and delays no other pipeline.")
@pytest.mark.slow
@pytest.mark.parametrize("cls", ["Blocks", "BlocksWhenBuilt", "BlocksWhenClosed", "BlocksInRows", "blocks_when_imported.Handler"])
def test_a_handler_that_blocks_is_disabled_and_stops_no_other(
    world: PipelinesHarness, cls: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "blocks_when_imported.py").write_text(BLOCKS_WHEN_IMPORTED)
    monkeypatch.syspath_prepend(tmp_path)
    texts = logs(world)
    file, well = ill(cls), pipeline("well", to=["well"])
    outcome = supervisor(world).run([file, well], world.deadline(600))
    assert outcome == {"ill": PipelineOutcome.BLOCKED, "well": PipelineOutcome.STOPPED}
    assert RecordingHandler.messages("well") == texts
    switch = PipelineStateStore(world.database, world.clock).read("ill")[1]["bad"]
    assert (switch.state, switch.reason) == (DISABLED, "blocked: it did not come back for 60 s")
    # The next tick continues without it; the thread that is still blocked cannot commit anything when it returns.
    outcome = supervisor(world).run([file], world.deadline(600))
    assert outcome == {"ill": PipelineOutcome.STOPPED}
    assert RecordingHandler.messages("ill good")[-3:] == texts
    stored = world.database.rows("pipelines")
    RELEASE.set()
    for thread in threading.enumerate():
        if thread.name.startswith("pipeline"):
            thread.join(10)
    assert world.database.rows("pipelines") == stored


@pytest.mark.behavior("A handler that raises any error stops no other handler.")
@pytest.mark.parametrize("cls", ["Panics", "PanicsWhenBuilt", "PanicsWhenFlushed", "PanicsWhenClosed"])
def test_handler_whose_error_ends_the_thread_is_disabled(world: PipelinesHarness, cls: str) -> None:
    """Otherwise each further worker of the pipeline would end at the same event."""
    texts = logs(world)
    file, well = ill(cls), pipeline("well", to=["well"])
    outcome = supervisor(world).run([file, well], world.deadline(600))
    assert outcome == {"ill": PipelineOutcome.FAILED, "well": PipelineOutcome.STOPPED}
    assert RecordingHandler.messages("well") == texts
    disabled = PipelineStateStore(world.database, world.clock).read("ill")[1]["bad"]
    assert (disabled.state, disabled.reason) == (DISABLED, "PanicError: no way on")
    assert supervisor(world).run([file], world.deadline(600)) == {"ill": PipelineOutcome.STOPPED}
    assert RecordingHandler.messages("ill good")[-3:] == texts


@pytest.mark.parametrize(("cls", "lost"), [("Leaks", False), ("Panics", True)])
def test_worker_that_ends_by_an_error_makes_no_last_checkpoint(
    world: PipelinesHarness, cls: str, lost: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    logs(world)
    stops: list[bool] = []
    monkeypatch.setattr(Worker, "stop", lambda _, *, lost=False: stops.append(lost))
    supervisor(world).run([ill(cls)], world.deadline(600))
    assert stops == [lost]


def test_formatter_or_filter_that_blocks_stops_its_pipeline_alone(world: PipelinesHarness) -> None:
    """None of them can be left out, so the pipeline is not started again and again: each start costs a thread."""
    texts = logs(world)
    file = ill("Leaks", logging={"filters": {"f": {"()": f"{__name__}.BlocksWhenBuilt"}}})
    outcome = supervisor(world, forever=True, until_idle=False).run([file, pipeline("well", to=["well"])], world.deadline(120))
    assert outcome == {"ill": PipelineOutcome.BLOCKED, "well": PipelineOutcome.STOPPED}
    assert RecordingHandler.messages("well") == texts
    assert [each["handler"] for each in world.told if "blocks" in each["message"]] == ["formatters and filters"]
    assert PipelineStateStore(world.database, world.clock).read("ill")[1] == {}


@pytest.mark.slow
def test_a_pipeline_that_goes_on_for_ever_is_begun_again_without_the_handler_that_blocks(world: PipelinesHarness) -> None:
    texts = logs(world)
    made = supervisor(world, forever=True, until_idle=False)
    seen = threading.Event()

    def tell(message: str, **facts: Any) -> None:
        world.told.append({"message": message, **facts})

    made.warn = tell
    pause = made.pause
    assert pause is not None

    def watched(seconds: float) -> None:
        if len(RecordingHandler.messages("ill good")) >= 1 + len(texts):
            seen.set()
            made.stopping.set()
        pause(seconds)

    made.pause = watched
    made.run([ill("Blocks")], world.deadline(10_000))
    assert seen.is_set()
    assert RecordingHandler.messages("ill good") == [texts[0], *texts]


@pytest.mark.parametrize("cls", ["Exits", "Leaks"])
def test_a_handler_that_exits_or_leaks_stops_nobody(world: PipelinesHarness, cls: str) -> None:
    texts = logs(world)
    file = ill(cls, errors={"max": 2, "retries": 0})
    outcome = supervisor(world).run([file, pipeline("well", to=["well"])], world.deadline(600))
    assert outcome == {"ill": PipelineOutcome.STOPPED, "well": PipelineOutcome.STOPPED}
    assert RecordingHandler.messages("well") == RecordingHandler.messages("ill good") == texts


def test_where_memory_runs_out_all_stop_in_good_order(world: PipelinesHarness) -> None:
    texts = logs(world)
    made = supervisor(
        world, until_idle=False, is_short=lambda: Leaks.bytes >= 3_000_000 and len(RecordingHandler.messages("well")) == 3
    )
    outcome = made.run([ill("Leaks"), pipeline("well", to=["well"])], world.deadline(10_000))
    assert set(outcome.values()) == {PipelineOutcome.STOPPED}
    assert made.was_short
    again = supervisor(world).run([pipeline("well", to=["well"])], world.deadline(600))
    assert again == {"well": PipelineOutcome.STOPPED}
    assert RecordingHandler.messages("well") == texts  # nothing twice: it was checkpointed


def test_a_pipeline_that_cannot_be_built_stops_no_other(world: PipelinesHarness) -> None:
    texts = logs(world)
    bad = {
        "version": 1,
        "filters": {"f": {"()": "tests.no.such"}},
        "handlers": {"h": {"class": RECORDS}},
        "root": {"handlers": ["h"]},
    }
    broken = pipeline("broken", logging=bad)
    outcome = supervisor(world).run([broken, pipeline("well", to=["well"])], world.deadline(600))
    assert outcome == {"broken": PipelineOutcome.FAILED, "well": PipelineOutcome.STOPPED}
    assert RecordingHandler.messages("well") == texts


def test_a_pipeline_that_is_switched_off_is_left_alone(world: PipelinesHarness) -> None:
    logs(world)
    PipelineStateStore(world.database, world.clock).set_enabled("off", False)
    assert supervisor(world).run([pipeline("off")], world.deadline(600)) == {"off": PipelineOutcome.DISABLED}
    assert RecordingHandler.messages() == []


def test_pipeline_that_another_worker_has_leased_is_busy(world: PipelinesHarness) -> None:
    logs(world)
    made = supervisor(world)
    made.coordinator.initialize()
    made.coordinator.acquire("test")
    other = Supervisor(made.coordinator, made.states, made.make, world.clock, made.warn, until_idle=True, pause=made.pause)
    assert other.run([pipeline()], world.deadline(600)) == {"test": PipelineOutcome.BUSY}


def test_an_operators_change_takes_effect_while_it_runs(world: PipelinesHarness) -> None:
    worker = world.worker(pipeline(to=("a", "b")))
    worker.start()
    PipelineStateStore(world.database, world.clock).set_handler("test", HandlerState("a", DISABLED, "by an operator"))
    world.clock.advance(11)
    worker.step()
    assert worker.wants_restart
    PipelineStateStore(world.database, world.clock).set_handler("test", HandlerState("a", ""))
    worker.stop()
    assert worker.wants_restart, "a change back has it started anew as well: it has stopped"


def test_watchdog_uses_its_own_clock() -> None:
    clock, progress = ManualClock(), Progress()
    watch = CallWatchdog(clock, 60)
    assert watch.blocked(progress) == ""
    progress.calling, progress.calls = "h", 1
    assert watch.blocked(progress) == ""
    clock.advance(59)
    assert watch.blocked(progress) == ""
    progress.calls = 2
    assert watch.blocked(progress) == ""
    clock.advance(60)
    assert watch.blocked(progress) == "h"
    progress.calling = ""
    assert watch.blocked(progress) == ""


def test_work_ends_before_the_deadline(world: PipelinesHarness) -> None:
    deadline = Deadline(world.clock, 30)
    assert supervisor(world, until_idle=False).run([pipeline()], deadline) == {"test": PipelineOutcome.STOPPED}
    assert deadline.remaining_s() > 0


def test_a_replay_from_a_time_gives_again_what_is_not_older(world: PipelinesHarness) -> None:
    texts = logs(world)
    supervisor(world).run([pipeline()], world.deadline(600))
    PipelineStateStore(world.database, world.clock).replay("test", START_MS + 1, START_MS + 99)
    supervisor(world).run([pipeline()], world.deadline(600))
    assert RecordingHandler.messages() == [*texts, *texts[1:]]
    supervisor(world).run([pipeline()], world.deadline(600))
    assert RecordingHandler.messages() == [*texts, *texts[1:]]
