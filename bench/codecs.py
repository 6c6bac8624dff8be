"""Events a second of the codecs between which an operator chooses, and of decoding alone, on one core.

"Decoding alone" is the minimum of any receiver: ``json.loads``, ``msgpack.unpackb``, ``ParseFromString``. A codec also extracts
message, time, level and step, validates the event, and keeps the rest as its data. Times are processor time, the best of several
runs, from the bytes of a body to a list.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

from bench.bench_world import Function
from bench.measure import Measure, cpu_s, reported
from chalicelib.events.codecs import fluent, otlp
from chalicelib.events.event import NewEvent

_RUNS = 7
_START_MS = 1_790_000_000_000
_MESSAGE = "processed table warehouse.public.orders of the service in one go, 4217 rows, nothing rejected, next is customers"
_RESOURCE = {"service.name": "mysql.ingest", "cicd.pipeline.run.id": "run-1", "host.name": "worker-3"}
Decoding = Callable[[bytes], Any]
Codec = tuple[str, bytes, Decoding, Decoding]


def codecs(_: Function, events: int = 5_000) -> list[Measure]:
    """A row for each codec, with bodies of this many events."""
    return [_measured(events, *codec) for codec in _codecs(events)]


def _measured(events: int, name: str, body: bytes, alone: Decoding, decode: Decoding) -> Measure:
    fast, slow = events / _seconds(alone, body), events / _seconds(lambda encoded: list(decode(encoded)), body)
    figures = (
        f"{slow:,.0f} events/s, {slow / fast:.0%} of decoding alone ({fast:,.0f} events/s); {len(body) // events} bytes an event"
    )
    return reported(f"decoding by the codec of {name}", figures)


def _codecs(events: int) -> Iterator[Codec]:
    """Name, body, decoding alone, decoding by the codec."""
    made = [_event(number) for number in range(events)]
    yield "Fluent Bit, json", fluent.encode_json(made), json.loads, fluent.decode_json
    yield "Fluent Bit, msgpack", fluent.encode_msgpack(made), _msgpack, fluent.decode_msgpack
    attributed = [each.model_copy(update={"data": {"attributes": each.data}}) for each in made]
    yield "OTLP, JSON", otlp.encode_json(attributed, _RESOURCE), json.loads, otlp.decode_json
    yield "OTLP, protobuf", otlp.encode_protobuf(attributed, _RESOURCE), _protobuf, otlp.decode_protobuf


def _event(number: int) -> NewEvent:
    data: dict[str, Any] = {
        "host": "worker-3",
        "program": "etl",
        "thread": number % 8,
        "table": "orders",
        "labels": {"team": "sales", "env": "prod"},
    }
    return NewEvent(
        message=f"{_MESSAGE} {number}", timestamp=_START_MS + number, level="INFO", step=f"step-{number % 5}", data=data
    )


def _msgpack(body: bytes) -> list[Any]:
    import msgpack

    unpacker = msgpack.Unpacker(raw=False)
    unpacker.feed(body)
    return list(unpacker)


def _protobuf(body: bytes) -> Any:
    from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest

    request = ExportLogsServiceRequest()
    request.ParseFromString(body)
    return request


def _seconds(work: Callable[[bytes], Any], body: bytes) -> float:
    work(body)
    return max(min(cpu_s(partial(work, body)) for _ in range(_RUNS)), 1e-9)
