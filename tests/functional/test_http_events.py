"""Events over HTTP: browsing returns the sent events."""

from __future__ import annotations

import gzip
import json
from importlib.metadata import EntryPoint
from typing import Any

import pytest

from chalicelib import composition
from chalicelib.aws import browsers
from chalicelib.deadline import Deadline
from chalicelib.events import plugins
from chalicelib.events.event import Loggable
from chalicelib.events.targets.elasticsearch import ElasticsearchTarget
from chalicelib.ports import Run
from chalicelib.response_size import RESPONSE_BYTES
from tests.events_harness import notify
from tests.functional.gateway import Answer, call, installed, post
from tests.functional.gateway import get as get_log
from tests.functional.test_no_secret_leaves import everything_said
from tests.ingestion_harness import ingest_one, ingester_of, message, s3_record
from tests.issuer import JWT, Issuer, bearer
from tests.stored_logs import StoredWriter
from tests.support.publisher import InMemoryPublisher
from tests.support.run_catalog import InMemoryRunCatalog
from tests.vendors import Searchable, Wire
from tests.world import START_MS, World

RUN = "/v1/events/svc.pipeline/run-1"
JSON = {"Content-Type": "application/json"}
NDJSON = {"Content-Type": "application/x-ndjson"}
ELSEWHERE = json.dumps({"browser": "elasticsearch", "browsers": {"elasticsearch": {"url": "https://es", "index": "logs"}}})


@pytest.fixture
def world() -> Any:
    with installed(World(), instance_id="house-1") as world:
        yield world


@pytest.fixture
def vendor(monkeypatch: pytest.MonkeyPatch) -> Searchable:
    """The store that browsers read."""
    vendor = Searchable()
    monkeypatch.setattr(browsers, "make_transport", lambda *_: Wire(vendor))
    return vendor


def writer_to(vendor: Searchable, world: World) -> StoredWriter:
    loggable = Loggable("house-1", "run", "run-1", "svc.pipeline")
    return StoredWriter(ElasticsearchTarget(Wire(vendor), "https://es", "logs"), loggable, world.clock, "w")


def send(body: Any, query: str = "", headers: dict[str, str] = JSON) -> Answer:
    text = body if isinstance(body, str | bytes) else json.dumps(body)
    return call("POST", RUN + query, text, headers)


def get(what: str = "", query: str = "") -> Any:
    answer = call("GET", f"{RUN}{what}{query}")
    assert answer.status == 200, answer.body
    return answer.json


def read_page(what: str) -> Answer:
    return get_log(f"svc.pipeline/{what}")


def close() -> None:
    assert post("svc.pipeline/run-1/close").status == 200


def start_elsewhere() -> Any:
    answer = call("PUT", f"{RUN}/starts/a", '{"method": "target"}', JSON)
    assert answer.status == 200, answer.body
    return answer.json


@pytest.mark.behavior("A run whose logging method is not the run log takes no lines over HTTP.")
def test_run_of_another_method_takes_no_lines_and_all_else() -> None:
    world, item = World(), {"message": "m", "runlake": {"fqn": "svc.pipeline", "run_id": "run-1"}}
    with installed(world, events=ELSEWHERE, instance_id="house-1"):
        started = start_elsewhere()
        assert (started["runId"], started["instanceId"]) == ("run-1", "house-1")
        cookie = {**JSON, "Cookie": f"PIPELINE_SESSION={started['position']}"}
        for answer in (send({"message": "m"}), send({"message": "m"}, headers=cookie), post("svc.pipeline/run-1", '"m"')):
            assert (answer.status, answer.json["message"].partition(" method=")[2]) == (409, "target")
        refused = call("POST", "/v1/agents/fluent", json.dumps(item), JSON)
        assert refused.status == 409 and "method=target" in refused.body
        assert call("POST", "/v1/events/other.a/r", '{"message": "hello"}', JSON).status == 200
        assert call("PUT", f"{RUN}/heartbeat").status == call("PUT", f"{RUN}/writers/w").status == 200
        assert call("POST", f"{RUN}/steps/s", '{"status": "running"}', JSON).status == 200
        close()
        assert start_elsewhere() | {"position": ""} == started | {"position": ""}
        again = call("PUT", f"{RUN}/starts/b", '{"method": "target"}', JSON).json
        assert (again["runId"], call("POST", "/v1/events/svc.pipeline/run-1~2", '{"message": "m"}', JSON).status) == (
            "run-1~2",
            409,
        )


@pytest.mark.behavior("The completeness of a run in another store is that of its events there.")
def test_completeness_of_a_run_in_another_store_counts_its_events_there(vendor: Searchable) -> None:
    world = World()
    with installed(world, events=ELSEWHERE, instance_id="house-1"):
        start_elsewhere()
        writer = writer_to(vendor, world)
        call("PUT", f"{RUN}/writers/w")
        for number in range(3):
            writer.write(f"line {number}", ms=START_MS + number)
        writer.close(unsent=1)
        assert get("/completeness")["state"] == "pending"
        call("POST", f"{RUN}/writers/w/close", '{"count": 4, "lastTimestamp": 9}', JSON)
        close()
        started_s = world.clock.monotonic_s()
        assert get("/completeness", "?wait=25")["state"] == "pending" and world.clock.monotonic_s() - started_s == 9
        world.clock.advance(301)
        assert get("/completeness") == {
            "state": "lost", "sealed": True, "lost": ["w"], "after": None,
            "writers": [{"writer": "w", "opened": True, "closed": True, "count": 4, "visible": 3, "missing": [[3, 3]], "lastTimestamp": 9}],
        }  # fmt: skip
        writer = writer_to(vendor, world)
        for number in range(4):
            writer.write(f"line {number}", ms=START_MS - number)
        writer.flush()
        assert get("/completeness")["state"] == "complete"
        vendor.alter = lambda answer: answer.update(timed_out=True)
        assert call("GET", f"{RUN}/completeness").status == 503


@pytest.mark.behavior("Reads over HTTP use the browser that was configured when the run began.")
def test_reads_use_the_browser_of_the_run(vendor: Searchable) -> None:
    """Pages, steps, events and downloads come from the other store; the rest of the API reads the run log."""
    world, runs, run = World(), InMemoryRunCatalog(), Run("svc.pipeline", "run-1")
    with installed(world, runs=runs, events=ELSEWHERE, instance_id="house-1"):
        send({"message": "in the run log"})
        before = call("GET", f"{RUN}/log").json["text"]
        ingest_one(ingester_of(world, runs, InMemoryPublisher()), message(s3_record(world.layout.segment(run, 0))))
        writer = writer_to(vendor, world)
        for number in range(5):
            writer.write(f"line {number}\n+ {number}", "odd" if number % 2 else "even", level="ERROR")
        writer.close()
        text = "".join(f"line {number}\n+ {number}\n" for number in range(5))
        assert before == "in the run log\n" and get("/log")["text"] == text
        odd = get("/log", "?step=odd&maxLines=1")
        assert (odd["text"], get("/log", f"?step=odd&start={odd['next']}")["text"]) == ("line 1\n", "+ 1\nline 3\n+ 3\n")
        first = get("", "?limit=2&step=even&level=error&text=line")
        assert [(each["line"], each["message"]) for each in first["events"]] == [(0, "line 0\n+ 0"), (4, "line 2\n+ 2")]
        assert [each["line"] for each in get("", f"?outline=true&after={first['after']}")["events"]] == [6, 8]
        assert get("", "?from=1&to=2")["events"] == []
        page = read_page("run-1?after=3&limit=2").json
        assert (page["logs"], page["after"], page["total"], page["streaming"]) == ("+ 1\nline 2", "5", 10, True)
        assert read_page("last?tail=3").json | {"streaming": 0} == {
            "logs": "+ 3\nline 4\n+ 4",
            "after": None,
            "total": 10,
            "streaming": 0,
        }
        started_s = world.clock.monotonic_s()
        assert read_page("run-1?after=99&wait=12").json["logs"] == "" and world.clock.monotonic_s() - started_s == 12
        assert read_page("run-1?since=2026-01-01").status == 400
        assert read_page("run-1/download").body == read_page("last/download").body == text
        assert read_page("run-1/download?link=true").json == {"location": None}
        assert [each["lines"] for each in get("/steps")["steps"]] == [] and read_page("other/download").status == 404
    with installed(world, runs=runs, instance_id="house-1"):
        assert get("/log")["text"] == "in the run log\n", "no browser but the run log is configured"


@pytest.mark.behavior("A run in another store is followed live, and searches of it are refused.")
def test_run_in_another_store_is_followed_and_not_searched(vendor: Searchable, monkeypatch: pytest.MonkeyPatch) -> None:
    world, runs = World(), InMemoryRunCatalog()
    with installed(world, runs=runs, events=ELSEWHERE, instance_id="house-1"):
        start_elsewhere()
        facts = "/v1/catalog/pipelines/svc.pipeline/runs/run-1"
        assert (call("GET", facts).json["method"], call("GET", facts).json["browser"]) == ("target", "elasticsearch")
        assert call("GET", f"{facts}/grep?q=line").status == 400
        writer = writer_to(vendor, world)
        for text in ("one", "", "three"):
            writer.write(text)
        writer.flush()
        frames = followed("after=0")
        assert [each.get("logs") for each in frames] == ["one\n\nthree\n", None] and frames[1]["reason"] == "maxDuration"
        assert [each.get("logs") for each in followed("tail=1")] == ["three\n", None]
        started_s = world.clock.monotonic_s()
        (idle,) = followed("after=3&wait=15")
        assert (idle["after"], idle["reason"], world.clock.monotonic_s() - started_s) == ("3", "maxDuration", 10)
        (until,) = followed(f"after=3&until={world.clock.now_ms()}")
        assert until["reason"] == "untilReached"
        close()
        ingest_one(
            ingester_of(world, runs, InMemoryPublisher()), message(s3_record(world.layout.segment(Run("svc.pipeline", "run-1"), 0)))
        )
        vendor.refreshes = False
        writer.write("late")
        writer.close()
        monkeypatch.setattr(world.clock, "sleep", lambda seconds: world.clock.advance(seconds) or vendor.refresh())
        assert [each.get("logs") for each in followed("after=3&wait=15")] == ["late\n", None], "the store shows it after the end"
        (end,) = followed("after=4&wait=15")
        assert end["reason"] == "runFinished"


def followed(query: str) -> list[Any]:
    """The frames of a response of the live stream."""
    answer = call("GET", f"/v1/services/ingestionPipelines/logs/svc.pipeline/stream/run-1?{query}")
    return [json.loads(line.removeprefix("data: ")) for line in answer.body.splitlines() if line.startswith("data: ")]


def test_log_in_another_store_that_is_too_slow_or_too_large_is_reported(
    vendor: Searchable, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = World()
    with installed(world, events=ELSEWHERE, instance_id="house-1"):
        writer = writer_to(vendor, world)
        for message in (*["x" * 1_100_000] * 6, "last"):
            writer.write(message)
        writer.close()
        assert read_page("run-1/download").status == 400
        assert read_page("run-1?tail=1").json["logs"] == "last" and len(read_page("run-1").json["logs"]) > 1_000_000
        monkeypatch.setattr(Deadline, "remaining_s", lambda _: 0.0)
        assert read_page("run-1?after=1").status == 503


def test_one_event_a_list_and_ndjson(world: World) -> None:
    one = send({"message": "one"})
    assert one.status == 200
    assert one.json == {"accepted": 1, "firstLine": 0, "position": one.json["position"], "repeated": False, "errors": []}
    assert one.cookie == f"PIPELINE_SESSION={one.json['position']}"
    assert send([{"message": "two"}, {"message": "three\nlines"}]).json["firstLine"] == 1
    assert send('{"message": "four"}\n\n{"message": "five"}\n', headers=NDJSON).json["accepted"] == 2
    assert send(b'{"message": "six"}', headers=NDJSON).json["accepted"] == 1
    packed = gzip.compress(b'[{"message": "seven"}]')
    assert send(packed, headers=JSON | {"Content-Encoding": "gzip"}).json["accepted"] == 1
    events = get()["events"]
    assert [event["message"] for event in events] == ["one", "two", "three\nlines", "four", "five", "six", "seven"]
    assert events[0]["data"] == {
        "instanceId": "house-1", "loggableType": "run", "loggableId": "run-1", "jobId": "svc.pipeline",
    }  # fmt: skip


@pytest.mark.behavior("An invalid event is reported, and the others of its batch are stored.")
def test_bad_items_are_reported_individually_and_good_ones_stored(world: World) -> None:
    body = [
        {"message": "a"},
        {"message": 5},
        7,
        {"message": "b", "what": 1},
        {"message": "c", "data": {"loggableId": "no"}},
        {"message": "d"},
    ]
    answer = send(body)
    assert answer.json["accepted"] == 2
    assert [(each["index"], each["code"]) for each in answer.json["errors"]] == [(1, 400), (2, 400), (3, 400), (4, 400)]
    lines = send('{"message": "e"}\nno json\n{"message": "f"}', headers=NDJSON)
    assert (lines.json["accepted"], [each["index"] for each in lines.json["errors"]]) == (2, [1])
    assert [event["message"] for event in get()["events"]] == ["a", "d", "e", "f"]


@pytest.mark.parametrize(
    ("body", "headers", "status"),
    [
        ("no json", JSON, 400),
        ('{"message": NaN}', JSON, 400),
        ("5", JSON, 400),
        ('[{"message": 5}]', JSON, 400),
        ("[" * 100_000, JSON, 400),
        ('{"message": "x"}', {"Content-Type": "image/png"}, 415),
        ('{"message": "x"}', {"Content-Type": "text/plain"}, 415),
    ],
)
def test_invalid_batch_stores_nothing(world: World, body: str, headers: dict[str, str], status: int) -> None:
    answer = send(body, headers=headers)
    assert (answer.status, answer.json["code"]) == (status, status)
    assert get()["events"] == []


def test_lone_surrogates_cost_no_batch(world: World) -> None:
    assert send('{"message": "a\\ud800b", "data": {"\\udc00": "\\ud800"}}').json["accepted"] == 1
    (event,) = get()["events"]
    assert event["message"] == "a\ufffdb" and event["data"]["\ufffd"] == "\ufffd"


def test_a_repeat_is_stored_once_by_cookie_and_by_key(world: World) -> None:
    opened = send([])
    assert opened.json["firstLine"] is None
    headers = JSON | {"Cookie": opened.cookie}
    first, again = send({"message": "x"}, headers=headers), send({"message": "x"}, headers=headers)
    assert (first.json["repeated"], again.json["repeated"], again.json["firstLine"]) == (False, True, 0)
    keyed = JSON | {"Idempotency-Key": "k"}
    assert [send({"message": "y"}, headers=keyed).json["repeated"] for _ in range(2)] == [False, True]
    assert [event["message"] for event in get()["events"]] == ["x", "y"]


def test_writers_and_completeness(world: World) -> None:
    writer = f"{RUN}/writers/agent%2F1"
    assert call("PUT", writer).json == {"writer": "agent/1"}
    assert send({"message": "x", "id": 0}, "?writer=agent/1").status == 200
    assert call("POST", f"{writer}/close", '{"count": 2, "lastTimestamp": 9}', JSON).json == {"writer": "agent/1", "count": 2}
    assert call("POST", f"{writer}/close", '{"count": 3}', JSON).status == 409
    assert call("POST", f"{writer}/close", '{"count": -1}', JSON).status == 400
    assert get("/completeness", "?wait=1")["state"] == "pending"
    close()
    world.clock.advance(301)
    assert get("/completeness") == {
        "state": "lost", "sealed": True, "lost": ["agent/1"], "after": None,
        "writers": [{"writer": "agent/1", "opened": True, "closed": True, "count": 2, "visible": 1, "missing": [[1, 1]], "lastTimestamp": 9}],
    }  # fmt: skip


def test_steps_and_their_logs(world: World) -> None:
    send([{"message": f"{n}", "step": "ab"[n % 2], "timestamp": START_MS + n} for n in range(6)])
    told = call("POST", f"{RUN}/steps/a", json.dumps({"name": "Compile", "startedMs": START_MS, "status": "running"}), JSON)
    assert told.json == {
        "step": "a",
        "name": "Compile",
        "parent": None,
        "startedMs": START_MS,
        "endedMs": None,
        "status": "running",
    }
    assert call("POST", f"{RUN}/steps/a", '{"endedMs": 5, "status": "perhaps"}', JSON).status == 400
    first, second = get("/steps")["steps"]
    assert first == {
        "step": "a", "name": "Compile", "parent": None, "startedMs": START_MS, "endedMs": None, "durationMs": 4, "lines": 3, "bytes": 6,
        "errors": 0, "firstLine": 0, "lineRanges": [[0, 0], [2, 2], [4, 4]], "status": "running", "complete": False,
    }  # fmt: skip
    assert second["step"] == "b"
    page = get("/log", "?step=a&maxLines=2")
    assert page == {"text": "0\n2\n", "next": 4, "complete": False, "lines": 2}
    close()
    assert get("/log", "?step=a&start=4") == {"text": "4\n", "next": 6, "complete": True, "lines": 1}
    assert get("/log")["text"] == "0\n1\n2\n3\n4\n5\n"
    raw = call("GET", f"{RUN}/log?raw=true&step=b")
    assert (raw.body, raw.headers["X-Next"], raw.headers["X-Complete"]) == ("1\n3\n5\n", "6", "true")
    assert raw.headers["Content-Type"].startswith("text/plain")


def test_filters_and_cursor(world: World) -> None:
    send([{"message": f"m{n}", "step": "ab"[n % 2], "level": ["info", "WARN"][n % 2], "timestamp": n} for n in range(10)])
    page = get("", "?step=b&limit=2")
    assert [event["message"] for event in page["events"]] == ["m1", "m3"] and page["after"] == "4"
    assert [event["message"] for event in get("", "?step=b&after=4")["events"]] == ["m5", "m7", "m9"]
    assert [event["message"] for event in get("", "?level=warning&from=3&to=8&text=m")["events"]] == ["m3", "m5", "m7"]
    for query in ("?limit=0", "?limit=1001", "?after=x", "?from=-1", "?text=" + "x" * 1001, "?step=%0A", "?level=loud"):
        assert call("GET", RUN + query).status == 400
    for query in ("?start=-1", "?maxLines=0", "?raw=perhaps"):
        assert call("GET", f"{RUN}/log{query}").status == 400
    assert call("GET", f"{RUN}/completeness?wait=99").status == 400


def test_a_closed_run_is_a_conflict_and_an_unknown_one_is_empty(world: World) -> None:
    assert get() == {"events": [], "after": None}
    assert get("/log") == {"text": "", "next": 0, "complete": False, "lines": 0}
    assert get("/steps") == {"steps": [], "after": None}
    assert get("/completeness") == {"state": "pending", "sealed": False, "writers": [], "lost": [], "after": None}
    send({"message": "x"})
    close()
    assert send({"message": "y"}).status == 409


def test_names_with_slashes_and_other_paths(world: World) -> None:
    for url in ("/v1/events/a%2Fb/run-1", "/v1/events/a/b/run-1"):
        assert call("POST", url, '{"message": "x"}', JSON).status == 200
    assert len(call("GET", "/v1/events/a/b/run-1").json["events"]) == 2
    for method, url in (("POST", f"{RUN}/nonsense/x/y"), ("PUT", f"{RUN}/x/y"), ("GET", "/v1/events//run-1")):
        assert call(method, url, "{}", JSON).status in (404, 400, 200)
    assert call("PUT", f"{RUN}/x/y").status == 404


def test_plain_lines_and_events_stand_in_one_log(world: World) -> None:
    post("svc.pipeline/run-1", '"INFO plain\\n"', JSON)
    send({"message": "event"})
    assert call("GET", "/v1/services/ingestionPipelines/logs/svc.pipeline/run-1").json["logs"] == "INFO plain\nevent"
    close()
    assert [(event["id"], event["message"]) for event in get()["events"]] == [(0, "INFO plain"), (1, "event")]


def test_an_outline_has_standard_levels_and_the_last_event_of_a_running_run(world: World) -> None:
    send(
        [
            {"message": "two\nlines", "level": "Warn", "step": "load"},
            {"message": "x", "level": "SEVERE", "data": {"rows": 1}},
            {"message": "y"},
        ]
    )
    post("svc.pipeline/run-1", json.dumps("2026-09-21 10:00:00 INFO plain\nTraceback (most recent call last):\n  File"), JSON)
    assert get("", "?outline=true&limit=10") == {
        "events": [
            {"line": 0, "lines": 2, "severity": "WARNING", "hasData": False},
            {"line": 2, "lines": 1, "severity": "ERROR", "hasData": True},
            {"line": 3, "lines": 1, "severity": None, "hasData": False},
            {"line": 4, "lines": 1, "severity": "INFO", "hasData": False},
            {"line": 5, "lines": 2, "severity": "ERROR", "hasData": False},
        ],
        "after": None,
    }
    assert [(each["level"], each["severity"], each["hasData"]) for each in get()["events"]] == [
        ("Warn", "WARNING", False), ("SEVERE", "ERROR", True), (None, None, False), ("INFO", "INFO", False),
    ]  # fmt: skip
    assert get("", "?outline=true&step=load&limit=1")["events"] == [
        {"line": 0, "lines": 2, "severity": "WARNING", "hasData": False}
    ]
    assert call("GET", f"{RUN}?outline=x").status == 400


def test_masking_is_on_the_path_of_events_too() -> None:
    rules = '[{"fqn": "*", "values": ["hunter2-secret"]}]'
    with installed(World(), masking=rules) as world:
        send({"message": "a hunter2-secret", "data": {"x": "hunter2-secret"}, "step": "s"})
        call("POST", f"{RUN}/steps/s", '{"name": "hunter2-secret"}', JSON)
        everything = json.dumps([get(), get("/steps"), get("/log")])
        assert "hunter2" not in everything and everything.count("***configured-value***") == 4
        assert b"hunter2" not in b"".join(found.rope.materialize() for found in world.store._objects.values())


def test_notifications_bring_events_into_the_index(world: World) -> None:
    send({"message": "x", "step": "s", "id": 0}, "?writer=w")
    services = composition.services()
    assert services.events.index.visible(_run()) == {}
    notify(world, services.events, _run())  # type: ignore[arg-type]
    assert services.events.index.visible(_run())["w"].ranges == ((0, 0),)


def _run() -> Any:
    from chalicelib.ports import Run

    return Run("svc.pipeline", "run-1")


def test_list_that_is_too_large_for_a_response_is_paged(world: World) -> None:
    """Characters that are escaped twice: six bytes each."""
    hard = "\x01" * 900_000
    for letter in "ab":
        assert send({"message": letter + hard, "step": "s"}).status == 200
    first = get()
    assert [event["message"][0] for event in first["events"]] == ["a"] and first["after"] == "1"
    assert first["events"][0].get("truncated") is True
    text, start = "", 0
    while (page := get("/log", f"?step=s&start={start}"))["next"] != start:
        text, start = text + page["text"], page["next"]
    assert text == f"a{hard}\nb{hard}\n"


def test_configuration_is_returned_without_secrets() -> None:
    document = "browsers: {cloudwatch: {group: x}}\noutputs: [{kind: logstash, url: 'https://h', headers: {api_key: hunter2}}]"
    with installed(World(), events=document, log_browser="cloudwatch"):
        found = call("GET", "/v1/configuration").json
    assert (found["browser"], found["browsers"]) == ("cloudwatch", {"cloudwatch": {"group": "x"}})
    assert found["outputs"] == [{"kind": "logstash", "url": "https://h", "headers": {"api_key": "***"}}]
    with installed(World(), log_browser="nonsense"):
        assert call("GET", "/v1/configuration").status == 500


def test_configuration_says_what_a_new_run_gets(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plugins, "entry_points", lambda group: [EntryPoint("absent", "no_such_module:x", group)])
    outputs = [{"kind": "logstash", "url": "https://h", "name": "copy"}]
    locators = [{"pattern": "svc.*", "browser": "absent", "outputs": []}, {"pattern": "*.x"}]
    document = json.dumps({"outputs": outputs, "locators": locators})
    with installed(World(), events=document), everything_said() as said:
        assert composition.services().events.plugin_problems == 1
        found = call("GET", "/v1/configuration?fqn=svc.a").json
        assert call("GET", "/v1/configuration").json == found | {"chosen": None}
        assert call("GET", "/v1/configuration?fqn=").status == 400
        of_x = {"browser": "runlog", "outputs": ["copy"]}
        assert call("GET", "/v1/configuration?fqn=b.x").json["chosen"] == of_x | {"fqn": "b.x", "locator": "*.x"}
    assert found["chosen"] == {"fqn": "svc.a", "browser": "absent", "outputs": [], "locator": "svc.*"}
    assert found["locators"] == [{"pattern": "svc.*", "browser": "absent", "outputs": []}, of_x | {"pattern": "*.x"}]
    problems = [(each["kind"], each["name"], each["fallback"]) for each in found["plugins"] if each["problem"]]
    assert problems == [("browser", "absent", "runlog")]
    assert {"kind": "output", "name": "copy", "protocol": 1, "problem": None, "fallback": None} in found["plugins"]
    assert '"plugin_name":"absent"' in said.getvalue() and "ModuleNotFoundError" in said.getvalue()


def test_invalid_outputs_and_options_are_reported_and_stop_only_reads_of_the_browser() -> None:
    invalid = "the name of a browser is its kind browser=cloudwatch field=kind"
    options = {"elasticsearch": {"url": "ftp://h", "index": "i"}, "cloudwatch": {"kind": "cloudwatch"}}
    locators = [{"pattern": "svc.*", "browser": "cloudwatch"}]
    document = json.dumps({"outputs": [{"kind": "logstash", "name": "copy"}], "browsers": options, "locators": locators})
    with installed(World(), events=document), everything_said() as said:
        assert composition.services().events.plugin_problems == 2
        found = call("GET", "/v1/configuration")
        answers = [call("GET", f"{RUN}{path}") for path in ("", "/log", "/completeness")] + [
            read_page(path) for path in ("run-1", "run-1/download")
        ]
        for answer in answers:
            assert (answer.status, answer.json["code"]) == (503, 503)
            assert answer.json["message"].endswith(f"corrected, {invalid}")
        assert send({"message": "stored"}).status == 200
    assert said.getvalue().count('"plugin_name":"cloudwatch"') == 1
    problems = {
        each["name"]: (each["kind"], each["problem"], each["fallback"]) for each in found.json["plugins"] if each["problem"]
    }
    assert problems == {
        "cloudwatch": ("browser", invalid, None),
        "copy": ("output", "invalid target, field required field=logstash.url", None),
        "elasticsearch": ("browser", problems["elasticsearch"][1], None),
    }
    assert "field=elasticsearch.url" in problems["elasticsearch"][1]


def test_configuration_names_nothing_of_other_teams() -> None:
    issuer = Issuer()
    hidden = ("layoffs", "hr-search", "hr-index", "hr-secret")
    output = {"kind": "elasticsearch", "url": "https://hr-search", "index": "hr-index", "headers_from": {"A": "ssm:/hr-secret"}}
    locators = [{"pattern": "hr.layoffs_*", "outputs": ["hr"]}, {"pattern": "svc.*", "outputs": []}]
    document = json.dumps(
        {"outputs": [output | {"name": "hr"}], "locators": locators, "rules": [{"fqn": "hr.layoffs_1", "run_id": "1"}]}
    )
    with installed(World(), events=document, keys=issuer.read, **JWT):
        for pattern, visible in (("svc.*", ()), ("pipelines/none", ()), ("hr.*", hidden[:3]), ("*", hidden[:3])):
            answer = call("GET", "/v1/configuration", headers=bearer(issuer.granted("operator", admin=[pattern])))
            assert answer.status == 200 and tuple(each for each in hidden if each in answer.body) == visible, pattern
        token = bearer(issuer.granted("operator", admin=["svc.*"]))
        statuses = [call("GET", f"/v1/configuration?fqn={fqn}", headers=token).status for fqn in ("svc.a", "other.a", "")]
        assert statuses == [200, 403, 400] and call("GET", "/v1/configuration?fqn=svc.a").status == 401


def test_steps_have_pages(world: World) -> None:
    send([{"message": "m", "step": f"s{number:02d}"} for number in range(25)])
    pages = [get("/steps", f"?limit=10&after={after}") for after in (0, 10, 20)]
    assert [page["after"] for page in pages] == ["10", "20", None]
    assert [step["step"] for page in pages for step in page["steps"]] == [f"s{number:02d}" for number in range(25)]
    assert get("/steps") == {"steps": [step for page in pages for step in page["steps"]], "after": None}
    assert call("GET", f"{RUN}/steps?limit=0").status == 400


@pytest.mark.slow
def test_more_steps_than_a_response_holds_are_listed_by_pages(world: World) -> None:
    for part in range(8):
        send([{"message": "m", "step": f"step-{part}-{number}-" + "é" * 60} for number in range(1000)])
    listed: list[str] = []
    after: str | None = "0"
    while after is not None:
        answer = call("GET", f"{RUN}/steps?after={after}")
        assert answer.status == 200 and len(json.dumps(answer.body)) <= RESPONSE_BYTES
        listed += [step["step"] for step in answer.json["steps"]]
        after = answer.json["after"]
    assert len(listed) == len(set(listed)) == 8000


def test_writers_have_pages(world: World) -> None:
    for number in range(5):
        call("PUT", f"{RUN}/writers/w{number}")
    first, last = get("/completeness", "?limit=3"), get("/completeness", "?limit=3&after=3")
    assert [each["writer"] for each in (*first["writers"], *last["writers"])] == [f"w{number}" for number in range(5)]
    assert (first["after"], last["after"], first["state"], last["state"]) == ("3", None, "pending", "pending")
