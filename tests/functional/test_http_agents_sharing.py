"""Data shared by records (OTLP's resource and scope, a log group) counts in each record: a small request cannot become a large one, and batches
of the agents' documented sizes are accepted."""

from __future__ import annotations

import base64
import gzip
import json
import random
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from chalicelib.events.codecs import firehose, otlp
from chalicelib.events.event import NewEvent
from chalicelib.events.sidecar import decode_sidecar
from chalicelib.events.weight import weight
from chalicelib.ports import Run
from chalicelib.routes.budgets import SHARING
from chalicelib.routes.operations import OPERATIONS, PROTOBUF
from chalicelib.runlog.log_end import list_all
from tests.functional.gateway import Answer, call, installed
from tests.world import START_MS, World

RUN = Run("svc.a", "r1")
HEADERS = {"X-Runlake-Fqn": RUN.fqn, "X-Runlake-Run-Id": RUN.run_id, "Content-Encoding": "gzip"}
OTLP, FIREHOSE = "/v1/agents/otlp/v1/logs", "/v1/agents/firehose"
K8S = {f"k8s.pod.label.{number}": f"value-{number}-" + "x" * 40 for number in range(40)}


@pytest.fixture(name="world")
def _world() -> Iterator[World]:
    with installed(World()) as world:
        yield world


def send(url: str, body: bytes, kind: str = "application/json") -> Answer:
    return call("POST", url, gzip.compress(body, mtime=0), {**HEADERS, "Content-Type": kind})


def resource(text: str, records: int = 1, scope: str = "") -> dict[str, Any]:
    attributes = [{"key": "k", "value": {"stringValue": text}}]
    record = {"body": {"stringValue": "x"}}
    return {
        "resource": {"attributes": attributes if text else []},
        "scopeLogs": [{"scope": {"name": scope}, "logRecords": [record] * records}],
    }


def json_of(text: str, records: int, scope: str = "") -> bytes:
    return json.dumps({"resourceLogs": [resource(text, records, scope)]}).encode()


def proto_of(text: str, records: int, scope: str = "") -> bytes:
    events = [NewEvent(message="x", data={"scope": {"name": scope}} if scope else {})] * records
    return otlp.encode_protobuf(events, {"k": text} if text else None)


def delivery_of(group: str, records: int, stream: str = "") -> bytes:
    events = [{"message": "x", "id": "1", "timestamp": 1}] * records
    message = {"messageType": "DATA_MESSAGE", "logGroup": group, "logStream": stream, "logEvents": events}
    packed = base64.b64encode(gzip.compress(json.dumps(message).encode())).decode()
    return json.dumps({"requestId": "r", "timestamp": 1, "records": [{"data": packed}]}).encode()


SHAPES = [
    pytest.param(OTLP, json_of, "application/json", id="otlp json"),
    pytest.param(OTLP, proto_of, PROTOBUF, id="otlp protobuf"),
    pytest.param(FIREHOSE, delivery_of, "application/json", id="firehose"),
]


def test_all_requests_whose_items_share_fields_are_tried() -> None:
    assert {each.path for each in OPERATIONS if each.budget.shared_bytes.limit} == {OTLP, FIREHOSE}


@pytest.mark.parametrize("place", ["first", "second"])
@pytest.mark.parametrize(("url", "make", "kind"), SHAPES)
def test_small_request_with_much_shared_data_is_refused_completely(
    world: World, url: str, make: Callable[..., bytes], kind: str, place: str
) -> None:
    texts = ("x" * 60_000, 400) if place == "first" else ("", 400, "x" * 60_000)
    answer = send(url, make(*texts), kind)
    assert answer.status == 413
    setting = "send_batch_max_size" if url == OTLP else "SizeInMBs"
    assert f"limit={SHARING.shared_bytes.floor}: lower {setting}" in answer.body
    assert not world.store.list("").objects


@pytest.mark.parametrize(("url", "make", "kind"), SHAPES)
def test_request_at_the_limit_is_stored(
    world: World, url: str, make: Callable[..., bytes], kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    limit = SHARING.shared_bytes.floor
    records = 512
    room = limit // records - weight({"logGroup": ""} if url == FIREHOSE else {"resource": {"k": ""}})
    answer = send(url, make("x" * room, records), kind)
    assert answer.status == 200
    assert send(url, make("x" * (room + 1), records), kind).status == 413
    sidecars = [decode_sidecar(world.store.get(each.key).body) for each in list_all(world.store, world.layout.events(RUN))]
    assert sum(len(each.events) for each in sidecars) == records


@pytest.mark.slow
def test_the_documented_batch_of_a_collector_with_a_large_resource_is_stored(world: World) -> None:
    rng = random.Random(1)
    size = 8192
    events = [
        NewEvent(message=f"request {rng.randbytes(6).hex()} done", timestamp=START_MS + rng.randrange(10**6), level="INFO")
        for _ in range(size)
    ]
    body = otlp.encode_protobuf(events, K8S)
    assert send(OTLP, body, PROTOBUF).status == 200
    page = call("GET", f"/v1/events/{RUN.fqn}/{RUN.run_id}?after={size - 1}").json
    assert [each["message"] for each in page["events"]] == [events[-1].message]
    assert page["events"][0]["data"]["resource"] == K8S
    sizes = [decode_sidecar(world.store.get(each.key).body).events for each in list_all(world.store, world.layout.events(RUN))]
    assert sum(map(len, sizes)) == size


def test_records_refer_to_what_they_share() -> None:
    decoded = [
        list(otlp.decode_json(json_of("x" * 100, 3, "s"))),
        list(otlp.decode_protobuf(proto_of("x" * 100, 3, "s"))),
        list(firehose.decode(delivery_of("g" * 300, 3, "s" * 300), gzip.decompress).items),
    ]
    for items, names in zip(decoded, (["resource", "scope"], ["resource", "scope"], ["logGroup", "logStream"]), strict=True):
        data = [item.event.data for item in items]  # type: ignore[union-attr]
        for name in names:
            assert len({id(each[name]) for each in data}) == 1
        weights = {item.shared_bytes for item in items}  # type: ignore[union-attr]
        assert weights in ({weight(data[0] | {"eventId": ""}) - 64 - 7}, {sum(weight({name: data[0][name]}) for name in names)})


def test_a_resource_is_weighed_once_however_many_scopes_it_has(monkeypatch: pytest.MonkeyPatch) -> None:
    weighed: list[object] = []
    monkeypatch.setattr(otlp, "weight", lambda value: weighed.append(value) or 1)
    request = resource("x")
    request["scopeLogs"] *= 50
    assert len(list(otlp.decode_json(json.dumps({"resourceLogs": [request]})))) == 50
    assert len(weighed) == 1
