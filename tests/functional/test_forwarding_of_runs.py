"""Forwarding of archived runs to other systems: events and plain lines, over HTTP, running and finished."""

from __future__ import annotations

import json
from collections.abc import Mapping
from contextlib import nullcontext
from typing import Any
from urllib.parse import urlencode

import pytest

from chalicelib import composition
from chalicelib.composition.pipelines import installed_pipelines, worker_dependencies
from chalicelib.errors import InvalidConfigurationError
from chalicelib.events.event import Loggable
from chalicelib.events.forwarding import Forwarder
from chalicelib.events.run_forwarding import ApiSource, EventSource, forward
from chalicelib.events.targets.configuration import target_of
from tests.functional.gateway import call, installed, post
from tests.support.run_catalog import InMemoryRunCatalog
from tests.unit.test_event_targets import KITS
from tests.world import World

RUN = "/v1/events/svc.pipeline/run-1"
LOGGABLE = Loggable("house-1", "run", "run-1", "svc.pipeline")
JSON = {"Content-Type": "application/json"}


@pytest.fixture
def world() -> Any:
    with installed(World(), instance_id="house-1") as world:
        yield world


def get(path: str, query: Mapping[str, str]) -> Any:
    answer = call("GET", RUN + path + (f"?{urlencode(query)}" if query else ""))
    assert answer.status == 200, answer.body
    return answer.json


def send(events: Any) -> None:
    assert call("POST", f"{RUN}?writer=w", json.dumps(events), JSON).status == 200


def write(world: World, number: int) -> list[str]:
    """Append events, plain lines, events. Returns the lines that a reader sees."""
    at = world.clock.now_ms()
    first = {"message": f"event {number}", "timestamp": at, "step": "build", "level": "INFO", "data": {"n": [number, None]}}
    send([first, {"message": "two\nlines", "timestamp": at, "annotations": [{"position": 4, "note": {"url": "https://a"}}]}])
    assert post("svc.pipeline/run-1", json.dumps(f"plain {number}\nERROR of {number}")).status == 200
    return [f"event {number}", "two\nlines", f"plain {number}", f"ERROR of {number}"]


@pytest.mark.parametrize("name", KITS)
def test_live_run_is_forwarded_to_its_end(world: World, name: str) -> None:
    source: EventSource = ApiSource(get)
    kit, position, wanted = KITS[name](), None, list[str]()
    world.clock.advance((kit.clock.now_ms() - world.clock.now_ms()) / 1000)
    for number in range(3):
        wanted += write(world, number)
        position = forward(source, Forwarder(kit.target, LOGGABLE, kit.clock), position)
        told = [each.message for each in kit.received()]
        assert set(told) <= set(wanted)
    assert post("svc.pipeline/run-1/close").status == 200
    forward(source, Forwarder(kit.target, LOGGABLE, kit.clock), position)
    received = kit.received()
    assert sorted(each.message for each in received) == sorted(wanted)
    if name != "cloudwatch":  # the vendor sorts by time
        assert [each.message for each in received] == wanted
    one = next(each for each in received if each.message == "event 1")
    assert (one.step, one.level, one.data["n"], one.writer) == ("build", "INFO", [1, None], "w")
    (note,) = next(each for each in received if each.message == "two\nlines").annotations
    assert (note.position, note.note) == (4, {"url": "https://a"})


def test_targets_of_files_need_a_listed_host_and_outputs_none() -> None:
    outputs = [{"kind": "otlp", "url": "http://collector.test", "name": "mine"}]
    named = {"events": json.dumps({"outputs": outputs}), "target_hosts": json.dumps({"https://otel.test": []})}
    with installed(World(), runs=InMemoryRunCatalog(), **named):
        services = composition.services()
        (_, output) = installed_pipelines(services).pipelines
        for name, url, is_refused in (
            (output.name, "http://collector.test", False),
            ("team", "http://collector.test", True),
            ("team", "https://otel.test/v1", False),
            ("output.team", "http://collector.test", True),
        ):
            make = worker_dependencies(services, output.model_copy(update={"name": name}), 0, print).make_target
            assert make
            with pytest.raises(InvalidConfigurationError, match="TARGET_HOSTS") if is_refused else nullcontext():
                make(target_of({"kind": "otlp", "url": url}), 1.0).close()
