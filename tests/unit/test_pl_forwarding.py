"""The forwarding handler: what arrives, and what an absent, slow or refusing target does to it and to the other handlers."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import pytest
import yaml

from chalicelib.aws.cloudwatch_logs import CloudWatchLogsTarget
from chalicelib.errors import InvalidConfigurationError, LeaseError, OutcomeUnknownError, TargetUnavailableError, UnavailableError
from chalicelib.events.configuration import EventsConfiguration
from chalicelib.events.event import Annotation
from chalicelib.events.event_view import EventFilter
from chalicelib.events.ports import Target
from chalicelib.events.run_forwarding import event_of
from chalicelib.events.targets.document import document
from chalicelib.events.targets.elasticsearch import ElasticsearchTarget
from chalicelib.events.targets.otlp import OtlpTarget
from chalicelib.events.targets.transport import Answer
from chalicelib.lines.parsed import ParsedLine
from chalicelib.pipelines import forward_handler
from chalicelib.pipelines.config_loader import ConfigFile, LoadedPipelines, load_pipelines
from chalicelib.pipelines.configuration import PipelineFile, parse_pipeline_file
from chalicelib.pipelines.delivery import LONGEST_FLUSH_PAUSE_MS, SUSPEND_AFTER_MS
from chalicelib.pipelines.ordering import PendingEvent
from chalicelib.pipelines.output_pipelines import Output, output_pipeline
from chalicelib.pipelines.pipeline_state import DISABLED, FAILED, PipelineStateStore
from chalicelib.pipelines.ports import HandlerContext, MakeTarget
from chalicelib.pipelines.records import record_maker
from chalicelib.pipelines.worker import RESUME_AFTER_MS, Worker
from chalicelib.ports import Run
from chalicelib.routes.events import browsed_event
from tests.events_harness import event_parts, make_event
from tests.pipelines_harness import RECORDS, START_MS, PipelinesHarness, RecordingHandler, line, pipeline_of
from tests.vendors import Bulk, LogsClient, Otlp, Wire

A, B = Run("svc.a", "r1"), Run("svc.b", "r1")
FORWARD = "chalicelib.pipelines.forward_handler.ForwardHandler"


@pytest.fixture
def world() -> Iterator[PipelinesHarness]:
    RecordingHandler.forget()
    yield PipelinesHarness()
    RecordingHandler.forget()


def forwarding(**more: Any) -> PipelineFile:
    """A forwarding handler next to one that records."""
    target = {"kind": "elasticsearch", "url": "http://es", "index": "logs"}
    handlers = {"out": {"class": FORWARD, "target": target}, "good": {"class": RECORDS, "to": "good"}}
    return pipeline_of(handlers, **more)


def written(world: PipelinesHarness, run: Run, texts: Sequence[str], at: int = 0) -> None:
    world.write(run, [line(START_MS + at + number, text) for number, text in enumerate(texts)])


def begun(world: PipelinesHarness, make: MakeTarget, file: PipelineFile | None = None, **changes: Any) -> Worker:
    worker = world.worker(file or forwarding(), make_target=make, instance_id="here", **changes)
    worker.start()
    return worker


def session(world: PipelinesHarness, make: MakeTarget, file: PipelineFile | None = None, **changes: Any) -> Worker:
    """A worker from its start to its stop, a minute after the one before."""
    world.clock.advance(60)
    worker = begun(world, make, file, **changes)
    world.work(worker)
    worker.stop()
    return worker


def elasticsearch(bulk: Bulk, faults: Sequence[Any] = ()) -> MakeTarget:
    wire = Wire(bulk, faults)
    return lambda *_: ElasticsearchTarget(wire, "http://es", "logs")


class Absent:
    """Accepts nothing; each request takes as long as a timeout."""

    def __init__(self, clock: Any, seconds: float, error: type[UnavailableError]) -> None:
        self.clock, self.seconds, self.error, self.requests = clock, seconds, error, 0

    def post(self, url: str, headers: Mapping[str, str], body: bytes) -> Answer:
        self.requests += 1
        self.clock.advance(self.seconds)
        raise self.error("no response")

    def close(self) -> None: ...


def absent(world: PipelinesHarness, seconds: float = 0.0, error: type[UnavailableError] = TargetUnavailableError) -> MakeTarget:
    wire = Absent(world.clock, seconds, error)
    return lambda *_: ElasticsearchTarget(wire, "http://es", "logs")


def messages(bulk: Bulk) -> list[str]:
    return [each["message"] for each in bulk.documents.values()]


def states(world: PipelinesHarness) -> dict[str, str]:
    _, handlers = PipelineStateStore(world.database, world.clock).read("test")
    return {name: state.state for name, state in handlers.items()}


def dead(world: PipelinesHarness) -> dict[str, str]:
    """Reasons of dead letters by message."""
    return {each["event"]["message"]: each["reason"] for each in world.dead_letters()}


def test_structured_events_arrive_as_the_api_has_them(world: PipelinesHarness) -> None:
    parts, bulk = event_parts(world), Bulk()
    note = Annotation(position=1, note={"url": "https://a"})
    parts.log.append(
        A,
        [
            make_event(
                "of two\n  lines", "extract", level="warn", id=8, timestamp=START_MS, data={"rows": [3, None]}, annotations=(note,)
            ),
            make_event("ERROR of the text", timestamp=START_MS + 1, id=9),
        ],
        writer="w-1",
    )
    world.end(A)
    session(world, elasticsearch(bulk), sidecars=world.sidecars(parts))
    browsed = parts.browser.page(A, EventFilter())
    assert list(bulk.documents.values()) == [
        json.loads(json.dumps(document(event_of(browsed_event(each))))) for each in browsed.events
    ]
    assert len(bulk.documents) == 2


def test_equal_ids_without_a_writer_are_different_events(world: PipelinesHarness) -> None:
    parts, bulk = event_parts(world), Bulk()
    for number in range(3):
        parts.log.append(A, [make_event(f"of batch {number}", timestamp=START_MS + number, id=0)])
    world.end(A)
    session(world, elasticsearch(bulk), sidecars=world.sidecars(parts))
    assert [each["message"] for each in bulk.documents.values()] == ["of batch 0", "of batch 1", "of batch 2"]


def test_plain_lines_have_the_run_and_their_logger(world: PipelinesHarness) -> None:
    bulk = Bulk()
    for run in (A, B):
        world.write(run, [line(START_MS, "bad\nTraceback", "ERROR", "app.db"), "no format"])
        world.end(run)
    session(world, elasticsearch(bulk))
    first, *_ = bulk.documents.values()
    assert (first["id"], first["writer"], first["level"]) == (0, "", "ERROR")
    assert first["data"]["logger"] == "app.db"
    assert {(each["data"]["jobId"], each["data"]["loggableId"], each["data"]["instanceId"]) for each in bulk.documents.values()} == {
        ("svc.a", "r1", "here"), ("svc.b", "r1", "here"),
    }  # fmt: skip


@pytest.mark.behavior("An absent target delays no other handler; it gets the missed events later.")
@pytest.mark.parametrize("error", [TargetUnavailableError, OutcomeUnknownError])
def test_absent_target_is_suspended_and_catches_up(world: PipelinesHarness, error: type[UnavailableError]) -> None:
    bulk = Bulk()
    written(world, A, ["one", "two"])
    session(world, absent(world, error=error))
    assert states(world) == {"out": FAILED}
    written(world, A, ["three"], at=5)
    session(world, absent(world, error=error))
    assert RecordingHandler.messages("good") == ["one", "two", "three"]  # each once: its checkpoints are committed
    world.end(A)
    session(world, elasticsearch(bulk))
    session(world, elasticsearch(bulk))
    assert messages(bulk) == ["one", "two", "three"] and states(world) == {}
    assert RecordingHandler.messages("good") == ["one", "two", "three"]


def test_short_outage_changes_no_state(world: PipelinesHarness) -> None:
    bulk = Bulk()
    written(world, A, ["one", "two"])
    session(world, elasticsearch(bulk, [503, "lost"]))
    assert messages(bulk) == ["one", "two"] and states(world) == {} and dead(world) == {}


def test_target_that_asks_to_wait_gets_no_request_meanwhile(world: PipelinesHarness) -> None:
    wire = Wire(Bulk(), [503])
    moments: list[int] = []

    class Timed(Wire):
        def post(self, *given: Any) -> Answer:
            moments.append(world.clock.now_ms())
            return wire.post(*given)

    written(world, A, ["one", "two"])
    worker = begun(world, lambda *_: ElasticsearchTarget(Timed(Bulk()), "http://es", "logs"))
    world.work(worker)
    assert len(moments) == 2 and moments[1] - moments[0] >= 7_000, "the wire's Retry-After"
    assert worker.delivery.receiving["out"]
    worker.stop()
    assert states(world) == {}


@pytest.mark.parametrize("timeout_s", [0.0, forward_handler.REQUEST_TIMEOUT_S])
def test_long_lived_worker_suspends_and_tries_again(world: PipelinesHarness, timeout_s: float) -> None:
    written(world, A, ["one"])
    worker = begun(world, absent(world, timeout_s))
    began_ms = world.clock.now_ms()
    while not states(world):
        worker.step()
        world.clock.advance(1)
        assert not worker.wants_restart
        assert world.clock.now_ms() - began_ms < 2 * SUSPEND_AFTER_MS + 15_000
    assert world.clock.now_ms() - began_ms >= SUSPEND_AFTER_MS
    while not worker.wants_restart:
        worker.step()
        world.clock.advance(1)
        assert world.clock.now_ms() - began_ms < 2 * SUSPEND_AFTER_MS + 2 * RESUME_AFTER_MS
    worker.stop()
    again = begun(world, absent(world, timeout_s))
    world.work(again, 5)
    assert not again.delivery.receiving["out"], "a suspended handler is on trial"
    again.stop()


def test_call_is_bounded_in_time(world: PipelinesHarness) -> None:
    """However many batches wait, a call ends within a request's timeout after ``max_s``."""
    written(world, A, [f"{number} " + "x" * 1000 for number in range(6000)])
    world.end(A)
    worker = begun(world, absent(world, forward_handler.REQUEST_TIMEOUT_S))
    before_ms = world.clock.now_ms()
    while worker.delivery.receiving["out"]:
        worker.step()
        took_ms, before_ms = world.clock.now_ms() - before_ms, world.clock.now_ms() + 1000
        assert took_ms <= 1000 * (forward_handler.POLICY.max_s + forward_handler.REQUEST_TIMEOUT_S)
        world.clock.advance(1)
    world.work(worker)
    worker.stop()
    assert len(RecordingHandler.messages("good")) == 6000


def test_slow_target_that_accepts_events_gets_them_all(world: PipelinesHarness) -> None:
    """Each request takes longer than a call may begin requests for: the calls go on where the last one stopped."""
    client = LogsClient(world.clock)

    class Slow(LogsClient):
        def put_log_events(self, **given: Any) -> dict[str, Any]:
            world.clock.advance(forward_handler.POLICY.max_s + 1)
            return client.put_log_events(**given)

        def __getattr__(self, name: str) -> Any:
            return getattr(client, name)

    slow = Slow(world.clock)
    slow.groups = client.groups
    runs = [Run("svc.a", f"r{number}") for number in range(5)]
    for run in runs:
        written(world, run, ["one", "two"])
    worker = begun(world, lambda *_: CloudWatchLogsTarget(slow, "g"))
    for _ in range(60):
        before_ms = world.clock.now_ms()
        worker.step()
        assert world.clock.now_ms() - before_ms <= 2000 * (forward_handler.POLICY.max_s + 1), "one run, whose stream is missing"
        world.clock.advance(1)
    worker.stop()
    assert {stream: len(rows) for stream, rows in client.groups["g"].items()} == {f"svc.a/{run.run_id}": 2 for run in runs}
    assert states(world) == {} and dead(world) == {}


@pytest.mark.parametrize(("seconds", "count"), [(forward_handler.REQUEST_TIMEOUT_S, 900), (0.5, 2500)])
def test_slow_refusals_hold_no_call_and_the_bad_event_is_found(world: PipelinesHarness, seconds: float, count: int) -> None:
    """Requests with the bad event fail as a whole: 900 events wait for a flush, with 2,500 ``emit`` has no room."""
    bulk, took_s = Bulk(), []

    class Picky(Wire):
        def post(self, url: str, headers: Mapping[str, str], body: bytes) -> Answer:
            world.clock.advance(seconds)
            return Answer(400, b"{}") if b'"bad"' in body else super().post(url, headers, body)

    written(world, A, [f"{number}" if number != 700 else "bad" for number in range(count)])
    worker = begun(world, lambda *_: ElasticsearchTarget(Picky(bulk), "http://es", "logs"))
    handler = worker.context.handlers["out"]

    def timed(call: Callable[..., None]) -> Callable[..., None]:
        def run(*arguments: Any) -> None:
            before_ms = world.clock.now_ms()
            try:
                call(*arguments)
            finally:
                took_s.append((world.clock.now_ms() - before_ms) / 1000)

        return run

    handler.emit, handler.flush = timed(handler.emit), timed(handler.flush)  # type: ignore[method-assign]
    for _ in range(60):
        worker.step()
        world.clock.advance(LONGEST_FLUSH_PAUSE_MS / 1000)
    worker.stop()
    most_s = forward_handler.POLICY.max_s + forward_handler.REQUEST_TIMEOUT_S
    assert max(took_s) <= most_s + (forward_handler.EMIT_S if count > 1000 else 0)
    assert len(bulk.documents) == count - 1 and states(world) == {}
    assert dead(world) == {"bad": "RequestRefusedError: elasticsearch did not accept events status=400 answer='{}'"}


def test_refused_events_are_dead_letters_and_too_many_disable_the_handler(world: PipelinesHarness) -> None:
    bulk = Bulk(reject=lambda found: 400 if "bad" in found["message"] else 201)
    written(world, A, ["one", "bad", "three"])
    session(world, elasticsearch(bulk), forwarding(errors={"max": 2}))
    assert messages(bulk) == ["one", "three"]
    assert dead(world) == {"bad": "RequestRefusedError: status=400 document_parsing_exception: no"}
    written(world, A, ["bad 1", "bad 2", "bad 3", "good"], at=5)
    session(world, elasticsearch(bulk), forwarding(errors={"max": 2}))
    assert set(dead(world)) == {"bad", "bad 1", "bad 2"} and states(world) == {"out": DISABLED}


@pytest.mark.parametrize(
    ("other", "reason"),
    [
        (B, "one of 4 events, of several pipelines, rejected"),
        (Run("svc.a", "r2"), "one of 4 events, to svc.a/r2 line 1, rejected: too strange"),
    ],
)
def test_unnamed_refusals_name_the_request_of_one_pipeline(world: PipelinesHarness, other: Run, reason: str) -> None:
    otlp = Otlp(reject=lambda found: 400 if found["message"] == "bad" else 200)
    for run in (A, other):
        written(world, run, ["one", "bad"])
        world.end(run)
    session(world, lambda *_: OtlpTarget(Wire(otlp), "http://otel"))
    assert dead(world) == {"one": f"RequestRefusedError: {reason}"}
    stored = json.dumps(world.dead_letters())
    assert ("too strange" in stored, "svc.b" in stored) == (other != B, False)
    resources = [(each["service.name"], each["service.instance.id"]) for each in otlp.resources][:2]
    assert resources == [("svc.a", "r1"), (other.fqn, other.run_id)]


def test_nothing_is_sent_without_the_lease(world: PipelinesHarness) -> None:
    bulk = Bulk()
    record = record_maker(A, "")(PendingEvent(START_MS, "", 0, 0, START_MS, 0, ParsedLine(None, None, None, "one")))

    def lost() -> None:
        raise LeaseError("lost")

    handler = forward_handler.ForwardHandler({"kind": "elasticsearch", "url": "http://es", "index": "logs"})
    handler.use(HandlerContext(world.store, world.database, world.clock, "test", lost, make_target=elasticsearch(bulk)))
    handler.handle(record)
    with pytest.raises(LeaseError):
        handler.flush()
    handler.close()
    assert bulk.requests == 0


def _unreadable(*_: Any) -> Target:
    raise UnavailableError("ssm:read failed")


def test_unreadable_secret_suspends_the_handler(world: PipelinesHarness) -> None:
    bulk = Bulk()
    written(world, A, ["one"])
    session(world, _unreadable)
    assert states(world) == {"out": FAILED} and RecordingHandler.messages("good") == ["one"]
    session(world, elasticsearch(bulk))
    assert messages(bulk) == ["one"] and states(world) == {}


@pytest.mark.parametrize(
    ("target", "field"),
    [
        ({"kind": "elasticsearch"}, "elasticsearch.url"),
        ({"kind": "smoke"}, "kind"),
        ({"kind": "otlp", "url": "ftp://h"}, "otlp.url"),
    ],
)
def test_invalid_targets(target: Mapping[str, Any], field: str) -> None:
    with pytest.raises(InvalidConfigurationError, match=f"field={field}"):
        forward_handler.ForwardHandler(target)
    logging_ = {"version": 1, "handlers": {"out": {"class": FORWARD, "target": target}}, "root": {"handlers": ["out"]}}
    with pytest.raises(InvalidConfigurationError, match=f"field={field} handler=out"):
        parse_pipeline_file(yaml.safe_dump({"logging": logging_}), "test")


# Outputs of RUNLAKE_EVENTS

LOGSTASH = {"kind": "logstash", "url": "https://ls", "headers": {"Authorization": "hush"}}


def loaded(*outputs: Any, files: Sequence[ConfigFile] = ()) -> LoadedPipelines:
    named = EventsConfiguration(outputs=list(outputs)).named_outputs
    return load_pipelines(files, outputs=[Output(name, target) for name, target in named])


def test_each_output_has_a_pipeline_of_its_own() -> None:
    found = loaded(LOGSTASH, {**LOGSTASH, "name": "search"}, {"kind": "otlp", "url": "https://otel"})
    assert not found.problems
    _, unnamed, named, otlp = found.pipelines
    assert (named.name, named.source.what) == ("output.search", ("*",))
    assert unnamed.name.startswith("output.logstash-") and otlp.name.startswith("output.otlp-")
    other_credentials = {**LOGSTASH, "headers": {}, "headers_from": {"Authorization": "ssm:/token"}}
    assert loaded(otlp.logging.handlers["forward"]["target"], other_credentials).pipelines[2].name == unnamed.name
    assert output_pipeline(Output("x", LOGSTASH, ("sales.*", "hr.?"))).source.what == ("sales.*", "hr.?")


def test_invalid_outputs_are_skipped_without_their_values() -> None:
    name = loaded(LOGSTASH).pipelines[1].name
    files = [ConfigFile("mine.yaml", "mine", yaml.safe_dump({"name": of_output, "logging": {
        "version": 1, "handlers": {"h": {"class": "logging.NullHandler"}}, "root": {"handlers": ["h"]},
    }})) for of_output in (name, "output.old")]  # fmt: skip
    found = loaded({"kind": "smoke", "url": "hush", "name": "old"}, "hush", LOGSTASH, files=files)
    assert [each.name for each in found.pipelines] == ["runlake", name], (
        "files have no names of outputs, whose targets are not checked"
    )
    assert [each.location for each in found.problems] == ["RUNLAKE_EVENTS"] * 2 + ["mine.yaml"] * 2
    assert [each.reason.rpartition(" output=")[2] for each in found.problems[:2]] == ["old", "output"]
    assert not any("hush" in each.reason or "ush'" in each.reason for each in found.problems)


def test_output_is_delivered_by_its_pipeline(world: PipelinesHarness) -> None:
    bulk = Bulk()
    written(world, A, ["one", "two"])
    session(world, elasticsearch(bulk), output_pipeline(Output("es", {"kind": "elasticsearch", "url": "http://es", "index": "i"})))
    assert messages(bulk) == ["one", "two"]
