"""Processing pipelines over HTTP and by the schedule: status, enable, disable, replay."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import pytest
import yaml

from chalicelib import composition
from chalicelib.coordination import InMemoryPartitionStore, WorkSource
from chalicelib.errors import InvalidConfigurationError, PreconditionFailedError, StoreUnavailableError
from chalicelib.pipelines import config_loader
from chalicelib.pipelines.allowed_modules import AllowedModules
from chalicelib.pipelines.pipeline_state import DISABLED, HandlerState, PipelineStateStore, replay_done, status_key
from chalicelib.pipelines.shards import ONLY
from chalicelib.ports import Put, Run
from chalicelib.response_size import document_bytes
from chalicelib.routes import pipelines as routes_pipelines
from chalicelib.routes.pipelines_models import FROM_REQUIRED
from chalicelib.triggers.pipelines import work_pipelines
from tests.faults.interception import Intercepted
from tests.functional.gateway import Answer, call, installed
from tests.pipelines_harness import MEASURES, RECORDS, START_MS, PipelinesHarness, RecordingHandler, line

A = Run("svc.a", "r1")
BASE = "/v1/pipelines"


@pytest.fixture
def world(tmp_path: Path) -> Iterator[PipelinesHarness]:
    RecordingHandler.forget()
    made = PipelinesHarness()
    made.clock.sleep = lambda seconds: patiently(made, seconds)  # type: ignore[method-assign]
    store = InMemoryPartitionStore()
    made.work_sources = lambda source: (store, WorkSource(source))
    handlers = {name: {"class": RECORDS, "to": name} for name in ("a", "b")}
    logging_ = {"version": 1, "handlers": handlers, "root": {"handlers": ["a", "b"]}}
    (tmp_path / "audit.yaml").write_text(yaml.safe_dump({"logging": logging_, "errors": {"max": 1, "retries": 0}}))
    (tmp_path / "bad.yaml").write_text("[")
    with installed(made, runs=made.runs, pipelines_config=str(tmp_path), pipeline_modules="tests.*", built_in_pipeline="true"):
        yield made
    RecordingHandler.forget()


def patiently(world: PipelinesHarness, seconds: float) -> None:
    """Yield the processor to other threads."""
    threading.Event().wait(0.001)
    world.clock.advance(seconds / 20)


def tick() -> dict[str, str]:
    return work_pipelines(composition.services(), 120_000)


def post(path: str, body: str | None = None) -> Answer:
    return call("POST", f"{BASE}/{path}", body)


def audit() -> dict[str, Any]:
    [found] = [each for each in call("GET", BASE).json["pipelines"] if each["name"] == "audit"]
    return dict(found)


def log(world: PipelinesHarness, run: Run = A, *texts: str) -> None:
    world.write(run, [line(START_MS + at, text) for at, text in enumerate(texts or ("one", "two"))])
    world.end(run)


def test_the_schedule_works_every_pipeline_and_bad_files_are_left_out(world: PipelinesHarness) -> None:
    log(world)
    assert tick() == {"runlake": "stopped", "audit": "stopped"}
    assert RecordingHandler.messages("a") == RecordingHandler.messages("b") == ["one", "two"]
    answer = call("GET", BASE).json
    assert [each["name"] for each in answer["pipelines"]] == ["runlake", "audit"]
    assert [each["file"].rpartition("/")[2] for each in answer["problems"]] == ["bad.yaml"]


@pytest.mark.behavior("The status of a pipeline shows its lag, errors and handlers.")
def test_status_of_a_pipeline(world: PipelinesHarness) -> None:
    assert (audit()["state"], audit()["told_at"]) == ("new", None)
    log(world)
    tick()
    found = audit()
    assert (found["state"], found["lag_events"], found["lag_s"], found["events"], found["errors"]) == ("running", 0, 0, 2, 0)
    assert [(each["name"], each["state"]) for each in found["handlers"]] == [("a", "enabled"), ("b", "enabled")]
    world.clock.advance(700)
    assert audit()["state"] == "silent"


def test_disabled_handler_is_listed_and_receives_missed_events_after_enable(world: PipelinesHarness) -> None:
    def fail(_: Any) -> None:
        raise OSError("down")

    RecordingHandler.fails["a"] = fail
    log(world)
    tick()
    [found, _] = audit()["handlers"]
    assert (found["state"], found["reason"], found["at"], found["errors"]) == (
        "disabled", "OSError: down", {"run": "svc.a/r1", "line": 1}, 2,
    )  # fmt: skip
    RecordingHandler.fails.clear()
    answer = post("audit/enable", '{"handler": "a"}')
    assert (answer.status, answer.json["handlers"][0]["state"]) == (200, "replaying")
    tick()
    assert RecordingHandler.messages("a") == RecordingHandler.messages("b") == ["one", "two"]
    assert audit()["handlers"][0]["state"] == "enabled"
    assert post("audit/enable", '{"handler": "a"}').json["handlers"][0]["state"] == "enabled"


def test_a_handler_is_disabled_by_an_operator(world: PipelinesHarness) -> None:
    answer = post("audit/disable", '{"handler": "b"}')
    assert answer.json["handlers"][1] == {
        "name": "b", "state": "disabled", "reason": "disabled by an operator", "since": "2026-09-21T14:13:20.000Z", "at": None, "errors": 0,
    }  # fmt: skip
    log(world)
    tick()
    assert (RecordingHandler.messages("a"), RecordingHandler.messages("b")) == (["one", "two"], [])


@pytest.mark.behavior("An operator can disable and enable a pipeline.")
def test_a_pipeline_is_disabled_and_enabled(world: PipelinesHarness) -> None:
    log(world)
    assert post("audit/disable").json["state"] == "disabled"
    assert tick() == {"runlake": "stopped", "audit": "disabled"}
    assert RecordingHandler.messages("a") == []
    assert post("audit/enable").json["state"] == "new"
    tick()
    assert RecordingHandler.messages("a") == ["one", "two"]


@pytest.mark.behavior("The built-in pipeline runs if its setting enables it; other pipelines run in any case.")
def test_built_in_pipeline_is_disabled_by_its_setting_until_an_operator_enables_it(world: PipelinesHarness, tmp_path: Path) -> None:
    with installed(world, runs=world.runs, pipelines_config=str(tmp_path), pipeline_modules="tests.*"):
        log(world)
        assert post("runlake/replay", f'{{"from": {START_MS}}}').json["state"] == "disabled"
        assert tick() == {"runlake": "disabled", "audit": "stopped"}
        assert [each["state"] for each in call("GET", BASE).json["pipelines"]] == ["disabled", "running"]
        assert post("runlake/enable").json["state"] == "new"
        assert tick() == {"runlake": "stopped", "audit": "stopped"}


def test_pipeline_whose_file_disables_it_waits_for_an_operator(world: PipelinesHarness, tmp_path: Path) -> None:
    file = tmp_path / "audit.yaml"
    file.write_text(f"{file.read_text()}\nenabled: false\n")
    log(world)
    assert tick() == {"runlake": "stopped", "audit": "disabled"}
    assert post("audit/enable").json["state"] == "new"
    assert tick() == {"runlake": "stopped", "audit": "stopped"}


@pytest.mark.parametrize("times", [(0, 1), (1, 0), (0, 0)])
def test_a_replay_that_has_not_begun_is_part_of_the_next(world: PipelinesHarness, times: tuple[int, int]) -> None:
    log(world)
    tick()
    for late_ms in times:
        answer = post("audit/replay", f'{{"from": {START_MS + late_ms}}}')
    assert answer.json["replay_from"] == "2026-09-21T14:13:20.000Z"
    tick()
    assert RecordingHandler.messages("a") == ["one", "two"] * 2
    assert audit()["replay_from"] is None


@pytest.mark.parametrize("other", ["replay", "enable", "disable"])
@pytest.mark.parametrize("first", ["replay", "enable", "disable"])
def test_no_change_of_a_pipeline_overwrites_another(world: PipelinesHarness, first: str, other: str) -> None:
    """One change is written between the read and the write of another."""
    switches = PipelineStateStore(world.database, world.clock)
    changes = {
        "replay": lambda to, from_ms: to.replay("audit", from_ms, START_MS),
        "enable": lambda to, _: to.set_enabled("audit", True),
        "disable": lambda to, _: to.set_enabled("audit", False),
    }
    switches.replay("audit", START_MS + 9, START_MS)
    world.database.transact([replay_done("audit", switches.read("audit")[0])])
    came = iter([True])

    def overtaken(operation: str, inner: Callable[[], Any]) -> Any:
        if operation == "transact" and next(came, False):
            changes[other](switches, START_MS + 1)
        return inner()

    changes[first](PipelineStateStore(Intercepted(world.database, overtaken), world.clock), START_MS + 2)
    stored, _ = switches.read("audit")
    replays = [START_MS + at for at, name in ((1, other), (2, first)) if name == "replay"]
    assert stored.replay_ms == (min(replays) if replays else None)
    last = next((name for name in (first, other) if name != "replay"), "enable")
    assert stored.enabled == (last == "enable")


def test_a_replay_asked_for_in_the_moment_another_begins_is_not_taken_for_it(world: PipelinesHarness) -> None:
    switches = PipelineStateStore(world.database, world.clock)
    switches.replay("audit", START_MS + 9, START_MS)
    begun, _ = switches.read("audit")
    switches.replay("audit", START_MS + 1, START_MS)
    with pytest.raises(PreconditionFailedError):
        world.database.transact([replay_done("audit", begun)])
    assert switches.read("audit")[0].replay_ms == START_MS + 1


@pytest.mark.behavior("An operator can replay a pipeline from a time.")
def test_a_replay_from_a_time(world: PipelinesHarness) -> None:
    log(world)
    tick()
    answer = post("audit/replay", f'{{"from": {START_MS + 1}}}')
    assert answer.json["replay_from"] == "2026-09-21T14:13:20.001Z"
    tick()
    assert RecordingHandler.messages("a") == ["one", "two", "two"]
    assert audit()["replay_from"] is None


@pytest.mark.parametrize(
    ("path", "body", "status"),
    [
        ("none/enable", None, 404),
        ("audit/enable", "[", 400),
        ("audit/enable", "[]", 400),
        ("audit/enable", '{"handler": 1}', 400),
        ("audit/enable", '{"handler": "none"}', 400),
        ("audit/enable", '{"colour": "red"}', 400),
        ("audit/replay", None, 400),
        ("audit/replay", '{"from": "tomorrow-ish"}', 400),
        ("audit/replay", '{"from": [1]}', 400),
    ],
)
def test_bad_requests_are_refused_and_change_nothing(world: PipelinesHarness, path: str, body: str | None, status: int) -> None:
    answer = post(path, body)
    assert (answer.status, answer.json["code"]) == (status, status)
    assert world.database.rows("pipelines") == []


@pytest.mark.parametrize(
    ("path", "body", "message"),
    [
        ("enable", "[", "the body is not json"),
        ("enable", "[]", "the body must be a JSON object or empty"),
        ("disable", '{"handler": 1, "colour": "red"}', "handler must be a string"),
        ("disable", '{"handler": "c"}', "the pipeline has no such handler: it has a, b handler='c'"),
        ("disable", '{"handler": "\\ud800"}', "the pipeline has no such handler: it has a, b handler='\\ud800'"),
        ("disable", '{"handler": "a", "b": 1, "a": 1}', "the body may have only handler, not a, b"),
        ("disable", '{"\\ud800": 1}', "the body may have only handler, not ?"),
        ("replay", '{"handler": "a"}', "the body may have only from, not handler"),
        ("replay", '{"from": null, "x": 1}', "the body may have only from, not x"),
        ("replay", '{"from": [1]}', "not a time: '[1]': from is ISO 8601, or ms since the epoch"),
        ("replay", '{"from": true}', "not a time: 'True': from is ISO 8601, or ms since the epoch"),
        *(("replay", body, FROM_REQUIRED) for body in (None, " ", "{}", '{"from": null}')),
    ],
)
def test_bad_body_is_refused_with_the_reason(world: PipelinesHarness, path: str, body: str | None, message: str) -> None:
    answer = post(f"audit/{path}", body)
    assert (answer.status, answer.json["message"]) == (400, message)


@pytest.mark.parametrize("path", ["enable", "disable"])
def test_handler_of_null_is_the_pipeline(world: PipelinesHarness, path: str) -> None:
    answer = post(f"audit/{path}", '{"handler": null}')
    assert (answer.status, answer.json["state"]) == (200, {"enable": "new", "disable": "disabled"}[path])


def test_damaged_rows_do_not_fail_the_status(world: PipelinesHarness) -> None:
    PipelineStateStore(world.database, world.clock).set_handler("audit", HandlerState("a", "paused", "", START_MS, "svc.a/r1", -1))
    log(world)
    tick()
    key = status_key("audit", ONLY)
    row = world.database.get_many([key])[key]
    counts = dict.fromkeys(("lag_events", "lag_ms", "runs", "processed", "late", "dropped", "dead"), -1)
    world.database.transact([Put(key, {**row, **counts, "errors": {"a": -1, "b": 2}})])
    status = audit()
    assert [status[name] for name in ("lag_events", "lag_s", "runs", "events", "late", "dropped", "dead_letters")] == [0] * 7
    assert status["errors"] == 2 and [each["errors"] for each in status["handlers"]] == [0, 2]
    assert (status["handlers"][0]["state"], status["handlers"][0]["at"]) == ("disabled", {"run": "svc.a/r1", "line": 0})


def test_a_table_that_is_away_is_a_503(world: PipelinesHarness) -> None:
    def away(*_: Any, **__: Any) -> Any:
        raise StoreUnavailableError("away")

    world.database.query = away  # type: ignore[method-assign]
    assert call("GET", BASE).status == 503
    assert post("audit/disable").status == 503
    assert set(tick().values()) == {"failed"}


def test_the_built_in_pipeline_missing_is_fatal(world: PipelinesHarness, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(config_loader.load_pipelines, "__defaults__", (None, tmp_path / "gone.yaml", AllowedModules()))
    with pytest.raises(InvalidConfigurationError):
        tick()
    assert call("GET", BASE).status == 500


class Started:
    """Records the started workers."""

    def __init__(self, most: int = 100) -> None:
        self.numbers: list[int] = []
        self._most = most

    def start(self, number: int) -> None:
        if len(self.numbers) >= self._most:
            raise StoreUnavailableError("no more")
        self.numbers.append(number)


def test_each_pipeline_has_an_invocation_of_its_own_where_there_are_workers(world: PipelinesHarness, tmp_path: Path) -> None:
    log(world)
    workers = Started()
    with installed(
        world,
        runs=world.runs,
        workers=workers,
        pipelines_config=str(tmp_path),
        pipeline_modules="tests.*",
        built_in_pipeline="true",
    ):
        assert tick() == {"runlake": "stopped"}
        assert workers.numbers == [1]
        assert work_pipelines(composition.services(), 120_000, 1) == {"audit": "stopped"}
    with installed(
        world,
        runs=world.runs,
        workers=Started(most=0),
        pipelines_config=str(tmp_path),
        pipeline_modules="tests.*",
        built_in_pipeline="true",
    ):
        assert set(tick()) == {"runlake", "audit"}


def test_metrics_of_lag_errors_and_handlers_without_events(world: PipelinesHarness, monkeypatch: pytest.MonkeyPatch) -> None:
    from chalicelib.triggers import pipelines as trigger

    seen: list[tuple[str, float]] = []
    monkeypatch.setattr(trigger, "record", lambda name, value: seen.append((name, value)))
    PipelineStateStore(world.database, world.clock).set_handler("audit", HandlerState("a", DISABLED, "ill"))
    log(world)
    tick()
    assert ("runlake_pipeline_handlers_off", 1) in seen
    assert ("runlake_pipelines_failed", 0) in seen
    assert {name for name, _ in seen} >= {"runlake_pipeline_lag", "runlake_pipeline_lag_events", "runlake_pipeline_errors"}


def test_metrics_of_handlers_are_lines_of_their_own(
    world: PipelinesHarness, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "audit.yaml").write_text((tmp_path / "audit.yaml").read_text().replace(RECORDS, MEASURES))
    log(world)
    tick()
    lines = [json.loads(each) for each in capsys.readouterr().out.splitlines() if '"length"' in each]
    assert [(each["pipeline"], each["handler"], each["length"]["Count"]) for each in lines] == [
        ("audit", "a", 2),
        ("audit", "b", 2),
    ]


def pipeline_files(folder: Path, count: int, handlers: int = 1, bad: int = 0) -> None:
    """Pipelines of handlers with long names, and invalid files."""
    for number in range(count):
        named = {f"{at:03d}{'h' * 180}": {"class": "logging.NullHandler"} for at in range(handlers)}
        logging_ = {"version": 1, "handlers": named, "root": {"handlers": list(named)}}
        (folder / f"p{number:04d}.yaml").write_text(yaml.safe_dump({"logging": logging_}))
    for number in range(bad):
        (folder / f"q{number:04d}.yaml").write_text("name: " + "[" * 40)


def pages(limit: int | None = None) -> list[Answer]:
    answers: list[Answer] = []
    query = {"limit": limit} if limit else {}
    while not answers or answers[-1].json["cursor"]:
        cursor = {"cursor": answers[-1].json["cursor"]} if answers else {}
        answers.append(call("GET", f"{BASE}?{urlencode(query | cursor)}"))
        assert answers[-1].status == 200
    return answers


def test_pipelines_come_by_pages(world: PipelinesHarness, tmp_path: Path) -> None:
    pipeline_files(tmp_path, 7)
    answers = pages(limit=3)
    assert [len(each.json["pipelines"]) for each in answers] == [3, 3, 3]
    names = [pipeline["name"] for each in answers for pipeline in each.json["pipelines"]]
    assert names == ["runlake", "audit", *(f"p{number:04d}" for number in range(7))]
    assert [len(each.json["problems"]) for each in answers] == [1, 0, 0]


def test_a_page_of_pipelines_reads_the_rows_of_its_own_pipelines_alone(world: PipelinesHarness, tmp_path: Path) -> None:
    pipeline_files(tmp_path, 7)
    before = world.database.calls["query"]
    call("GET", f"{BASE}?limit=2")
    assert world.database.calls["query"] - before == 2


@pytest.mark.slow
def test_pages_of_pipelines_and_problems_fit_responses(
    world: PipelinesHarness, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pipeline_files(tmp_path, 3, handlers=200, bad=150)
    one = call("GET", f"{BASE}?limit=3").json
    assert len(one["problems"]) == 100 and one["more_problems"] == 51
    size = document_bytes(one["pipelines"][2])
    monkeypatch.setattr(routes_pipelines, "PAGE_BYTES", document_bytes(one["problems"]) + int(size * 0.9))
    answers = pages()
    assert [[each["name"] for each in answer.json["pipelines"]] for answer in answers] == [
        ["runlake", "audit"], ["p0000"], ["p0001"], ["p0002"],
    ]  # fmt: skip
    largest = max(len(json.dumps({"body": answer.body})) for answer in answers)
    assert largest < 5 * 1024 * 1024


def test_the_largest_pipeline_fits_a_response(world: PipelinesHarness, tmp_path: Path) -> None:
    """The most handlers of a file, each with the longest name, reason and position."""
    names = [f"{at:03d}{chr(0x1F600) * 197}" for at in range(200)]
    logging_ = {
        "version": 1,
        "handlers": {name: {"class": "logging.NullHandler"} for name in names},
        "root": {"handlers": names[:1]},
    }
    (tmp_path / "wide.yaml").write_text(yaml.safe_dump({"logging": logging_}, allow_unicode=True))
    switches = PipelineStateStore(world.database, world.clock)
    for name in names:
        switches.set_handler("wide", HandlerState(name, DISABLED, '"' * 5000, START_MS, "f" * 1000, 1))
    answer = call("GET", f"{BASE}?limit=1&cursor=audit")
    assert [len(each["handlers"]) for each in answer.json["pipelines"]] == [200]
    assert len(json.dumps({"body": answer.body})) < 5 * 1024 * 1024


@pytest.mark.parametrize("query", ["limit=0", "limit=201", "limit=x", "cursor=nobody"])
def test_bad_queries_for_pipelines_are_refused(world: PipelinesHarness, query: str) -> None:
    answer = call("GET", f"{BASE}?{query}")
    assert (answer.status, answer.json["code"]) == (400, 400)


def test_the_published_scopes_are_those_that_the_views_ask_for() -> None:
    paths = call("GET", "/v1/openapi.json").json["paths"]
    operations = [operation for path, each in paths.items() if path.startswith(BASE) for operation in each.values()]
    assert len(operations) == 4 and all(each["x-runlake-scopes"] == ["admin"] and "403" in each["responses"] for each in operations)
