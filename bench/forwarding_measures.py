"""Cost of forwarding on our side: processor time of encoding and batching, with targets that accept everything."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence

from bench.bench_world import Function
from bench.measure import Measure, reported
from bench.workload import LINE
from chalicelib.events.event import Event, Loggable
from chalicelib.events.forwarding import Forwarder
from chalicelib.events.ports import Target
from chalicelib.events.targets.elasticsearch import ElasticsearchTarget
from chalicelib.events.targets.otlp import OtlpTarget
from chalicelib.events.targets.shippers import ShipperTarget, logstash_record
from chalicelib.events.targets.transport import Answer
from chalicelib.ports import Run
from tests.support.clock import ManualClock

_LOGGABLE = Loggable.of_run(Run("svc.orders", "run-1"), "here")


class _AcceptingTransport:
    """A transport whose target accepts everything."""

    def post(self, url: str, headers: Mapping[str, str], body: bytes) -> Answer:
        return Answer(200, b'{"errors": false}')

    def close(self) -> None:
        pass


def forwarding(_: Function, events: int = 20_000) -> list[Measure]:
    """Events of one line, in batches of the target's limits."""
    wire = _AcceptingTransport()
    targets: dict[str, Target] = {
        "Elasticsearch": ElasticsearchTarget(wire, "https://es", "logs"),
        "Logstash": ShipperTarget(wire, "https://logstash", logstash_record),
        "OTLP": OtlpTarget(wire, "https://otel"),
    }
    data = _LOGGABLE.mandatory_data("build")
    batch = [
        Event(id=number, message=LINE.rstrip(), timestamp=number, data=data, writer="w", level="INFO") for number in range(events)
    ]
    rates = "; ".join(f"{name} {_rate(target, batch):,.0f}" for name, target in targets.items())
    return [reported("events a second that are encoded and sent on, of processor time", rates)]


def _rate(target: Target, events: Sequence[Event]) -> float:
    forwarder = Forwarder(target, _LOGGABLE, ManualClock(0))
    started_s = time.process_time()
    for event in events:
        forwarder.add(event)
    forwarder.flush()
    return len(events) / (time.process_time() - started_s)
