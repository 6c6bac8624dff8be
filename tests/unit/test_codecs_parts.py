"""Parts of a line that a container runtime split become one event, in every codec of records with fields."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Iterable
from typing import Any

import msgpack
import pytest

from chalicelib.events.codecs import bulk, firehose, fluent, logstash, parts, syslog
from chalicelib.events.codecs.items import Decoded, Item
from chalicelib.events.intake import Intake, IntakeLimits, IntakeRequest
from chalicelib.events.routing import Router
from tests.events_log import InMemoryEventLog

Record = dict[str, Any]


def to_delivery(records: list[Record]) -> bytes:
    data = [{"data": base64.b64encode(json.dumps(each).encode()).decode()} for each in records]
    return json.dumps({"requestId": "r", "records": data}).encode()


def from_bulk(records: list[Record]) -> Iterable[Item]:
    lines = "".join(f'{{"create":{{}}}}\n{json.dumps(each)}\n' for each in records)
    return parts.joined(action.item for action in bulk.decode(lines))


def packed(records: list[Record], *before: Any) -> bytes:
    return b"".join(msgpack.packb([*before, 1_790_000_000 + number, each]) for number, each in enumerate(records))


CODECS: dict[str, Callable[[list[Record]], Iterable[Item]]] = {
    "fluent": lambda records: fluent.decode_json(json.dumps(records)),
    "msgpack": lambda records: fluent.decode_msgpack(packed(records)),
    "forward": lambda records: fluent.decode_msgpack(packed(records, "tag")),
    "logstash": lambda records: logstash.decode(json.dumps(records)),
    "syslog": lambda records: syslog.decode(json.dumps(records), 0),
    "bulk": from_bulk,
    "firehose": lambda records: firehose.decode(to_delivery(records), bytes).items,
}


def docker(text: str, **more: Any) -> Record:
    return {"log": text, "stream": "stdout", **more}


def cri(tag: str, text: str, **more: Any) -> Record:
    return {"message": text, "logtag": tag, "stream": "stdout", **more}


def driver(text: str, number: int, last: bool = False, id: str = "i") -> Record:
    end = {"partial_id": id, "partial_ordinal": str(number), "partial_last": str(last).lower()}
    return {"log": text, "container_id": "c", "source": "stdout", "partial_message": "true", **end}


def journal(text: str, last: str | None, **more: str) -> Record:
    end = {} if last is None else {"CONTAINER_PARTIAL_MESSAGE": "true", "CONTAINER_PARTIAL_ID": "i", "CONTAINER_PARTIAL_LAST": last}
    return {"MESSAGE": text, "CONTAINER_ID": "c", **end, **more}


OLD: Record = {"container_id": "c", "source": "stdout"}
CASES: dict[str, tuple[list[Record], list[str]]] = {
    "docker": ([docker("a"), docker("b"), docker("c\n"), docker("d\n")], ["abc", "d"]),
    "docker with times": ([docker("a", time="1"), docker("b\n", time="2")], ["ab"]),
    "docker, two streams": ([docker("a"), docker("x\n", stream="stderr"), docker("b\n")], ["ab", "x"]),
    "docker, two containers": ([docker("a", pod="p"), docker("x", pod="q"), docker("y\n", pod="q"), docker("b\n", pod="p")], ["ab", "xy"]),
    "docker without an end": ([docker("a"), docker("x\n", stream="stderr"), docker("b")], ["a", "x", "b"]),
    "docker, other records": ([{"log": "a"}, docker("b"), {"log": "c\n"}, docker("d\n")], ["a", "bd", "c"]),
    "numbered records": ([docker("a", runlake={"id": 0}), docker("b\n", runlake={"id": 1})], ["a", "b"]),
    "cri": ([cri("P", "a"), cri("P", "b"), cri("F", "c"), cri("F", "d")], ["abc", "d"]),
    "cri, tags": ([cri("P:x", "a"), cri("F:x", "b")], ["ab"]),
    "cri, two pods": ([cri("P", "a", pod="p"), cri("F", "x", pod="q"), cri("F", "b", pod="p")], ["ab", "x"]),
    "cri without an end": ([cri("P", "a"), cri("F", "x", stream="stderr"), cri("P", "b")], ["ab", "x"]),
    "cri joined by Fluent Bit": ([docker("a", _p="P"), docker("b\n", _p="F")], ["a", "b"]),
    "fluentd driver": ([driver("a", 1), driver("x", 1, id="j"), driver("b", 2, True), driver("y", 2, True, "j")], ["ab", "xy"]),
    "old fluentd driver": ([{**OLD, "log": "a", "partial_message": "true"}, {**OLD, "log": "b"}, {**OLD, "log": "c"}], ["ab", "c"]),
    "journald driver": ([journal("a", "false"), journal("b", "true"), journal("c", None)], ["ab", "c"]),
}  # fmt: skip


@pytest.mark.parametrize("codec", CODECS)
def test_parts_of_a_line_are_one_event(codec: str) -> None:
    for name, (records, messages) in CASES.items():
        items = [each for each in CODECS[codec](records) if isinstance(each, Decoded)]
        assert [each.event.message for each in items] == messages, name
        assert sorted([each.index for each in items] + [part for each in items for part in each.parts]) == list(range(len(records)))


def test_joined_event_has_time_and_fields_of_its_first_part() -> None:
    (item,) = fluent.decode_json(json.dumps([cri(tag, tag, time=1_790_000_000_001 + at, n=1) for at, tag in enumerate("PF")]))
    assert isinstance(item, Decoded)
    assert (item.event.timestamp, item.event.data) == (1_790_000_000_001, {"logtag": "P", "stream": "stdout", "n": 1})


@pytest.mark.parametrize(("times", "is_unique"), [((0.000123, 1.000123), True), ((0.000123, 1), False), ((0, 1.000123), False)])
def test_joined_event_is_as_unique_as_all_its_parts(times: tuple[float, float], is_unique: bool) -> None:
    """Of a line without it no repetition is dropped."""
    records = [cri(tag, tag, time=1_790_000_000 + at) for tag, at in zip("PF", times, strict=True)]
    (item,) = fluent.decode_json(json.dumps(records))
    assert isinstance(item, Decoded) and item.is_unique is is_unique


@pytest.mark.parametrize("make", [lambda text: docker(text), lambda text: cri("P", text)], ids=["docker", "cri"])
def test_longer_lines_are_several_events(make: Callable[[str], Record]) -> None:
    size = 16 * 1024
    records = [make("ä" * (size // 2)) for _ in range(150)] + [docker("\n") if "log" in make("") else cri("F", "")]
    items = [each for each in fluent.decode_json(json.dumps(records)) if isinstance(each, Decoded)]
    assert [len(each.event.message.encode()) for each in items] == [parts.MAX_JOINED_BYTES, parts.MAX_JOINED_BYTES, 22 * size]


def test_unfinished_line_holds_a_bounded_number_of_items() -> None:
    read = iter([docker("a"), *[docker(f"{number}\n", stream="stderr") for number in range(5000)]])
    items = parts.joined(item for each in read for item in fluent.decode_json(json.dumps(each)))
    assert isinstance(first := next(iter(items)), Decoded) and first.event.message == "a"
    assert 5000 - sum(1 for _ in read) == parts.MAX_WAITING


def test_every_record_has_a_result() -> None:
    """A part has the result of its line."""
    log, limits = InMemoryEventLog(), IntakeLimits(5, 9)
    names = {"runlake.fqn": "a", "runlake.run_id": "r"}
    records = [cri("P", "a"), {"log": "x", **names}, cri("F", "b"), cri("P", "c", **names), cri("F", "d", **names)]
    results = Intake(log, Router.of([]), lambda _: True, lambda: True, limits).take(CODECS["bulk"](records), IntakeRequest({}, "d"))
    assert [str(each.status) for each in results] == ["malformed", "stored", "malformed", "stored", "stored"]
    assert log.messages("a", "r") == ["x", "cd"]
