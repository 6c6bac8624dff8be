"""Handlers that fail: retries, dead letters, disabling and enabling; other handlers are unaffected."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from chalicelib.errors import DamagedLogError, StoreUnavailableError
from chalicelib.pipelines.configuration import PipelineFile
from chalicelib.pipelines.dead_letters import dead_key, dead_prefixes
from chalicelib.pipelines.pipeline_state import DISABLED, FAILED, REPLAYING, HandlerState, PipelineStateStore
from chalicelib.pipelines.worker import Worker
from chalicelib.ports import Key, Put, Run
from chalicelib.runlog.log_end import list_all
from chalicelib.runlog.reader import LogRange
from tests.pipelines_harness import RECORDS, START_MS, PipelinesHarness, RecordingHandler, line, pipeline, pipeline_of

A, B = Run("svc.a", "r1"), Run("svc.b", "r1")


@pytest.fixture
def world() -> Iterator[PipelinesHarness]:
    RecordingHandler.forget()
    Swallows.forget()
    yield PipelinesHarness()
    RecordingHandler.forget()


class Swallows(logging.Handler):
    """Like the handlers of the standard library: exceptions of ``emit`` go to ``handleError``."""

    failures = 0
    kept: list[str] = []  # noqa: RUF012

    def emit(self, record: logging.LogRecord) -> None:
        try:
            if type(self).failures and "bad" in record.getMessage():
                type(self).failures -= 1
                raise OSError("disk full")
            self.kept.append(record.getMessage())
        except Exception:
            self.handleError(record)

    @classmethod
    def forget(cls) -> None:
        cls.failures, cls.kept = 0, []


def poison(text: str, error: Callable[[], BaseException]) -> Callable[[logging.LogRecord], None]:
    def fail(record: logging.LogRecord) -> None:
        if text in record.getMessage():
            raise error()

    return fail


def run_whole(world: PipelinesHarness, file: PipelineFile, texts: list[str], **changes: Any) -> Worker:
    world.write(A, [line(START_MS + at, text) for at, text in enumerate(texts)])
    world.end(A)
    worker = world.worker(file, **changes)
    worker.start()
    world.work(worker)
    return worker


def with_handler(cls: str, **errors: int) -> PipelineFile:
    handlers = {"bad": {"class": cls}, "good": {"class": RECORDS, "to": "good"}}
    return pipeline_of(handlers, errors=errors)


@pytest.mark.behavior("An event that a handler cannot process is stored with its reason, and the next is processed.")
@pytest.mark.parametrize("error", [lambda: ValueError("no number"), lambda: SystemExit(7)], ids=["throws", "sys.exit"])
def test_a_poison_event_is_put_away_with_its_reason_and_the_next_is_delivered(
    world: PipelinesHarness, error: Callable[[], BaseException]
) -> None:
    RecordingHandler.fails["a"] = poison("two", error)
    worker = run_whole(world, pipeline(to=("a", "b"), errors={"retries": 2}), ["one", "two", "three"])
    assert RecordingHandler.messages("a") == ["one", "three"]
    assert RecordingHandler.messages("b") == ["one", "two", "three"]
    [letter] = world.dead_letters()
    assert letter["handler"] == "a" and letter["pipeline"] == "test" and letter["attempts"] == 3
    assert letter["reason"].startswith(type(error()).__name__)
    assert letter["event"] == {
        "fqn": "svc.a", "run_id": "r1", "line": 1, "time_ms": START_MS + 1, "logger": "app", "level": "INFO", "message": "two",
    }  # fmt: skip
    assert [found.key for found in list_all(world.store, "_dead/")] == ["_dead/svc.a/r1/test/a/0000000001.json"]
    assert worker.delivery.budget.total["a"] == 3
    worker.stop()


class Damaged:
    """Logs, one of them damaged from a byte on."""

    def __init__(self, world: PipelinesHarness, run: Run, byte: int = 0) -> None:
        self._logs, self._run, self._byte = world.parts().reader, run, byte

    def read_range(self, run: Run, start: int, length: int) -> LogRange:
        if run == self._run and start >= self._byte:
            raise DamagedLogError("damaged")
        return self._logs.read_range(run, start, length)


def session(world: PipelinesHarness, file: PipelineFile, logs: Damaged | None = None, **changes: Any) -> Worker:
    """A worker from its start to its stop, a minute after the one before."""
    world.clock.advance(60)
    worker = world.worker(file, **({"logs": logs} if logs else {}), **changes)
    worker.start()
    world.work(worker)
    worker.stop()
    return worker


@pytest.mark.parametrize("sessions", [1, 3])
def test_a_run_that_is_damaged_at_its_first_read_is_processed_once_it_is_mended(world: PipelinesHarness, sessions: int) -> None:
    for run, text in ((A, "a"), (B, "b")):
        world.write(run, [line(START_MS, text)])
        world.end(run)
    for _ in range(sessions):
        session(world, pipeline(), Damaged(world, B))
        world.runs.mark_retired(B, 99)  # not in the activity index any more
    assert RecordingHandler.messages() == ["a"]
    worker = session(world, pipeline())
    assert RecordingHandler.messages() == ["a", "b"] and not worker.checkpoints.active()
    session(world, pipeline())
    assert RecordingHandler.messages() == ["a", "b"]


def test_a_run_that_is_damaged_during_a_replay_is_replayed_once_it_is_mended(world: PipelinesHarness) -> None:
    world.write(B, [line(START_MS, "b")])
    world.end(B)
    session(world, pipeline())
    world.runs.mark_retired(B, 99)
    PipelineStateStore(world.database, world.clock).replay("test", START_MS, START_MS)
    session(world, pipeline(), Damaged(world, B))
    assert RecordingHandler.messages() == ["b"]
    session(world, pipeline())
    assert RecordingHandler.messages() == ["b", "b"]


def test_a_run_that_is_damaged_midway_goes_on_there_once_it_is_mended(world: PipelinesHarness) -> None:
    """The events before the damage are committed together with the handlers' rows."""
    texts = [f"{number} {'x' * 2000}" for number in range(12)]
    world.write(A, [line(START_MS + 4000 * at, text) for at, text in enumerate(texts)])
    world.end(A)
    file = pipeline(properties={"fetch_bytes": 4096})
    session(world, file, Damaged(world, A, 8000))
    came = len(RecordingHandler.messages())
    assert 0 < came < 12
    session(world, file)
    assert RecordingHandler.messages() == texts


def test_an_error_that_passes_is_tried_again(world: PipelinesHarness) -> None:
    left = [2]

    def fail(record: logging.LogRecord) -> None:
        if left[0]:
            left[0] -= 1
            raise OSError("for now")

    RecordingHandler.fails["all"] = fail
    run_whole(world, pipeline(), ["one", "two"])
    assert RecordingHandler.messages() == ["one", "two"]
    assert world.dead_letters() == []


@pytest.mark.behavior("Errors that a handler hides are counted and retried.")
def test_swallowed_errors_are_seen_counted_and_tried_again(world: PipelinesHarness) -> None:
    Swallows.failures = 2
    worker = run_whole(world, with_handler(f"{__name__}.Swallows"), ["one", "bad", "three"])
    assert Swallows.kept == ["one", "bad", "three"]
    assert worker.delivery.budget.total["bad"] == 2
    assert world.dead_letters() == []


def test_swallowed_errors_end_in_a_dead_letter_too(world: PipelinesHarness) -> None:
    Swallows.failures = 1000
    run_whole(world, with_handler(f"{__name__}.Swallows", retries=1), ["one", "bad", "three"])
    assert Swallows.kept == ["one", "three"]
    assert RecordingHandler.messages("good") == ["one", "bad", "three"]
    assert [(each["handler"], each["reason"]) for each in world.dead_letters()] == [("bad", "OSError: disk full")]


def test_errors_of_a_handler_behind_another_count_for_that_one_and_lose_nothing(world: PipelinesHarness) -> None:
    Swallows.failures = 1
    handlers = {
        "m": {"class": "logging.handlers.MemoryHandler", "capacity": 100, "target": "s"},
        "s": {"class": f"{__name__}.Swallows"},
    }
    file = pipeline(logging={"version": 1, "handlers": handlers, "root": {"handlers": ["m"]}})
    worker = run_whole(world, file, ["one", "bad", "three"])
    assert sorted(Swallows.kept) == ["bad", "one", "three"]
    assert worker.delivery.budget.total == {"m": 1}


@pytest.mark.behavior("A handler with too many errors is disabled, and the others continue.")
def test_over_the_budget_the_handler_is_disabled_with_reason_and_place_and_its_siblings_go_on(world: PipelinesHarness) -> None:
    RecordingHandler.fails["a"] = poison("bad", lambda: OSError("down"))
    texts = ["one", *[f"bad {number}" for number in range(5)], "last"]
    worker = run_whole(world, pipeline(to=("a", "b"), errors={"max": 3, "retries": 1}), texts)
    worker.stop()
    assert RecordingHandler.messages("b") == texts
    assert RecordingHandler.messages("a") == ["one"]
    _, handlers = PipelineStateStore(world.database, world.clock).read("test")
    switch = handlers["a"]
    assert (switch.state, switch.reason, switch.run, switch.line) == (DISABLED, "OSError: down", "svc.a/r1", 2)
    assert switch.since_ms >= START_MS
    assert [each["handler"] for each in world.told if "disabled" in each["message"]] == ["a"]


def test_own_errors_of_a_handler_replace_those_of_the_pipeline(world: PipelinesHarness) -> None:
    """One that tolerates less is disabled before its sibling, one that tolerates more after it, and a window alone keeps ``max``."""
    own = {"strict": {"max": 1}, "usual": {"window_s": 300}, "patient": "cfg://limits", "plain": None}
    handlers = {name: {"class": RECORDS, "to": name, **({"errors": each} if each else {})} for name, each in own.items()}
    logging_ = {"version": 1, "handlers": handlers, "root": {"handlers": list(own)}, "limits": {"max": 5}}
    for name in own:
        RecordingHandler.fails[name] = poison("", lambda: OSError("down"))
    world.write(A, [line(START_MS + at, f"e{at}") for at in range(8)])
    world.end(A)
    worker = world.worker(pipeline(logging=logging_, errors={"max": 2, "retries": 0, "window_s": 1}))
    worker.start()
    world.work(worker)
    worker.stop()
    assert worker.delivery.budget.total == {"strict": 2, "usual": 3, "patient": 6, "plain": 3}
    assert worker.delivery.handler_errors["patient"].window_s == 1 and "plain" not in worker.delivery.handler_errors


def test_errors_that_are_long_ago_do_not_count(world: PipelinesHarness) -> None:
    worker = world.worker(pipeline(errors={"max": 2, "window_s": 10}))
    worker.start()
    budget = worker.delivery.budget
    assert [budget.spend("all", at) for at in (0, 5000, 10_000, 12_000, 14_000)] == [False, False, False, True, True]
    worker.stop()


@pytest.mark.behavior("A handler that is enabled again gets the events that it missed.")
def test_a_disabled_handler_stays_so_and_when_enabled_gets_what_it_missed(world: PipelinesHarness) -> None:
    RecordingHandler.fails["a"] = poison("", lambda: OSError("down"))
    file = pipeline(to=("a", "b"), errors={"max": 1, "retries": 0})
    run_whole(world, file, ["one", "two", "three"]).stop()
    world.write(B, [line(START_MS, "more")])
    world.end(B)
    worker = world.worker(file, owner="w2")
    worker.start()
    world.work(worker)
    worker.stop()
    assert RecordingHandler.messages("a") == []
    assert RecordingHandler.messages("b") == ["one", "two", "three", "more"]
    RecordingHandler.fails.clear()
    PipelineStateStore(world.database, world.clock).set_handler("test", HandlerState("a", REPLAYING))
    worker = world.worker(file, owner="w3")
    worker.start()
    world.work(worker)
    worker.stop()
    assert sorted(RecordingHandler.messages("a")) == ["more", "one", "three", "two"]
    assert RecordingHandler.messages("b") == ["one", "two", "three", "more"]
    world.clock.advance(20)
    worker = world.worker(file, owner="w4")
    worker.start()
    world.work(worker)
    worker.stop()
    assert len(RecordingHandler.messages("a")) == 4
    assert PipelineStateStore(world.database, world.clock).read("test")[1] == {}


B = Run("svc.b", "r1")


def test_a_handler_that_cannot_start_is_told_the_others_go_on_and_later_it_gets_what_it_missed(world: PipelinesHarness) -> None:
    handlers = {"late": {"class": "tests.no.such.Handler"}, "good": {"class": RECORDS, "to": "good"}}
    run_whole(world, pipeline_of(handlers), ["one", "two"]).stop()
    assert RecordingHandler.messages("good") == ["one", "two"]
    assert [each["handler"] for each in world.told if "could not be started" in each["message"]] == ["late"]
    assert PipelineStateStore(world.database, world.clock).read("test")[1]["late"].state == FAILED
    handlers["late"] = {"class": RECORDS, "to": "late"}
    worker = world.worker(pipeline_of(handlers), owner="w2")
    worker.start()
    world.work(worker)
    worker.stop()
    assert RecordingHandler.messages("late") == ["one", "two"]
    assert RecordingHandler.messages("good") == ["one", "two"]


class Rows(logging.Handler):
    """Its rows are ``rows``; its level is set to a text at the first event if there are none."""

    rows: list[Any] = []  # noqa: RUF012

    def emit(self, record: logging.LogRecord) -> None:
        if not self.rows:
            self.level = "INFO"  # type: ignore[assignment]

    def pending_writes(self) -> list[Any]:
        return self.rows

    def committed(self) -> None: ...


def row_of(number: int, value: object = 1) -> Put:
    return Put(Key("files", "rows", str(number)), {"key": "rows", "at": str(number), "value": value})


NESTED: list[Any] = []
for _ in range(32):
    NESTED = [NESTED]


@pytest.mark.behavior("Rows of a handler that the store would refuse concern no other handler.")
@pytest.mark.parametrize(
    ("rows", "reason"),
    [
        ([], "TypeError"),
        (["no row"], "must be a Put, Delete or Check type=str"),
        ([row_of(number) for number in range(91)], "a handler may add 90 rows to a checkpoint, all handlers 95 rows=91"),
        ([row_of(1), row_of(1)], "a row is written twice"),
        ([row_of(1, "x" * 400_000)], "must have at most 399360 bytes"),
        *(
            ([row_of(1, value)], f"cannot be stored type={type(inner).__name__}")
            for value, inner in ((0.5, 0.5), ([object()], object()), ({"a": 10**38}, 1), (NESTED, NESTED))
        ),
    ],
)
def test_handler_of_invalid_rows_is_disabled_and_its_siblings_go_on(
    world: PipelinesHarness, monkeypatch: pytest.MonkeyPatch, rows: list[Any], reason: str
) -> None:
    monkeypatch.setattr(Rows, "rows", rows)
    worker = run_whole(world, with_handler(f"{__name__}.Rows", max=2, retries=0), ["one", "two", "three", "four"])
    for _ in range(5):
        world.clock.advance(30)
        world.work(worker)
    worker.stop()
    assert RecordingHandler.messages("good") == ["one", "two", "three", "four"]
    state = PipelineStateStore(world.database, world.clock).read("test")[1]["bad"]
    assert state.state == DISABLED and reason in state.reason
    assert worker.checkpoints.find([A])[A].position.line == 4


def test_flush_comes_after_every_batch_also_an_empty_one(world: PipelinesHarness) -> None:
    worker = world.worker(pipeline())
    worker.start()
    for _ in range(3):
        worker.step()
    assert RecordingHandler.flushes["all"] == [0, 0, 0]
    worker.stop()


def test_a_failed_flush_blocks_the_checkpoint_and_is_tried_again(world: PipelinesHarness) -> None:
    failing = [True]

    def fail() -> None:
        if failing[0]:
            raise OSError("no space")

    RecordingHandler.fail_flush["all"] = fail
    worker = run_whole(world, pipeline(), ["one"])
    for _ in range(3):
        world.clock.advance(11)
        worker.step()
    assert [row["at"] for row in world.database.rows("pipelines") if row["at"] == "status"] == []
    assert worker.checkpoints.active() == {}
    warnings = [each for each in world.told if "could not be flushed" in each.pop("message")]
    assert warnings == [{"pipeline": "test", "handlers": ["all"], "error": "OSError: no space"}] * 4
    failing[0] = False
    world.clock.advance(11)
    worker.step()
    worker.stop()
    assert next(iter(worker.checkpoints.find([A]).values())).position.line == 1
    assert RecordingHandler.messages() == ["one"]


def test_every_checkpoint_comes_behind_a_flush(world: PipelinesHarness) -> None:
    events: list[str] = []
    RecordingHandler.fail_flush["all"] = lambda: events.append("flush")
    transact = world.database.transact
    world.database.transact = lambda writes: (events.append("commit"), transact(writes))[1]  # type: ignore[method-assign, func-returns-value]
    worker = run_whole(world, pipeline(), ["one"])
    worker.stop()
    commits = [at for at, event in enumerate(events) if event == "commit"][1:]  # the first takes the pipeline over
    assert commits and events[commits[0] - 1] == "flush"


@pytest.mark.behavior("Processing continues while checkpoints cannot be stored.")
def test_a_checkpoint_outage_never_stops_processing_and_an_idle_pipeline_persists_it_afterwards(world: PipelinesHarness) -> None:
    worker = world.worker(pipeline())
    worker.start()
    transact, world.database.transact = world.database.transact, _away  # type: ignore[method-assign]
    for number in range(5):
        world.write(A, [line(START_MS + number, f"line {number}")])
        world.clock.advance(15)
        worker.step()
    assert RecordingHandler.messages() == [f"line {number}" for number in range(5)]
    assert len([each for each in world.told if "a checkpoint failed" in each["message"]]) >= 4
    world.database.transact = transact  # type: ignore[method-assign]
    world.clock.advance(15)
    worker.step()
    assert worker.checkpoints.active()[A].position.line == 5


def _away(writes: Any) -> None:
    raise StoreUnavailableError("the database is away")


def test_a_dead_letter_that_cannot_be_written_is_not_lost(world: PipelinesHarness) -> None:
    RecordingHandler.fails["all"] = poison("two", lambda: ValueError("no"))
    put = world.store.put
    world.write(A, [line(START_MS + at, text) for at, text in enumerate(["one", "two", "three"])])
    world.end(A)
    worker = world.worker(pipeline(errors={"retries": 0}))
    worker.start()
    world.store.put = _away_put  # type: ignore[method-assign]
    with pytest.raises(StoreUnavailableError):
        worker.step()
    world.store.put = put  # type: ignore[method-assign]
    world.work(worker)
    worker.stop()
    assert RecordingHandler.messages() == ["one", "three"]
    assert [each["event"]["message"] for each in world.dead_letters()] == ["two"]


def _away_put(*_: Any, **__: Any) -> str:
    raise StoreUnavailableError("the bucket is away")


LONG = Run("svc.a", "r" * 979)


def test_long_run_id_still_gets_a_dead_letter(world: PipelinesHarness) -> None:
    world.layout.check_new(LONG)  # as long as a run's names may be
    handler = "rolling_s3_files"
    world.write(LONG, [line(START_MS, "bad"), line(START_MS + 5, "good")])
    world.write(B, [line(START_MS + 9, "of another run")])
    keys: list[str] = []
    put = world.store.put

    def limited(key: str, *arguments: Any, **options: Any) -> str:
        keys.append(key)
        if len(key.encode()) > 1024:
            raise StoreUnavailableError("KeyTooLongError")
        return put(key, *arguments, **options)

    world.store.put = limited  # type: ignore[method-assign]
    RecordingHandler.fails[handler] = poison("bad", lambda: ValueError("no"))
    worker = world.worker(pipeline("openmetadata-audit", to=(handler,), errors={"retries": 1}))
    worker.start()
    world.clock.advance(60)
    world.work(worker)
    assert RecordingHandler.messages(handler) == ["good", "of another run"]
    [letter] = world.dead_letters()
    assert letter["event"]["run_id"] == LONG.run_id
    assert next(key for key in keys if key.startswith("_dead/")).startswith(dead_prefixes(LONG)[-1])


@given(st.integers(1, 1500), st.text(min_size=1, max_size=600), st.text(min_size=1, max_size=600), st.integers(0, 10**15))
def test_dead_letter_keys_fit_and_stand_below_a_prefix_of_their_run(length: int, fqn: str, handler: str, at: int) -> None:
    assume(not any("\ud800" <= letter <= "\udfff" for letter in fqn))
    run = Run(fqn, "r" * length)
    key = dead_key("p" * 100, handler, run, at)
    assert len(key.encode()) <= 1024
    assert any(key.startswith(prefix) for prefix in dead_prefixes(run))
    assert key.endswith(f"/{at:010d}.json")


def test_long_names_have_dead_letters_of_their_own() -> None:
    runs = [Run(fqn, run_id) for fqn in ("f" * 900, "f" * 901) for run_id in ("r" * 900, "r" * 901)]
    handlers = ["h" * 900, "h" * 901]
    assert len({dead_key("p", handler, run, 0) for run in runs for handler in handlers}) == 8
    assert len({prefix for run in runs for prefix in dead_prefixes(run)}) == 4


def test_short_names_keep_their_readable_key() -> None:
    run = Run("svc.a", "r" * 900)
    assert dead_key("test", "a", run, 1) == f"_dead/svc.a/{'r' * 900}/test/a/0000000001.json"
    assert dead_prefixes(run)[0] == f"_dead/svc.a/{'r' * 900}/"


def test_outage_of_the_catalog_does_not_stop_runs_in_hand(world: PipelinesHarness) -> None:
    world.write(A, [line(START_MS, "one"), line(START_MS + 1, "two")])
    worker = world.worker(pipeline())
    worker.start()
    worker.step()
    assert RecordingHandler.messages() == []
    active = world.runs.active
    world.runs.active = _away_put  # type: ignore[method-assign, assignment]
    world.clock.advance(15)
    for _ in range(2):
        with pytest.raises(StoreUnavailableError):
            worker.step()
    assert RecordingHandler.messages() == ["one", "two"]
    assert worker.checkpoints.active()[A].position.line == 2
    world.runs.active = active  # type: ignore[method-assign]
    world.write(A, [line(START_MS + 9, "three")])
    world.clock.advance(15)
    world.work(worker)
    worker.stop()
    assert RecordingHandler.messages() == ["one", "two", "three"]
