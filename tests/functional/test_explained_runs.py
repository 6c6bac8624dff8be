"""Explanations of failed runs in the background: when, from where, how far, and what they never delay."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

import app
from chalicelib import composition
from chalicelib.catalog.runs import EXPLAIN_WITHIN_MS, RunRow
from chalicelib.composition import EXPLANATION
from chalicelib.coordination import Status
from chalicelib.deadline import Deadline
from chalicelib.errors import StoreUnavailableError
from chalicelib.explanation import run_explainer, usual_lines
from chalicelib.explanation.explainer import Explainer
from chalicelib.explanation.explanation import MAX_BYTES, CauseCandidate, Explanation, explanation_of
from chalicelib.explanation.usual_lines import UsualLines
from chalicelib.observability import metrics
from chalicelib.ports import FAILED, LOST, PutOptions, Run, RunEnd
from chalicelib.triggers import schedules
from tests.faults.interception import Call, Intercepted
from tests.functional.gateway import Context
from tests.functional.test_schedules import (
    ENOUGH_MS,
    HOUR_S,
    RUNS,
    TICK,
    Ticking,
    admin,
    compact,
    did,
    failing_for,
    keys,
    metrics_of,
)
from tests.world import World

ONE, TWO = RUNS[:2]
LOG = "begin\nERROR no space left on device\nend\n"


class Ended(Ticking):
    """A world whose runs end and are known as such."""

    def end(self, run: Run, text: str = LOG, end: RunEnd | None = RunEnd(FAILED, exit_code=1)) -> None:  # noqa: B008
        self.append(run, text)
        self.parts().finalizer.close(run, end=end)
        self.notify(run)
        self.runs.record_finalization(run, text.count("\n"), len(text), self.row(run).segments, self.clock.now_ms())

    def lose(self, run: Run) -> None:
        """The run is ended after two days without a sign of life."""
        self.clock.advance(48 * HOUR_S)
        self.parts().finalizer.abandon(run, self.clock.now_ms(), self.deadline(), lambda *_: RunEnd(LOST))
        self.notify(run)

    def row(self, run: Run) -> RunRow:
        row = self.runs.get(run)
        assert row
        return row

    def lines(self, run: Run) -> list[int] | None:
        """The line that explains a run best, if any; None if it has no explanation."""
        row = self.row(run)
        explanation = explanation_of(row.explanation) if row.is_explained else None
        return [each["line"] for each in explanation.candidates[:1]] if explanation else None


@pytest.fixture
def world() -> Ended:
    metrics.clear_metrics()  # what a test recorded outside of an invocation
    return Ended()


def unreadable(key: str) -> Callable[[str, Callable[[], Any]], Any]:
    """An object that the store never returns."""

    def gate(operation: str, call: Callable[[], Any]) -> Any:
        assert isinstance(call, Call)
        if call.arguments[0] == key:
            raise StoreUnavailableError("injected")
        return call()

    return gate


@pytest.mark.behavior("A failed run names the line that explains it, without delaying its end or other runs.")
def test_failed_run_is_explained_in_the_next_tick(world: Ended, capsys: pytest.CaptureFixture[str]) -> None:
    world.end(ONE)
    world.end(TWO, end=RunEnd("succeeded"))
    with world.installed():
        assert app.compact(TICK, Context(ENOUGH_MS)) == did(), "no compaction is due"
        assert metrics_of(capsys.readouterr().out)["om_streamable_logs_runs_explained"] == [1]
        assert (world.lines(ONE), world.lines(TWO)) == ([1], None)
        assert keys(Status.UNASSIGNED, EXPLANATION) == []
        assert compact() == did() and world.row(ONE).explained_segments == 2


NOISE = "12:00:01 ERROR rates: no answer from 10.0.0.5\n"


@pytest.mark.parametrize(
    "success", [NOISE.replace("5", "77"), "ok\n" + NOISE + "end\n" * 9, '{"level":"error","msg":"no answer"}\n' + NOISE]
)
def test_error_that_the_last_successful_run_has_too_is_below_others(world: Ended, success: str) -> None:
    world.end(ONE, "ERROR orders holds no rows\n" + NOISE)
    world.end(Run(ONE.fqn, "earlier"), success, RunEnd("succeeded"))
    world.end(Run(ONE.fqn, "removed"), success, RunEnd("succeeded"))
    world.store.delete(world.layout.logs(Run(ONE.fqn, "removed")))
    with world.installed():
        compact()
    assert world.lines(ONE) == [0]


def test_trace_that_successful_runs_have_among_others_is_below_others(world: Ended) -> None:
    trace = 'Traceback (most recent call last):\n  File "a.py", line 1, in a\n    b()\nValueError: no answer {}\n'
    world.end(ONE, "ERROR orders holds no rows\nERROR see below\n" + trace.format("x"))
    others = "".join("ok\n" * 70 + trace.format(chr(97 + number)) for number in range(20))
    world.end(Run(ONE.fqn, "earlier"), trace.format("x") + others, RunEnd("succeeded"))
    with world.installed():
        compact()
    assert world.lines(ONE) != [5]


def test_log_of_another_run_that_cannot_be_read_is_left_out(world: Ended) -> None:
    world.end(ONE, "ERROR orders holds no rows\n" + NOISE)
    archived = Run(ONE.fqn, "archived")
    world.end(archived, NOISE, RunEnd("succeeded"))
    with world.installed(unreadable(world.layout.logs(archived))):
        compact()
    assert world.lines(ONE) is not None


@pytest.mark.parametrize(("max_bytes", "pause_s", "expected"), [(20, 0, [80, 88, 96]), (200, usual_lines.MAX_S, [0])])
def test_comparison_ends_with_its_time_and_its_bytes(
    world: Ended, monkeypatch: pytest.MonkeyPatch, max_bytes: int, pause_s: float, expected: list[int]
) -> None:
    monkeypatch.setattr(usual_lines, "PIECE_BYTES", 8)
    monkeypatch.setattr(usual_lines, "MAX_BYTES", max_bytes)
    runs = [Run(ONE.fqn, f"earlier-{number}") for number in range(2)]
    for run in runs:
        world.end(run, "line\n" * 20, RunEnd("succeeded"))
    read: list[tuple[str, int]] = []

    def gate(operation: str, call: Callable[[], Any]) -> Any:
        assert isinstance(call, Call)
        if operation == "get":
            read.append((call.arguments[0], call.arguments[1]))
            world.clock.advance(pause_s)
        return call()

    assert UsualLines(Intercepted(world.store, gate), world.layout, world.runs, world.clock).of(ONE) == {"line"}
    assert [start for _, start in read] == expected and len({key for key, _ in read}) == 1


@pytest.mark.parametrize(
    ("of", "end"), [(Run(ONE.fqn, "earlier"), RunEnd(FAILED)), (Run("other.pipeline", "earlier"), RunEnd("succeeded"))]
)
def test_errors_of_runs_that_failed_or_are_of_other_pipelines_say_nothing(world: Ended, of: Run, end: RunEnd) -> None:
    world.end(ONE, "ERROR orders holds no rows\n" + NOISE)
    world.end(of, NOISE, end)
    with world.installed():
        compact()
    assert world.lines(ONE) == [1]


def test_lost_run_is_explained(world: Ended) -> None:
    world.append(ONE, LOG)
    world.lose(ONE)
    with world.installed():
        compact()  # the row becomes final
        compact()
    assert world.lines(ONE) == [1]


def test_run_is_retired_once_it_is_explained_or_cannot_be(world: Ended) -> None:
    world.end(ONE)
    world.end(TWO)
    with world.installed(unreadable(world.layout.logs(TWO))):
        world.clock.advance(22 * 60)
        assert compact() == did(), "both still await their explanations"
        assert (world.lines(ONE), world.lines(TWO)) == ([1], None)
        assert compact() == did(done=1)
        assert world.active() == {TWO}
        world.clock.advance(EXPLAIN_WITHIN_MS / 1000)
    with world.installed():
        assert compact() == did(done=1)
    assert world.active() == set() and world.lines(TWO) is None


def test_compaction_comes_first_and_explanations_wait_for_time(world: Ended) -> None:
    world.end(ONE)
    world.append(TWO, "open")
    world.notify(TWO)
    called: list[str] = []

    def gate(operation: str, call: Callable[[], Any]) -> Any:
        assert isinstance(call, Call)
        called.append(call.arguments[0])
        answer = call()
        world.clock.advance(2 if operation == "put" else 0)
        return answer

    with world.installed(gate):
        assert compact(remaining_ms=31_000) == did(done=1)
        assert world.lines(ONE) is None, "the compaction took all of the time"
        compact()
    assert world.lines(ONE) == [1]
    first = called.index(world.layout.logs(ONE))
    assert all(TWO.run_id in key for key in called[:first])


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run_explainer, "PIECE_BYTES", 10)


def slow(world: World) -> Callable[[str, Callable[[], Any]], Any]:
    """Each read of a piece takes longer than a slice of time."""

    def gate(operation: str, call: Callable[[], Any]) -> Any:
        if operation == "get":
            world.clock.advance(schedules.SLICE_S + 1)
        return call()

    return gate


@pytest.mark.usefixtures("small")
def test_long_log_is_read_over_several_ticks_with_the_same_result(world: Ended) -> None:
    text = "".join(f"ERROR number {number} ä\n" if number % 7 == 3 else f"line {number}\n" for number in range(20))
    world.end(ONE, text)
    world.end(TWO, LOG)
    ticks = 0
    with world.installed(slow(world)):
        while world.lines(ONE) is None and ticks < 50:
            compact()
            ticks += 1
            if world.lines(ONE) is None:
                assert keys(Status.UNASSIGNED, EXPLANATION)[:1] == ["svc.pipe/run-0"]
    explainer = Explainer()
    explainer.feed(text.encode())
    assert world.row(ONE).explanation == Explanation.of(explainer.candidates(RunEnd(FAILED, exit_code=1))).to_text()
    assert ticks == -(-len(text.encode()) // 10) + 1, "the last one compares it with other runs"
    assert world.lines(TWO) == [1]


@pytest.mark.usefixtures("small")
def test_failure_keeps_the_checkpoint(world: Ended) -> None:
    world.end(ONE, "".join(f"line {number}\n" for number in range(5)))
    read: list[int] = []

    def gate(operation: str, call: Callable[[], Any]) -> Any:
        if operation == "get" and isinstance(call, Call) and call.arguments[0] == world.layout.logs(ONE):
            read.append(call.arguments[1])
            if len(read) == 2:
                raise StoreUnavailableError("injected")
        return slow(world)(operation, call)

    with world.installed(gate):
        for _ in range(6):
            compact()
            world.clock.advance(300)
    assert read == [0, 10, 10, 20, 30] and world.lines(ONE) is not None


def test_time_of_a_visit_ends_within_a_piece(world: Ended, monkeypatch: pytest.MonkeyPatch) -> None:
    """Logs that are searched slowly take no more time than others, and a checkpoint is saved on the way."""
    monkeypatch.setattr(run_explainer, "STEP_BYTES", 10)
    feed, step_s, steps = Explainer.feed, schedules.SLICE_S / 2, 0

    def fed(self: Explainer, data: bytes) -> None:
        nonlocal steps
        steps += 1
        world.clock.advance(step_s)
        feed(self, data)

    monkeypatch.setattr(Explainer, "feed", fed)
    world.end(ONE, "line\n" * 10)
    world.end(TWO)
    with world.installed():
        compact()
        assert steps < schedules.EXPLAIN_S / step_s + 2
        (first, _) = admin(EXPLANATION).list(Status.UNASSIGNED).partitions
        assert first.state is not None and json.loads(first.state)["at"] == 20
        for _ in range(3):
            compact()
    assert (world.lines(ONE) is not None, world.lines(TWO)) == (True, [1])


@pytest.mark.usefixtures("small")
def test_checkpoints_are_saved_before_the_time_is_over(world: Ended) -> None:
    world.end(ONE, "line\n" * 10)
    saved: list[int] = []

    def gate(operation: str, call: Callable[[], Any]) -> Any:
        world.clock.advance(3 if operation == "get" else 0)
        return call()

    usual = UsualLines(world.store, world.layout, world.runs, world.clock)
    explainer = run_explainer.ScheduledExplainer(Intercepted(world.store, gate), world.layout, world.runs, usual)
    assert explainer.explain(world.row(ONE), None, lambda state: saved.append(state["at"]), Deadline(world.clock, 60))
    assert saved == [20, 40]


def _state_of(text: str) -> dict[str, Any]:
    explainer = Explainer()
    explainer.feed(text.encode())
    return {"explainer": explainer.state(), "at": len(LOG), "lines": 3}


_OTHER = _state_of("ERROR of another log\n")
"""A checkpoint at the end of another log."""


@pytest.mark.usefixtures("small")
@pytest.mark.parametrize(
    "damage",
    [
        None,
        {},
        _OTHER | {"etag": "other"},
        _OTHER | {"version": "0.0.1"},
        {"explainer": {}},
        {"explainer": 7},
        {"at": "x"},
        {"lines": None},
        7,
    ],
)
def test_checkpoint_that_does_not_fit_is_not_used(world: Ended, damage: Any) -> None:
    world.end(ONE)
    with world.installed(slow(world)):
        compact()
        (partition,) = admin(EXPLANATION).list(Status.UNASSIGNED).partitions
        assert partition.state is not None
        state = json.loads(partition.state)
        assert (state["at"], state["lines"]) == (10, 1)
        changed = state | damage if isinstance(damage, dict) else damage
        if damage is not None:
            coordinator = composition.coordinator(composition.services(), EXPLANATION)
            coordinator.initialize()
            lease = coordinator.next_partition()
            assert lease
            coordinator.save_state(lease, changed)
            coordinator.shutdown()
        for _ in range(len(LOG) // 10 + 1):
            compact()
    assert world.lines(ONE) == [1]


@pytest.mark.usefixtures("small")
def test_of_a_huge_log_the_end_is_read(world: Ended, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run_explainer, "MAX_LOG_BYTES", 45)
    text = "ERROR early\n" + "x" * 9 + "\n" + LOG
    world.end(ONE, text)
    with world.installed():
        compact()
    assert world.lines(ONE) == [3]
    explanation = explanation_of(world.row(ONE).explanation)
    assert explanation and explanation.from_line == 1, "this one was cut"


def test_log_that_is_gone_or_damaged_blocks_nothing(world: Ended, capsys: pytest.CaptureFixture[str]) -> None:
    for number, run in enumerate(RUNS[:3]):
        world.end(run, "a line\n" * number + LOG)
    world.store.delete(world.layout.logs(ONE))
    world.store.put(world.layout.logs(TWO), b"overwritten", PutOptions({"next-segment": "2"}))
    with world.installed():
        app.compact(TICK, Context(ENOUGH_MS))
        assert metrics_of(capsys.readouterr().out)["om_streamable_logs_runs_explained"] == [1]
        assert keys(Status.UNASSIGNED, EXPLANATION) == keys(Status.COMPLETED, EXPLANATION) == []
        world.clock.advance(22 * 60)
        compact()
    assert [world.lines(run) for run in RUNS[:3]] == [[], [], [3]]
    assert world.active() == {TWO}, "its compaction fails too"


def test_failing_explanations_are_set_aside_and_are_no_failed_compactions(world: Ended, capsys: pytest.CaptureFixture[str]) -> None:
    world.end(ONE)
    with world.installed(failing_for(world, ONE), set_aside_after_failures=2):
        for _ in range(3):
            assert app.compact(TICK, Context(ENOUGH_MS)) == did()
            printed = metrics_of(capsys.readouterr().out)
            assert not {"om_streamable_logs_flush_alerts", "om_streamable_logs_consecutive_flush_failures"} & set(printed)
            world.clock.advance(600)
        assert keys(Status.COMPLETED, EXPLANATION) == ["svc.pipe/run-0"]
    assert world.lines(ONE) is None


def test_run_that_was_set_aside_is_explained_at_its_next_end(world: Ended) -> None:
    def end(text: str) -> None:
        world.append(ONE, text)
        world.lose(ONE)
        world.runs.record_finalization(ONE, 3, 3, world.row(ONE).segments, world.clock.now_ms())

    tried: list[int] = []

    def unavailable(operation: str, call: Callable[[], Any]) -> Any:
        if operation == "head":
            tried.append(number)
            raise StoreUnavailableError("injected")
        return call()

    end(LOG)
    for number in range(2):
        with world.installed(unavailable, set_aside_after_failures=1):
            for _ in range(2):
                compact()
            assert keys(Status.COMPLETED, EXPLANATION) == ["svc.pipe/run-0"]
        if not number:
            end("ERROR again\n")
    assert tried == [0, 1], "once after each end"
    end("ERROR once more\n")
    with world.installed():
        compact()
        assert keys(Status.COMPLETED, EXPLANATION) == []
    assert world.lines(ONE) is not None


def test_run_that_a_request_explains_before_its_retry_is_not_read(world: Ended) -> None:
    read: list[str] = []

    def gate(operation: str, call: Callable[[], Any]) -> Any:
        assert isinstance(call, Call)
        read.append(call.arguments[0])
        return call()

    world.end(ONE)
    with world.installed(failing_for(world, ONE)):
        compact()
    world.runs.record_explanation(ONE, world.row(ONE).final_segments, Explanation().to_text())
    world.end(TWO)
    world.clock.advance(600)
    with world.installed(gate):
        compact()
        assert keys(Status.UNASSIGNED, EXPLANATION) == []
    assert (world.lines(ONE), world.lines(TWO)) == ([], [1])
    assert world.layout.logs(TWO) in read and world.layout.logs(ONE) not in read


class AfterRead:
    """A gate that acts once, right after the first read of ``logs.txt``."""

    def __init__(self, act: Callable[[], None]) -> None:
        self._act, self.has_acted = act, False

    def __call__(self, operation: str, call: Callable[[], Any]) -> Any:
        answer = call()
        if operation == "get" and isinstance(call, Call) and "logs.txt" in call.arguments[0] and not self.has_acted:
            self.has_acted = True
            self._act()
        return answer


@pytest.mark.parametrize("closed", [False, True])
def test_run_that_is_reopened_between_read_and_write_is_explained_at_its_next_end(world: Ended, closed: bool) -> None:
    world.append(ONE, "begin\n" * 3)
    world.lose(ONE)

    def reopen() -> None:
        world.append(ONE, "ERROR back again\n")
        if closed:
            world.parts().finalizer.close(ONE, end=RunEnd(FAILED))
        world.notify(ONE)

    with world.installed():
        compact()
    with world.installed(gate := AfterRead(reopen)):
        compact()
        assert gate.has_acted and world.row(ONE).explanation == ""
        if not closed:
            world.parts().finalizer.close(ONE, end=RunEnd(FAILED))
            world.notify(ONE)
        compact()
        compact()
    assert world.lines(ONE) == [3]


@pytest.mark.usefixtures("small")
@pytest.mark.parametrize("during_read", [False, True])
def test_log_that_has_grown_since_the_row_was_written_is_left_to_a_later_tick(
    world: Ended, during_read: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    world.append(ONE, "begin\n" * 3)
    world.lose(ONE)

    def grow() -> None:
        world.append(ONE, "ERROR back again\n")
        world.parts().finalizer.close(ONE, end=RunEnd(FAILED))

    gate = AfterRead(grow)
    with world.installed():
        compact()
    if not during_read:
        grow()
    with world.installed(gate if during_read else None):
        capsys.readouterr()
        app.compact(TICK, Context(ENOUGH_MS))
        assert gate.has_acted == during_read and "om_streamable_logs_runs_explained" not in metrics_of(capsys.readouterr().out)
        assert world.row(ONE).explanation == "", "notifications are late"
        world.notify(ONE)
        compact()
        compact()
    assert world.lines(ONE) == [3]


def test_explanation_is_bounded_and_survives_its_form_in_the_catalog() -> None:
    found = [CauseCandidate(10**14 + n, '\U0001f600"\\\x7f\ud800' * 200, "r" * 99, "f" * 99, 0.123456) for n in range(5)]
    explanation = Explanation.of(found, from_line=10**14)
    text = explanation.to_text()
    assert len(text.encode()) <= MAX_BYTES
    assert explanation_of(text) == explanation and len(explanation.candidates) == 3
    assert explanation.candidates[0]["text"].startswith('\U0001f600"\\\x7f?')


@pytest.mark.parametrize(
    "text", ["", "{", "7", "[]", "{}", '{"candidates":[7],"from_line":0}', '{"candidates":[{}],"from_line":0}', "[" * 99999]
)
def test_damaged_explanation_is_none(text: str) -> None:
    assert explanation_of(text) is None
