"""Metrics that handlers record: bounded, aggregated, and never an error of an event."""

from __future__ import annotations

import json
from collections.abc import Iterator
from decimal import Decimal
from enum import StrEnum
from threading import Thread
from typing import Any

import pytest

from chalicelib.errors import StoreUnavailableError
from chalicelib.pipelines.handler_metrics import MAX_METRICS, HandlerMetrics, MetricsReport, Statistics
from chalicelib.ports import Run
from chalicelib.triggers.pipelines import record_metrics
from glue_jobs.pipelines.task import TaskMetrics
from local.run_pipelines import show_metrics
from tests.pipelines_harness import MEASURES, START_MS, PipelinesHarness, RecordingHandler, line, pipeline

A = Run("svc.a", "r1")


def away(*_: object, **__: object) -> None:
    raise StoreUnavailableError("away")


class Name(StrEnum):
    SOME = "a.b-c_1"


class Unreadable:
    def __float__(self) -> float:
        raise RuntimeError("no number")


class ReadableOnce(Unreadable):
    """Its value can be read once, and it records another metric meanwhile."""

    def __init__(self, metrics: HandlerMetrics) -> None:
        self.metrics, self.reads = metrics, 0

    def __float__(self) -> float:
        self.reads += 1
        if self.reads > 1:
            return super().__float__()
        self.metrics.record("b", 2)
        return 1.0


@pytest.fixture
def world() -> Iterator[PipelinesHarness]:
    RecordingHandler.forget()
    made = PipelinesHarness()
    made.write(A, [line(START_MS, "one"), line(START_MS + 1, "three")])
    made.end(A)
    yield made
    RecordingHandler.forget()


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("", 1), ("1a", 1), ("a b", 1), ("a" * 101, 1), ("ä", 1), (None, 1), (5, 1), (["a"], 1), ("pipeline", 1), ("handler", 1),
        ("a\n", 1), ("a", float("nan")), ("a", float("inf")), ("a", -float("inf")), ("a", 10**400), ("a", 2.0**361), ("a", "1"),
        ("a", b"1"), ("a", None), ("a", True), ("a", [1]), ("a", Unreadable()), ("a", 1j),
    ],
)  # fmt: skip
def test_invalid_metric_is_dropped_and_counted(name: Any, value: Any) -> None:
    metrics = HandlerMetrics()
    metrics.record(name, value)
    report = metrics.take("p", "h")
    assert report is not None and (dict(report.metrics), report.refused) == ({}, 1) and report.reason
    assert metrics.take("p", "h") is None


def test_values_are_aggregated_until_they_are_taken() -> None:
    metrics = HandlerMetrics()
    for value in (3, 1.5, Decimal("2.5"), 2**900 // 2**899):
        metrics.record("a.b-c_1", value)
    report = metrics.take("p", "h")
    assert report is not None and report.metrics == {"a.b-c_1": Statistics(4, 9.0, 1.5, 3.0)}
    metrics.record(Name.SOME, -5)
    assert metrics.take("p", "h") == MetricsReport("p", "h", {"a.b-c_1": Statistics(1, -5.0, -5.0, -5.0)})


def test_value_runs_its_own_code_once_and_outside_of_the_lock() -> None:
    metrics = HandlerMetrics()
    recording = Thread(target=metrics.record, args=("a", ReadableOnce(metrics)), daemon=True)
    recording.start()
    recording.join(10)
    assert not recording.is_alive()
    report = metrics.take("p", "h")
    assert report is not None and report.metrics == {"a": Statistics(1, 1.0, 1.0, 1.0), "b": Statistics(1, 2.0, 2.0, 2.0)}


def test_names_are_bounded_for_as_long_as_the_worker_runs() -> None:
    metrics, seen = HandlerMetrics(), set[str]()
    for session in range(3):
        for number in range(session, MAX_METRICS + 5):
            metrics.record(f"n{number}", 1)
        report = metrics.take("p", "h")
        assert report is not None and (len(report.metrics), report.refused) == (MAX_METRICS - session, 5)
        seen |= report.metrics.keys()
    assert len(seen) == MAX_METRICS
    metrics.record("a" * 100, 1)  # a valid name, but one more
    metrics.record("", 1)
    assert metrics.take("p", "h") == MetricsReport("p", "h", {}, 2, f"a handler has at most {MAX_METRICS} metrics")


def test_name_has_100_characters_at_most() -> None:
    metrics = HandlerMetrics()
    metrics.record("a" * 100, 1)
    assert metrics.take("p", "h") == MetricsReport("p", "h", {"a" * 100: Statistics(1, 1.0, 1.0, 1.0)})


@pytest.mark.behavior("Handlers record metrics, which never fail an event.")
@pytest.mark.parametrize("is_away", [False, True])
def test_worker_reports_the_metrics_of_each_handler(
    world: PipelinesHarness, monkeypatch: pytest.MonkeyPatch, is_away: bool
) -> None:
    """Also if no checkpoint can be stored."""
    reports: list[MetricsReport] = []
    worker = world.worker(pipeline(to=("a", "b"), cls=MEASURES), on_metrics=reports.append)
    worker.start()
    if is_away:
        monkeypatch.setattr(worker.checkpoints, "commit", away)
    world.clock.advance(60)
    worker.step()
    expected = {"length": Statistics(2, 8.0, 3.0, 5.0)}
    assert [(each.pipeline, each.handler, each.metrics) for each in reports] == [("test", name, expected) for name in "ab"]
    refused = [each for each in world.told if each["message"] == "metrics of a handler were refused"]
    assert [(each["handler"], each["refused"]) for each in refused] == [("a", 2), ("b", 2)]
    assert RecordingHandler.messages("a") == ["one", "three"] and world.dead_letters() == []
    worker.stop()
    assert len(reports) == 2


def test_metrics_of_the_last_calls_are_reported(world: PipelinesHarness) -> None:
    reports: list[MetricsReport] = []
    worker = world.worker(pipeline(cls=MEASURES), on_metrics=reports.append)
    worker.start()
    worker.context.handlers["all"].context.metric("last", 1)  # type: ignore[attr-defined]
    worker.progress.is_detached = True
    worker._report_metrics()
    assert reports == []  # the supervisor no longer waits for the thread
    worker.progress.is_detached = False
    worker.stop()
    assert [each.metrics for each in reports] == [{"last": Statistics(1, 1.0, 1.0, 1.0)}]


def test_function_prints_a_line_of_metrics_with_pipeline_and_handler(capsys: pytest.CaptureFixture[str]) -> None:
    record_metrics(MetricsReport("p", "hänßler: 1", {"a": Statistics(2, 8.0, 3.0, 5.0)}))
    (told,) = [json.loads(each) for each in capsys.readouterr().out.splitlines()]
    facts = told.pop("_aws")["CloudWatchMetrics"]
    assert facts == [{"Namespace": "Runlake", "Dimensions": [["pipeline", "handler"]], "Metrics": [{"Name": "a"}]}]
    assert told == {"pipeline": "p", "handler": "h%C3%A4n%C3%9Fler%3A%201", "a": {"Count": 2, "Sum": 8.0, "Min": 3.0, "Max": 5.0}}


def test_command_prints_metrics(capsys: pytest.CaptureFixture[str]) -> None:
    show_metrics(MetricsReport("p", "h", {"a": Statistics(2, 8.0, 3.0, 5.0)}))
    told = json.loads(capsys.readouterr().out)
    assert {name: told[name] for name in ("pipeline", "handler", "metrics")} == {
        "pipeline": "p", "handler": "h", "metrics": {"a": {"count": 2, "sum": 8.0, "min": 3.0, "max": 5.0}},
    }  # fmt: skip


def test_metrics_of_tasks_are_added_up() -> None:
    one, all_tasks = TaskMetrics(), TaskMetrics()
    one.add_report(MetricsReport("p", "h", {"a": Statistics(2, 8.0, 3.0, 5.0)}))
    one.add_report(MetricsReport("p", "h", {"a": Statistics(1, -1.0, -1.0, -1.0), "b": Statistics(1, 0.5, 0.5, 0.5)}))
    for _ in range(2):
        all_tasks.add_text(json.dumps(one.document()))
    assert all_tasks.document() == {
        "h": {
            "a": {"count": 6, "sum": 14.0, "min": -1.0, "max": 5.0},
            "b": {"count": 2, "sum": 1.0, "min": 0.5, "max": 0.5},
        }
    }
