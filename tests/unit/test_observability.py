"""Logs and metrics: one line of EMF per invocation, and a store that measures its calls."""

from __future__ import annotations

import json
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace
from typing import Any

import pytest

from chalicelib import observability
from chalicelib.errors import ObjectNotFoundError, OutcomeUnknownError, PreconditionFailedError, StoreUnavailableError
from chalicelib.observability import ObservedStore, invocation, note, record
from chalicelib.ports import ABSENT, Condition, ObjectInfo, PutOptions, StoredObject

CONTEXT = SimpleNamespace(aws_request_id="request-1")
INFO = ObjectInfo("k", 1, "etag", 0)


@pytest.fixture(autouse=True)
def nothing_recorded() -> None:
    observability.metrics.clear_metrics()


def lines(capsys: pytest.CaptureFixture[str]) -> list[dict[str, Any]]:
    return [json.loads(line) for line in capsys.readouterr().out.splitlines()]


def test_an_invocation_prints_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    with invocation("append", CONTEXT):
        note(fqn='svc."a b"', status=200)
        record(observability.LOG_SHIPMENT_MS, 1.5)
        record(observability.BATCH_SIZE_LINES, 40)
    (line,) = lines(capsys)
    (emf,) = line["_aws"]["CloudWatchMetrics"]
    assert (emf["Namespace"], emf["Dimensions"]) == ("Runlake", [["service"]])
    assert emf["Metrics"] == [
        {"Name": "om_streamable_logs_log_shipment", "Unit": "Milliseconds"},
        {"Name": "om_streamable_logs_batch_size", "Unit": "Count"},
    ]
    assert (line["om_streamable_logs_log_shipment"], line["om_streamable_logs_batch_size"]) == ([1.5], [40])
    assert (line["service"], line["operation"], line["request_id"]) == ("runlake", "append", "request-1")
    assert (line["fqn"], line["status"]) == ('svc."a b"', 200)
    assert line["duration_ms"] >= 0


def test_metrics_leave_when_the_invocation_fails(capsys: pytest.CaptureFixture[str]) -> None:
    def fail() -> None:
        with invocation("append", CONTEXT):
            record(observability.LOGS_FAILED, 1)
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail()
    (line,) = lines(capsys)
    assert line["om_streamable_logs_logs_failed"] == [1]


def test_nothing_is_kept_for_the_next_invocation(capsys: pytest.CaptureFixture[str]) -> None:
    with invocation("first", CONTEXT):
        note(secret="of the first")
    with invocation("second", CONTEXT):
        record(observability.LOGS_SENT, 1)
    (line,) = lines(capsys)
    assert "secret" not in line
    assert line["operation"] == "second"


def test_of_many_values_each_line_says_whose_it_is_and_the_last_how_long_it_took(capsys: pytest.CaptureFixture[str]) -> None:
    with invocation("compact", CONTEXT):
        for _ in range(250):
            record(observability.LOGS_SENT, 1)
    found = lines(capsys)
    assert [len(line["om_streamable_logs_logs_sent"]) for line in found] == [100, 100, 50]
    assert [line["operation"] for line in found] == ["compact"] * 3
    assert ["duration_ms" in line for line in found] == [False, False, True]


def test_disabled_metrics_print_nothing(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("POWERTOOLS_METRICS_DISABLED", "true")
    with invocation("compact", CONTEXT):
        for _ in range(250):
            record(observability.LOGS_SENT, 1)
    assert capsys.readouterr().out == ""


def test_any_thread_may_record(capsys: pytest.CaptureFixture[str]) -> None:
    with invocation("compact", CONTEXT), ThreadPoolExecutor(8) as threads:
        list(threads.map(lambda _: record(observability.LOGS_SENT, 1), range(90)))
    assert sum(sum(line["om_streamable_logs_logs_sent"]) for line in lines(capsys)) == 90


class Scripted:
    """A store whose calls all have the same scripted result."""

    def __init__(self, answer: Callable[[], Any]) -> None:
        self.calls: list[tuple[Any, ...]] = []
        self._answer = answer

    def __getattr__(self, name: str) -> Callable[..., Any]:
        def call(*args: Any, **options: Any) -> Any:
            self.calls.append((name, args, options))
            return self._answer()

        call.__name__ = name
        return call


READS: list[Callable[[ObservedStore], Any]] = [
    lambda store: store.get("k", 1, 2, if_match="e"),
    lambda store: store.head("k"),
    lambda store: store.list("k", start_after="k1", limit=7),
]
WRITES: list[Callable[[ObservedStore], Any]] = [
    lambda store: store.put("k", b"body", PutOptions(), ABSENT),
    lambda store: store.delete("k", if_match="e"),
    lambda store: store.delete_many(["k"]),
    lambda store: store.create_multipart("k", PutOptions()),
    lambda store: store.upload_part("k", "u", 1, b"body"),
    lambda store: store.copy_part("k", "u", 1, "source", 0, 5, if_match="e"),
    lambda store: store.complete_multipart("k", "u", [(1, "e")], Condition(if_match="e")),
    lambda store: store.abort_multipart("k", "u"),
]


@pytest.mark.parametrize(
    ("call", "metric"),
    [(call, "om_streamable_logs_s3_read_latency") for call in READS]
    + [(call, "om_streamable_logs_s3_write_latency") for call in WRITES],
)
def test_every_call_is_measured(capsys: pytest.CaptureFixture[str], call: Callable[[ObservedStore], Any], metric: str) -> None:
    inner = Scripted(lambda: StoredObject(INFO, b"x"))
    with invocation("any", CONTEXT):
        call(ObservedStore(inner))  # type: ignore[arg-type]
    (line,) = lines(capsys)
    assert len(line[metric]) == 1
    assert len(inner.calls) == 1
    assert "om_streamable_logs_s3_errors" not in line


def test_calls_reach_the_store_as_they_are() -> None:
    inner = Scripted(lambda: "answer")
    store = ObservedStore(inner)  # type: ignore[arg-type]
    assert store.put("k", b"body", PutOptions(), ABSENT) == "answer"
    assert store.copy_part("k", "u", 1, "source", 0, 5, if_match="e") == "answer"
    assert store.presign_get("k", expires_s=1, filename="f", content_type="t") == "answer"
    assert inner.calls == [
        ("put", ("k", b"body", PutOptions(), ABSENT), {}),
        ("copy_part", ("k", "u", 1, "source", 0, 5), {"if_match": "e"}),
        ("presign_get", ("k",), {"expires_s": 1, "content_type": "t", "filename": "f", "content_encoding": ""}),
    ]


def failing(error: Exception) -> Callable[[], Any]:
    def fail() -> Any:
        raise error

    return fail


@pytest.mark.parametrize(
    ("error", "counted"),
    [
        (StoreUnavailableError("503"), True),
        (OutcomeUnknownError("cut"), True),
        (PreconditionFailedError("412"), False),
        (ObjectNotFoundError("404"), False),
    ],
)
def test_a_condition_that_is_false_is_no_error(
    capsys: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture, error: Exception, counted: bool
) -> None:
    with pytest.raises(type(error)), invocation("any", CONTEXT):
        ObservedStore(Scripted(failing(error))).head("k")  # type: ignore[arg-type]
    (line,) = lines(capsys)
    assert len(line["om_streamable_logs_s3_read_latency"]) == 1
    assert line.get("om_streamable_logs_s3_errors") == ([1] if counted else None)
    assert [logged.call for logged in caplog.records] == (["head"] if counted else [])  # type: ignore[attr-defined]
