"""Log agents over HTTP, each in its format: the run's log contains the sent records, and rejections have the agent's format."""

from __future__ import annotations

import base64
import gzip
import json
from collections.abc import Callable, Iterator
from typing import Any

import msgpack
import pytest
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceResponse
from pydantic import SecretStr

from chalicelib import composition
from chalicelib.errors import InvalidConfigurationError, StoreUnavailableError
from chalicelib.events.codecs import bulk, fluent, otlp, otlp_answers
from chalicelib.events.event import NewEvent
from chalicelib.ports import Run
from chalicelib.routes import agent_requests
from tests.faults.interception import Intercepted
from tests.functional.gateway import Answer, call, event_of, get, handled, installed, post
from tests.issuer import JWT, Issuer, bearer
from tests.world import START_MS, World

AGENTS = "/v1/agents"
ISSUER = Issuer()
FQN, RUN_ID = "svc_sales.etl", "run-1"
RUN = Run(FQN, RUN_ID)
OWN = {"runlake": {"fqn": FQN, "run_id": RUN_ID}}
HEADERS = {"X-Runlake-Fqn": FQN, "X-Runlake-Run-Id": RUN_ID}
NDJSON = "application/x-ndjson"
PROTOBUF = "application/x-protobuf"


@pytest.fixture(name="world")
def _world() -> Iterator[World]:
    with installed(World()) as world:
        yield world


def send(path: str, body: str | bytes, content_type: str = "application/json", **headers: str) -> Answer:
    given = {name.replace("_", "-"): value for name, value in headers.items()}
    return call("POST", f"{AGENTS}/{path}", body, {"Content-Type": content_type, **given})


def lines(run: str = f"{FQN}/{RUN_ID}") -> list[str]:
    logs: str = get(f"{run}?limit=10000").json["logs"]
    return logs.split("\n") if logs else []


def own(message: str, **more: Any) -> dict[str, Any]:
    return {"message": message, **OWN, **more}


def ndjson(*values: Any) -> str:
    return "".join(json.dumps(value) + "\n" for value in values)


# ------------------------------------------------------------------------------------------------ Fluent Bit and Fluentd


def test_fluent_bit_and_fluentd_in_json(world: World) -> None:
    """The formats ``json``, ``json_lines`` and ``json_stream``."""
    records = [
        {"date": 1790000000.123456, "log": "one\n", **OWN},
        {"date": "2026-09-21T14:13:21.5Z", "log": "two", "level": "warn", **OWN},
    ]
    for body, content_type in (
        (json.dumps(records), "application/json"),
        (ndjson(*records), NDJSON),
        ("".join(map(json.dumps, records)), "application/json"),
    ):
        assert send("fluent", body, content_type).json == {"accepted": 2, "refused": 0, "errors": []}
    assert lines() == ["one", "two"] * 3


@pytest.mark.behavior("Fluent Bit and Fluentd can send records in each of their MessagePack forms.")
def test_fluent_msgpack_in_all_its_forms(world: World) -> None:
    time = msgpack.ExtType(0, (1790000000).to_bytes(4, "big") + (123_456_789).to_bytes(4, "big"))
    group = msgpack.ExtType(0, (0xFFFFFFFF).to_bytes(4, "big") + bytes(4))
    end = msgpack.ExtType(0, (0xFFFFFFFE).to_bytes(4, "big") + bytes(4))
    attributes = {"runlake.fqn": FQN, "runlake.run_id": RUN_ID}
    packed = msgpack.packb([time, own("five")]) + msgpack.packb([1790000000, own("six")])
    body = b"".join(
        msgpack.packb(value)
        for value in (
            [time, own("one")],
            [[time, {}], own("two")],
            own("three"),
            ["a.tag", time, own("four")],
            ["a.tag", packed, {"size": 2}],
            ["a.tag", [[time, own("seven")], [1790000000.5, own("eight")]]],
            [[group, {}], {"resource": {"attributes": attributes}}],
            [[time, {}], {"log": "nine"}],
            [[end, {}], {}],
        )
    )
    assert send("fluent", body, "application/msgpack").json["accepted"] == 9
    assert send("fluent", msgpack.packb([time, own("ten")]), "application/x-msgpack").json["accepted"] == 1
    assert lines() == ["one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten"]


@pytest.mark.parametrize("header", ["FLUENT-TAG", "X-Fluent-Tag", "X-Tag"])
def test_tag_names_the_run(world: World, header: str) -> None:
    assert call("POST", f"{AGENTS}/fluent", '{"log": "x"}', {header: f"runlake.{FQN}.{RUN_ID}"}).status == 200
    assert call("POST", f"{AGENTS}/fluent?tag=runlake.{FQN}.{RUN_ID}", '{"log": "y"}').status == 200
    assert lines() == ["x", "y"]


@pytest.mark.behavior("A log agent's invalid record is refused, and its other records are stored.")
def test_bad_items_are_refused_one_by_one_and_the_others_stored(world: World) -> None:
    body = (
        ndjson(own("one"))
        + "{broken\n"
        + ndjson({"message": "whose?"}, [], own("two"), {**OWN, "message": "x", "runlake.id": "no"})
    )
    answer = send("fluent", body, NDJSON)
    assert answer.status == 200 and lines() == ["one", "two"]
    assert (answer.json["accepted"], answer.json["refused"]) == (2, 4)
    assert [(each["index"], each["code"]) for each in answer.json["errors"]] == [(1, 400), (2, 400), (3, 400), (5, 400)]
    assert all("no rule matches" in answer.json["errors"][index]["message"] for index in (0, 1))
    assert send("fluent", body, NDJSON, **HEADERS).json["accepted"] == 4 and lines()[2:] == ["one", "{broken", "whose?", "two"]


def test_records_before_the_truncation_of_a_list_are_stored(world: World) -> None:
    answer = send("fluent", json.dumps([own("one"), own("two")])[:-5])
    assert (answer.status, answer.json["accepted"], lines()) == (200, 1, ["one"])


def test_records_before_the_truncation_of_msgpack_are_stored(world: World) -> None:
    answer = send(
        "fluent",
        fluent.encode_msgpack([NewEvent(message="one", data=OWN), NewEvent(message="two", data=OWN)])[:-3],
        "application/msgpack",
    )
    assert (answer.status, answer.json["accepted"], answer.json["refused"], lines()) == (200, 1, 1, ["one"])


@pytest.mark.parametrize("body", ["{broken", "[]]", '"text"', "7", "[[[[", "\x00", '[{"message": "whose?"}]', "{}"])
def test_request_without_a_valid_item_is_a_400(world: World, body: str) -> None:
    answer = send("fluent", body)
    assert (answer.status, answer.json["code"]) == (400, 400) and "refused=1" in answer.json["message"]


@pytest.mark.parametrize("body", ["", "[]", " \n", "null"])
@pytest.mark.parametrize("path", ["fluent", "logstash"])
def test_empty_body_is_accepted_and_null_is_refused(world: World, path: str, body: str) -> None:
    answer = send(path, body)
    assert answer.status == (400 if body == "null" else 200)


def test_deep_nesting_and_odd_numbers_are_handled(world: World) -> None:
    deep = '{"a":' * 5000 + "1" + "}" * 5000
    assert send("fluent", deep).status == 400
    assert send("fluent", ndjson(own("ok")) + deep + "\n").json["accepted"] == 1
    odd = json.dumps(own("@"))[:-1].replace("@", "\\ud800x") + ', "\\udfff": NaN, "m": -Infinity}'
    assert send("fluent", odd).status == 200
    assert send("fluent", odd.replace("NaN", "1e999")).status == 400, "no number that anybody could read again"
    assert lines() == ["ok", "\ufffdx"]


def test_a_repeated_chunk_is_stored_once_where_its_times_are_exact(world: World) -> None:
    """Fluent Bit retries a chunk byte for byte if the response was lost. Equal records in two chunks are two records."""
    exact = json.dumps([{"date": 1790000000.123456, "log": "x", **OWN}])
    coarse = json.dumps([{"date": 1790000000.123, "log": "y", **OWN}])
    for body in (exact, coarse):
        for _ in range(2):
            assert send("fluent", body).status == 200
    assert lines() == ["x", "y", "y"]
    for _ in range(2):
        assert send("fluent", coarse, Idempotency_Key="k").status == 200
    assert lines() == ["x", "y", "y", "y"], "a key of the agent's own"


def test_equal_bodies_of_two_agents_are_stored_each(world: World) -> None:
    body = json.dumps([{"@timestamp": "2026-09-21T14:13:20.123456Z", "message": "x", **OWN}])
    for agent in ("fluent", "logstash") * 2:
        assert send(agent, body).status == 200
    assert lines() == ["x"] * 2


# --------------------------------------------------------------------------------------------------------------- Logstash


@pytest.mark.behavior("Logstash can send records.")
def test_logstash(world: World) -> None:
    event = {"@timestamp": "2026-09-21T14:13:20.123Z", "message": "one", "log": {"level": "error"}, "tags": ["a"], **OWN}
    assert send("logstash", json.dumps(event)).json["accepted"] == 1
    assert send("logstash", json.dumps([event, own("two")])).json["accepted"] == 2
    assert send("logstash", "three\nfour", "text/plain", **HEADERS).json["accepted"] == 2
    assert lines() == ["one", "one", "two", "three", "four"]


def test_gzip_request(world: World) -> None:
    body = gzip.compress(json.dumps([own("one")]).encode())
    assert send("logstash", body, NDJSON, Content_Encoding="gzip").json["accepted"] == 1
    assert send("fluent", body, "application/octet-stream", Content_Encoding="gzip").json["accepted"] == 1
    assert send("fluent", b"\x1f\x8bbroken", NDJSON, Content_Encoding="gzip").status == 400
    assert lines() == ["one", "one"]


# ----------------------------------------------------------------------------------------------------------------- syslog

_5424 = (
    f'<13>1 2026-09-21T14:13:20.123456Z host app 42 ID [runlake@32473 fqn="{FQN}" run_id="{RUN_ID}" step="s"] \ufeffone\n\tat two\n'
)


@pytest.mark.behavior("Syslog messages of RFC 5424 and RFC 3164 are accepted.")
def test_syslog_lines(world: World) -> None:
    assert send("syslog", _5424 + _5424.replace("one", "three"), "text/plain").json["accepted"] == 2
    assert lines() == ["one", "\tat two", "three", "\tat two"]
    assert send("syslog", "<13>Sep 21 14:13:20 host app[42]: four\n", "text/plain", **HEADERS).json["accepted"] == 1
    assert send("syslog", "five\nsix", "text/plain", **HEADERS).json["accepted"] == 2
    assert lines()[4:] == ["four", "five", "six"]


@pytest.mark.behavior("A syslog message is stored whatever its header is.")
def test_syslog_message_with_any_header_is_stored(world: World) -> None:
    bad = ["<300>1 - - - - - - x", "<11>1 yesterday h a 1 - - x", '<11>1 - h a 1 - [x@1 a="b] x', "<11>2 x", "<11>", "<11>Nov 99 x"]
    for line in bad:
        assert send("syslog", line, "text/plain", **HEADERS).json == {"accepted": 1, "refused": 0, "errors": []}
    assert lines() == ["x", "x", '[x@1 a="b] x', "2 x", "<11>", "Nov 99 x"]


def test_equal_batches_of_syslog_are_stored_each(world: World) -> None:
    """A retry has later messages too, so equal bytes are no retry, also if their times are exact."""
    for _ in range(2):
        assert send("syslog", _5424, "text/plain").status == 200
    assert lines() == ["one", "\tat two"] * 2


def test_syslog_in_json(world: World) -> None:
    record = {"PROGRAM": "app", "PRIORITY": "notice", "MESSAGE": "one", "HOST": "h", "ISODATE": "2026-09-21T14:13:20+00:00", **OWN}
    assert send("syslog", json.dumps(record)).json["accepted"] == 1
    assert send("syslog", json.dumps([record, record])).json["accepted"] == 2
    assert send("syslog", ndjson(record), "text/plain").json["accepted"] == 1
    assert lines() == ["one"] * 4


# --------------------------------------------------------------------------------------------------------------- Firehose

REQUEST_ID = "ed4acda5-034f-9f42-bba1-f29aea6d7d8f"


def delivery(*data: bytes, request_id: str = REQUEST_ID) -> str:
    return json.dumps(
        {"requestId": request_id, "timestamp": START_MS, "records": [{"data": base64.b64encode(each).decode()} for each in data]}
    )


def deliver(body: str | bytes, request_id: str = REQUEST_ID, common: dict[str, str] | None = None, **headers: str) -> Answer:
    attributes = json.dumps({"commonAttributes": common or {"runlake.fqn": FQN, "runlake.run_id": RUN_ID}})
    given = {"X-Amz-Firehose-Request-Id": request_id, "X-Amz-Firehose-Common-Attributes": attributes, **headers}
    return call("POST", f"{AGENTS}/firehose", body, {"Content-Type": "application/json", **given})


@pytest.mark.behavior("AWS Data Firehose can deliver records.")
def test_firehose_is_answered_in_its_own_form(world: World) -> None:
    answer = deliver(delivery(b'{"message": "one"}\n', b"two\n", b'{"message": "three"}\n{"message": "four"}\n', b"{no json"))
    assert (answer.status, answer.json) == (200, {"requestId": REQUEST_ID, "timestamp": START_MS})
    assert answer.headers["Content-Type"] == "application/json"
    assert lines() == ["one", "two", "three", "four", "{no json"]


def test_a_delivery_that_is_repeated_is_stored_once(world: World) -> None:
    for _ in range(3):
        assert deliver(delivery(b"one", b"two")).status == 200
    assert deliver(delivery(b"one", b"two", request_id="another"), "another").status == 200
    assert lines() == ["one", "two"] * 2
    for attempt in ("a", "b"):  # the agent's own key takes precedence over the delivery's id
        assert deliver(delivery(b"three", request_id=attempt), attempt, **{"Idempotency-Key": "k"}).status == 200
    assert lines()[4:] == ["three"]


def test_equal_deliveries_without_an_id_are_stored_each(world: World) -> None:
    for _ in range(2):
        assert deliver(delivery(b'{"time": 1790000000.123456, "message": "one"}', request_id=""), "").status == 200
    assert lines() == ["one"] * 2


def test_events_of_cloudwatch_logs_in_a_delivery(world: World) -> None:
    def data(kind: str, stream: str, *messages: str) -> bytes:
        events = [{"id": str(n), "timestamp": START_MS + n, "message": message} for n, message in enumerate(messages)]
        message = {"messageType": kind, "owner": "1", "logGroup": "/aws/glue", "logStream": stream, "logEvents": events}
        return gzip.compress(json.dumps(message).encode())

    stream = f"runlake/{FQN}/{RUN_ID}"
    body = delivery(
        data("DATA_MESSAGE", stream, "one\n", "two"), data("CONTROL_MESSAGE", "x", "CWL CONTROL MESSAGE"), gzip.compress(b"{}")
    )
    answer = deliver(body, common={"x": "y"})
    assert answer.status == 200 and "refused=1 items=3" in answer.json["errorMessage"]
    assert lines() == ["one", "two"]


def test_response_of_a_delivery_reports_refused_records(world: World) -> None:
    assert deliver("{}").json["errorMessage"].startswith("the body is not a Firehose delivery")
    assert deliver("{}").status == 400 and deliver("{}").json["requestId"] == REQUEST_ID
    assert deliver(delivery(b"x"), "another").status == 400
    answer = deliver(delivery(b"x"), common={"a": "b"})
    assert answer.status == 400 and "no rule matches" in answer.json["errorMessage"]
    body = json.dumps({"requestId": REQUEST_ID, "records": [{"data": "%"}, {"data": base64.b64encode(b"one").decode()}]})
    answer = deliver(body)
    assert answer.status == 200 and "not base64 refused=1 items=2" in answer.json["errorMessage"] and lines() == ["one"]


def test_records_that_expand_too_far_store_nothing_of_their_delivery() -> None:
    with installed(World()) as world:
        answer = deliver(delivery(b"one", gzip.compress(b"x" * 4_000_000), gzip.compress(b"x" * 200_000)))
        assert answer.status == 413 and "expands too far" in answer.json["errorMessage"] and lines() == []
        answer = deliver(delivery(b"one", gzip.compress(b"x" * 4_000_000)))
        assert answer.status == 200 and world.body("segments/0000000000", Run(FQN, RUN_ID)).count(b"\n") == 2


# ------------------------------------------------------------------------------------------------------------------- OTLP

OTLP_EVENTS = [
    NewEvent(message="one", timestamp=START_MS, level="INFO"),
    NewEvent(message="two\nthree", timestamp=START_MS, level="ERROR"),
]
RESOURCE = {"service.name": FQN, "cicd.pipeline.run.id": RUN_ID}


def test_otlp_in_both_encodings(world: World) -> None:
    answer = send("otlp/v1/logs", otlp.encode_json(OTLP_EVENTS, RESOURCE).decode())
    assert (answer.status, answer.json) == (200, {})
    answer = send("otlp/v1/logs", otlp.encode_protobuf(OTLP_EVENTS, RESOURCE), PROTOBUF)
    assert (answer.status, answer.body, answer.headers["Content-Type"]) == (200, "", PROTOBUF)
    answer = send("otlp/v1/logs", gzip.compress(otlp.encode_protobuf(OTLP_EVENTS, RESOURCE)), PROTOBUF, Content_Encoding="gzip")
    assert answer.status == 200
    assert lines() == ["one", "two", "three"] * 3


@pytest.mark.behavior("OTLP requests are answered with the number of rejected records.")
@pytest.mark.parametrize("bad", [1, 126, 127, 128, 300])
def test_otlp_reports_a_partial_success(world: World, bad: int) -> None:
    """The protobuf response is ASCII for every number, so a text can contain it."""
    request = json.loads(otlp.encode_json(OTLP_EVENTS, RESOURCE))
    other = json.loads(otlp.encode_json([NewEvent(message="x")] * bad, {"service.name": "é" * 200}))
    request["resourceLogs"] += other["resourceLogs"]
    answer = send("otlp/v1/logs", json.dumps(request))
    assert answer.status == 200
    assert answer.json["partialSuccess"]["rejectedLogRecords"] == str(bad)
    assert f"refused={bad}" in answer.json["partialSuccess"]["errorMessage"]
    packed = otlp_answers.partial_success_protobuf(bad, "no rule: é")
    read = ExportLogsServiceResponse.FromString(packed.encode())
    assert packed.isascii() and read.partial_success.rejected_log_records == min(bad, 127)
    assert ("300 records" in read.partial_success.error_message) == (bad == 300)


def test_otlp_reports_a_partial_success_in_protobuf(world: World) -> None:
    packed = otlp.encode_protobuf(OTLP_EVENTS, RESOURCE) + otlp.encode_protobuf(OTLP_EVENTS, {})
    answer = send("otlp/v1/logs", packed, PROTOBUF)
    read = ExportLogsServiceResponse.FromString(answer.body.encode())
    assert (answer.status, read.partial_success.rejected_log_records) == (200, 2) and lines() == ["one", "two", "three"]


def test_otlp_refuses_in_the_encoding_of_the_request(world: World) -> None:
    answer = send("otlp/v1/logs", b"\xff\xff\xff", PROTOBUF)
    assert (answer.status, answer.headers["Content-Type"]) == (400, PROTOBUF) and "ExportLogsServiceRequest" in answer.body
    for body in ("[]", "{", "7", '{"resourceLogs": 7}', '{"resourceLogs": [7]}'):
        answer = send("otlp/v1/logs", body)
        assert (answer.status, answer.json["code"]) == (400, 400), body
    assert send("otlp/v1/logs", "x", "text/plain").status == 415
    assert send("otlp/v1/logs", "{}").json == {}


def test_a_bad_record_of_otlp_costs_only_itself(world: World) -> None:
    request = json.loads(otlp.encode_json(OTLP_EVENTS, RESOURCE))
    good = request["resourceLogs"][0]["scopeLogs"][0]["logRecords"]
    bad = [7, {"body": {"stringValue": "x"}, "attributes": [{"key": "runlake.id", "value": {"stringValue": "no"}}]}]
    request["resourceLogs"][0]["scopeLogs"][0]["logRecords"] = [good[0], *bad, good[1]]
    assert send("otlp/v1/logs", json.dumps(request)).json["partialSuccess"]["rejectedLogRecords"] == str(len(bad))
    assert lines() == ["one", "two", "three"]


def test_a_repeated_export_is_stored_once_where_its_times_are_exact(world: World) -> None:
    request = json.loads(otlp.encode_json(OTLP_EVENTS[:1], RESOURCE))
    record = request["resourceLogs"][0]["scopeLogs"][0]["logRecords"][0]
    for nanoseconds, copies in (("1790000000000000001", 1), ("1790000000000000000", 2)):
        record["timeUnixNano"], record["body"] = nanoseconds, {"stringValue": nanoseconds}
        for _ in range(2):
            assert send("otlp/v1/logs", json.dumps(request)).status == 200
        assert lines().count(nanoseconds) == copies


# ---------------------------------------------------------------------------------------------------------- Elasticsearch

ES = f"{AGENTS}/elasticsearch"


@pytest.mark.behavior("The `_bulk` requests of Elasticsearch clients are answered item by item.")
def test_bulk_answers_each_item(world: World) -> None:
    body = ndjson(
        {"create": {"_index": "logs", "_id": "a"}}, own("one"),
        {"index": {}}, own("two"),
        {"delete": {"_index": "logs", "_id": "a"}},
        {"update": {"_id": "a"}}, {"doc": {}},
        {"create": {}}, {"message": "whose?"},
        {"create": {}}, own("three"),
    ) + '{"create": {}}\n{broken\n{"nonsense": {}}\n' + ndjson({"create": {}})  # fmt: skip
    answer = call("POST", f"{ES}/default/_bulk", body, {"Content-Type": NDJSON})
    assert answer.status == 200 and answer.json["errors"] is True and answer.headers["X-Elastic-Product"] == "Elasticsearch"
    items = [next(iter(item.items())) for item in answer.json["items"]]
    assert [(name, item["status"]) for name, item in items] == [
        ("create", 201), ("index", 201), ("delete", 400), ("update", 400), ("create", 400), ("create", 201), ("create", 400), ("index", 400),
        ("create", 400),
    ]  # fmt: skip
    assert [(item["_index"], item["_id"]) for _, item in items][:3] == [("logs", "a"), ("default", "1"), ("logs", "a")]
    assert all({"type", "reason"} <= item["error"].keys() for _, item in items if item["status"] != 201)
    assert lines() == ["one", "two", "three"]


@pytest.mark.parametrize("method", ["POST", "PUT"])
@pytest.mark.parametrize("content_type", [NDJSON, "application/json", "application/vnd.elasticsearch+x-ndjson; compatible-with=9"])
def test_clients_send_bulks_in_several_ways(world: World, method: str, content_type: str) -> None:
    body = bulk.encode([NewEvent(message="one", data=OWN)], "logs").decode()
    answer = call(method, f"{ES}/_bulk", body, {"Content-Type": content_type})
    assert (answer.status, answer.json["errors"]) == (200, False) and lines() == ["one"]


def test_requests_that_elasticsearch_clients_send_first(world: World) -> None:
    for path in ("", "/"):
        answer = call("GET", ES + path)
        assert answer.status == 200 and answer.headers["X-Elastic-Product"] == "Elasticsearch"
        assert answer.json["version"]["number"].startswith("8.") and answer.json["tagline"] == "You Know, for Search"
    assert call("HEAD", f"{ES}/").status == 200
    assert call("GET", f"{ES}/_license").json["license"]["status"] == "active"
    assert call("GET", f"{ES}/_cluster/health").json["status"] == "green"
    with installed(World(), auth="jwt", keys=ISSUER.read, **{name: value for name, value in JWT.items() if name != "auth"}):
        answer = call("POST", f"{ES}/_bulk", "", bearer(ISSUER.granted("reader", logs_read=["*"])))
        assert (answer.status, answer.json["status"], answer.json["code"]) == (403, 403, 403)
        assert answer.json["error"]["reason"] == answer.json["message"] and answer.json["error"]["type"] == "security_exception"


def test_a_repeated_bulk_is_stored_once_where_documents_have_ids(world: World) -> None:
    events = [NewEvent(message=name, data=OWN) for name in ("one", "two")]
    for body in (bulk.encode(events, "logs", ["a", "b"]), bulk.encode(events, "logs", ["a", "c"]), bulk.encode(events, "logs")):
        for _ in range(2):
            assert call("POST", f"{ES}/_bulk", body.decode(), {"Content-Type": NDJSON}).json["errors"] is False
    assert lines() == ["one", "two"] * 4


# ------------------------------------------------------------------------------------------------- of all agents alike

EVERY_AGENT: dict[str, tuple[str, str, str]] = {
    "fluent": ("fluent", json.dumps([own("one"), own("two")]), "application/json"),
    "logstash": ("logstash", json.dumps([own("one"), own("two")]), "application/json"),
    "syslog": ("syslog", ndjson(own("one"), own("two")), "application/json"),
    "firehose": ("firehose", delivery(json.dumps(own("one")).encode(), json.dumps(own("two")).encode()), "application/json"),
    "otlp": (
        "otlp/v1/logs",
        otlp.encode_json([NewEvent(message="one"), NewEvent(message="two")], RESOURCE).decode(),
        "application/json",
    ),
    "elasticsearch": (
        "elasticsearch/_bulk",
        bulk.encode([NewEvent(message=m, data=OWN) for m in ("one", "two")], "i").decode(),
        NDJSON,
    ),
}


@pytest.mark.parametrize("agent", EVERY_AGENT)
@pytest.mark.parametrize(("end", "status"), [("closed", 409), ("deleted", 410)])
def test_closed_or_deleted_run_refuses_records(world: World, agent: str, end: str, status: int) -> None:
    """Each agent drops them by this status: of Firehose's bucket and of an item with 410 see ``docs/agents.md``."""
    post(f"{FQN}/{RUN_ID}", '"x"')
    if end == "closed":
        post(f"{FQN}/{RUN_ID}/close")
    else:
        call("DELETE", f"/v1/catalog/pipelines/{FQN}/runs/{RUN_ID}")
    path, body, content_type = EVERY_AGENT[agent]
    answer = send(path, body, content_type)
    if agent == "elasticsearch":
        errors = [(item["create"]["status"], item["create"]["error"]["type"]) for item in answer.json["items"]]
        assert errors == [(409, "run_deleted" if end == "deleted" else "cluster_block_exception")] * 2
    else:
        assert answer.status == (200 if (agent, end) == ("firehose", "deleted") else status)
    assert f"the run {'is' if end == 'closed' else 'was'} {end}" in answer.body
    assert end == "deleted" or lines() == ["x"]


@pytest.mark.parametrize("agent", EVERY_AGENT)
def test_store_outage_is_a_retryable_503(agent: str) -> None:
    world, is_away = World(), [True]

    def gate(_: str, made: Callable[[], Any]) -> Any:
        if is_away[0]:
            raise StoreUnavailableError("the store is away")
        return made()

    with installed(world, store=Intercepted(world.store, gate)):
        path, body, content_type = EVERY_AGENT[agent]
        answer = send(path, body, content_type)
        assert (answer.status, answer.headers["Retry-After"]) == (503, "1")
        is_away[0] = False
        assert send(path, body, content_type).status == 200 and lines() == ["one", "two"]


@pytest.mark.parametrize("agent", EVERY_AGENT)
def test_principal_without_permission_for_the_pipeline_is_refused(agent: str) -> None:
    path, body, content_type = EVERY_AGENT[agent]
    with installed(World(), keys=ISSUER.read, **JWT):
        hr, nobody = bearer(ISSUER.granted("hr", logs_write=["svc_hr.*"])), bearer(ISSUER.granted("x", logs_read=["*"]))
        answer = send(path, body, content_type, **hr)
        if agent == "elasticsearch":
            assert [item["create"]["error"]["type"] for item in answer.json["items"]] == ["security_exception"] * 2
        else:
            assert answer.status == 403
        assert send(path, body, content_type, **nobody).status == 403
        assert send(path, body, content_type).status == 401
        reader = bearer(ISSUER.granted("r", logs_read=["*"]))
        assert get(f"{FQN}/{RUN_ID}", headers=reader).json["total"] == 0


def test_items_of_pipelines_that_may_not_be_written_are_refused_one_by_one() -> None:
    with installed(World(), keys=ISSUER.read, **JWT):
        token = bearer(ISSUER.granted("sales", logs_write=["svc_sales.*"], logs_read=["*"]))
        answer = send(
            "fluent", json.dumps([own("one"), {"log": "x", "runlake": {"fqn": "svc_hr.etl", "run_id": "r"}}, own("two")]), **token
        )
        assert answer.json["accepted"] == 2 and [(e["index"], e["code"]) for e in answer.json["errors"]] == [(1, 403)]
        assert get(f"{FQN}/{RUN_ID}", headers=token).json["logs"] == "one\ntwo"


def test_firehose_shows_its_token_in_its_own_header() -> None:
    with installed(World(), keys=ISSUER.read, **JWT):
        token = bearer(ISSUER.granted("firehose", logs_write=["svc_sales.*"]))["Authorization"].removeprefix("Bearer ")
        assert deliver(delivery(b"one"), **{"X-Amz-Firehose-Access-Key": token}).status == 200
        assert deliver(delivery(b"one"), **{"X-Amz-Firehose-Access-Key": "x"}).status == 401
        assert deliver(delivery(b"one"), **{"X-Amz-Firehose-Access-Key": token, "Authorization": "Bearer x"}).status == 200
        assert deliver(delivery(b"one"), **{"X-Amz-Firehose-Access-Key": "x", "Authorization": f"Bearer {token}"}).status == 401
        assert send("fluent", "[]", X_Amz_Firehose_Access_Key=token).status == 401, "nobody else's"


@pytest.mark.behavior("Records of log agents are masked like lines.")
def test_masking_is_not_bypassed() -> None:
    rules = json.dumps([{"fqn": "svc_*"}])
    with installed(World(), masking=rules):
        for path, body, content_type in EVERY_AGENT.values():
            secret = delivery(*(json.dumps(own(m)).encode() for m in ("password=hunter2", "two"))) if path == "firehose" else body
            assert send(path, secret.replace("one", "password=hunter2"), content_type).status == 200
        assert lines() == ["password=***password***", "two"] * len(EVERY_AGENT)


def test_configured_rules_apply() -> None:
    rules = SecretStr(json.dumps({"rules": [{"fqn": "hosts.{host}", "run_id": "{day}"}]}))
    with installed(World(), events=rules):
        assert send("syslog", json.dumps({"host": "h", "message": "x", "time": START_MS})).status == 200
        assert lines("hosts.h/2026-09-21") == ["x"]
        assert call("GET", "/v1/configuration").json["rules"] == [{"fqn": "hosts.{host}", "run_id": "{day}"}]
    with pytest.raises(InvalidConfigurationError, match="field=rules"), installed(World(), events=SecretStr('{"rules": [{}]}')):
        composition.services().prepare("events.router")


def test_refused_items_are_logged_without_their_content(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    said: list[str] = []
    monkeypatch.setattr(agent_requests.logger, "warning", lambda *args, **more: said.append(f"{args} {more}"))
    send("fluent", '{"message": "a secret"}')
    assert len(said) == 1 and "no rule matches" in said[0] and "a secret" not in said[0]


def test_a_body_that_a_gateway_took_for_text_is_refused_not_broken(world: World) -> None:
    event = event_of("POST", f"{AGENTS}/fluent", "\ufffd\ufffd", {"Content-Type": "application/msgpack"})
    assert handled(event).status == 400
