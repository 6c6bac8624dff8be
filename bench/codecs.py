"""``python -m bench.codecs``: events a second of each codec, and of decoding alone, on one core.

"Decoding alone" is what any receiver must do: ``json.loads``, ``msgpack.unpackb``, ``ParseFromString``. What a codec adds is telling
message, time, level and step apart, checking the event, and keeping the rest as its data. Times are of the process's own, the best of
some runs, from the bytes of a body to a list.
"""

from __future__ import annotations

import argparse
import base64
import gzip
import json
from collections.abc import Callable, Iterator
from time import process_time
from typing import Any

from chalicelib.events.codecs import bulk, firehose, fluent, logstash, otlp, plain, syslog
from chalicelib.events.event import NewEvent

_EVENTS = 5_000
_RUNS = 7
_START_MS = 1_790_000_000_000
_MESSAGE = "processed table warehouse.public.orders of the service in one go, 4217 rows, nothing rejected, next is customers"
_RESOURCE = {"service.name": "mysql.ingest", "cicd.pipeline.run.id": "run-1", "host.name": "worker-3"}
Codec = tuple[str, bytes, Callable[[bytes], Any], Callable[[bytes], Any]]


def main() -> None:
    """Print a table."""
    parser = argparse.ArgumentParser(prog="python -m bench.codecs", description=__doc__)
    parser.add_argument("--events", type=int, default=_EVENTS, help="of one body")
    events = parser.parse_args().events
    print("| codec | bytes/event | decoding alone, events/s | codec, events/s | of it |")
    print("|---|---|---|---|---|")
    for name, body, alone, decode in codecs(events):
        fast, slow = events / _seconds(alone, body), events / _seconds(lambda given: list(decode(given)), body)  # noqa: B023 called at once
        print(f"| {name} | {len(body) // events} | {fast:,.0f} | {slow:,.0f} | {slow / fast:.0%} |")


def codecs(events: int) -> Iterator[Codec]:
    """Name, body, decoding alone, decoding by the codec."""
    made = [_event(number) for number in range(events)]
    yield "Fluent Bit, json", fluent.encode_json(made), json.loads, fluent.decode_json
    yield "Fluent Bit, json_lines", fluent.encode_json_lines(made), _json_lines, fluent.decode_json
    yield "Fluent Bit, msgpack", fluent.encode_msgpack(made), _msgpack, fluent.decode_msgpack
    yield "Logstash, json_batch", logstash.encode(made), json.loads, logstash.decode
    yield "Elasticsearch, _bulk", bulk.encode(made, "logs"), _json_lines, bulk.decode
    attributed = [each.model_copy(update={"data": {"attributes": each.data}}) for each in made]
    yield "OTLP, JSON", otlp.encode_json(attributed, _RESOURCE), json.loads, otlp.decode_json
    yield "OTLP, protobuf", otlp.encode_protobuf(attributed, _RESOURCE), _protobuf, otlp.decode_protobuf
    yield "syslog, RFC 5424", syslog.encode(made), _lines, lambda body: syslog.decode(body, _START_MS)
    yield "syslog, JSON", logstash.encode_lines(made), _json_lines, lambda body: syslog.decode(body, _START_MS)
    yield (
        "Firehose",
        firehose.encode(made, "request", _START_MS),
        _delivery,
        lambda body: firehose.decode(body, gzip.decompress).items,
    )
    yield "text", b"".join(each.message.encode() + b"\n" for each in made), _lines, plain.decode


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


def _json_lines(body: bytes) -> list[Any]:
    return [json.loads(line) for line in body.splitlines()]


def _lines(body: bytes) -> list[str]:
    return body.decode().split("\n")


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


def _delivery(body: bytes) -> list[Any]:
    return [json.loads(base64.b64decode(record["data"])) for record in json.loads(body)["records"]]


def _seconds(work: Callable[[bytes], Any], body: bytes) -> float:
    work(body)
    best = float("inf")
    for _ in range(_RUNS):
        began = process_time()
        work(body)
        best = min(best, process_time() - began)
    return max(best, 1e-9)


if __name__ == "__main__":
    main()
