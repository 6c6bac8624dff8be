"""A fault at every store call of an agent's request with records of three runs, followed by the agent's retry. Each record is in
its run once; the model is a list for each run."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from chalicelib.events.codecs.items import Decoded, Item
from chalicelib.events.event import NewEvent
from chalicelib.events.intake import Intake, IntakeLimits, IntakeRequest, ItemResult, ItemStatus
from chalicelib.events.routing import Router
from chalicelib.ports import Run
from tests.events_harness import event_parts
from tests.faults.interception import FAULTS, Crash, Intercepted, StopAt
from tests.world import World

RUNS = [Run("svc.a", "r"), Run("svc.b", "r"), Run("svc.a", "s")]
ITEMS: list[Item] = [
    Decoded(number, NewEvent(message=f"m{number}\nmore", step="s"), {"record": {"runlake": {"fqn": run.fqn, "run_id": run.run_id}}})
    for number, run in enumerate(RUNS * 3)
]
REQUEST = IntakeRequest({}, "digest", "the name")


def take(world: World, gate: Callable[[str, Callable[[], Any]], Any] | None = None) -> list[ItemResult]:
    parts = event_parts(world, lambda port: Intercepted(port, gate)) if gate else event_parts(world)
    return Intake(parts.log, Router.of([]), lambda _: True, lambda: True, IntakeLimits(100, 10)).take(ITEMS, REQUEST)


def messages(world: World) -> list[list[str]]:
    return [world.read_all(run) for run in RUNS]


EXPECTED = [[line for number in range(at, 9, 3) for line in (f"m{number}", "more")] for at in range(3)]


@pytest.mark.parametrize(("moment", "how"), FAULTS)
def test_a_request_that_stops_anywhere_and_is_repeated_is_stored_once(moment: str, how: str) -> None:
    number = 0
    while _stopped_at(StopAt(number, moment, how)):
        number += 1
    assert number > 0


def _stopped_at(gate: StopAt) -> bool:
    """One run with one fault. Returns False if there is no such call."""
    world = World()
    try:
        told = take(world, gate)
    except Crash:
        told = []
    if not gate.fired:
        return False
    acknowledged = {index for index, each in enumerate(told) if each.status is ItemStatus.STORED}
    stored = [line for lines in messages(world) for line in lines]
    assert all(f"m{index}" in stored for index in acknowledged), "what was acknowledged is durable"
    assert all(each.status in (ItemStatus.STORED, ItemStatus.RETRYABLE) for each in told), "an outage is no refusal"
    assert {each.status for each in take(world, gate.successor)} == {ItemStatus.STORED}
    gate.land()
    assert messages(world) == EXPECTED
    assert {each.status for each in take(world)} == {ItemStatus.STORED} and messages(world) == EXPECTED
    return True
