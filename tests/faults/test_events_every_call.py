"""A fault at every store call of an append of events, its ingestion and its compaction.

The model is the list of acknowledged batches. Recovery as in production: the client retries, notifications are delivered again.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import combinations
from typing import Any

import pytest

from chalicelib.errors import UnavailableError
from chalicelib.events.completeness import COMPLETE
from chalicelib.events.event import NewEvent
from chalicelib.events.step_updates import StepUpdate
from chalicelib.ports import PutOptions
from chalicelib.runlog.log_end import list_all
from tests.events_harness import (
    ClientWriter,
    EventParts,
    all_events,
    event_parts,
    make_event,
    notify,
    read_log,
    read_step_log,
)
from tests.faults.interception import CONFLICT, FAULTS, THROTTLED, Crash, Intercepted, StopAt
from tests.faults.stepping import Actor
from tests.world import RUN, World

BATCH = (make_event("in question", "s", timestamp=1), make_event("of another\nstep", "t", timestamp=2))


class Scenario:
    """A run with events, a plain segment, and a writer in the middle of its work."""

    def __init__(self) -> None:
        self.world = World()
        self.parts = event_parts(self.world)
        self.parts.writers.open(RUN, "w")
        self.author = ClientWriter(self.parts, "w")
        self.model: list[NewEvent] = []
        self.say(make_event("first", "s", timestamp=0))
        self.world.clock.advance(1)

    def say(self, *events: NewEvent) -> None:
        self.author.say(*events)
        self.model += events

    def with_batch(self) -> Scenario:
        self.say(*BATCH)
        return self

    def ended(self) -> Scenario:
        self.parts.finalizer.close(RUN)
        self.world.clock.advance(21 * 60)
        return self

    def half_bundled(self) -> Scenario:
        self.ended()
        singles = {found.key: self.world.store.get(found.key).body for found in self.parts.indexing.sidecars.list_single(RUN)}
        bundle(self, self.parts)
        for key in singles:
            self.world.store.put(key, singles[key], PutOptions())
        self.world.clock.advance(21 * 60)
        return self


def append(scenario: Scenario, parts: EventParts) -> None:
    scenario.author.parts = parts
    scenario.say(*BATCH)


def keyed(scenario: Scenario, parts: EventParts) -> None:
    events = [event.model_copy(update={"id": 1 + at}) for at, event in enumerate(BATCH)]
    parts.log.append(RUN, events, writer="w", idempotency_key="key")
    scenario.model += BATCH


def ingest(scenario: Scenario, parts: EventParts) -> None:
    notify(scenario.world, parts)


def compact(scenario: Scenario, parts: EventParts) -> None:
    parts.compactor.compact(RUN, scenario.world.deadline())


def close(scenario: Scenario, parts: EventParts) -> None:
    parts.finalizer.close(RUN)


def tell(scenario: Scenario, parts: EventParts) -> None:
    parts.step_updates.record(RUN, "s", StepUpdate(name="told"))


def close_writer(scenario: Scenario, parts: EventParts) -> None:
    parts.writers.close(RUN, "w", 3)


def bundle(scenario: Scenario, parts: EventParts) -> None:
    parts.bundler.bundle(RUN, scenario.world.deadline())


CASES: list[tuple[str, Callable[[], Scenario], Callable[[Scenario, EventParts], None]]] = [
    ("append", Scenario, append),
    ("append with a key", Scenario, keyed),
    ("ingest", lambda: Scenario().with_batch(), ingest),
    ("compact", lambda: Scenario().with_batch(), compact),
    ("close", lambda: Scenario().with_batch(), close),
    ("tell of a step", lambda: Scenario().with_batch(), tell),
    ("close a writer", lambda: Scenario().with_batch(), close_writer),
    ("bundle", lambda: Scenario().with_batch().ended(), bundle),
    ("bundle what another call has left", lambda: Scenario().with_batch().half_bundled(), bundle),
]


@pytest.mark.behavior("Appending, ingesting and compacting events may be interrupted at any call.")
@pytest.mark.sampled(default=20)
@pytest.mark.parametrize(("moment", "how"), FAULTS)
@pytest.mark.parametrize(("name", "prepare", "operation"), CASES, ids=[name for name, _, _ in CASES])
def test_stop_at_every_call(name: str, prepare: Any, operation: Any, moment: str, how: str) -> None:
    number = 0
    while _stopped_at(prepare(), operation, StopAt(number, moment, how)):
        number += 1
    assert number > 0 or moment in (THROTTLED, CONFLICT), "not everything reads, or has a condition"


def _stopped_at(scenario: Scenario, operation: Any, stop: StopAt) -> bool:
    acknowledged = list(scenario.model)
    failed = False
    try:
        operation(scenario, event_parts(scenario.world, lambda port: Intercepted(port, stop)))
    except (UnavailableError, Crash):
        failed = True
    if not stop.fired:
        return False
    if failed:
        _check(scenario.world, acknowledged, at_most=[*acknowledged, *BATCH])
        operation(scenario, event_parts(scenario.world, lambda port: Intercepted(port, stop.successor)))
    stop.land()
    _check(scenario.world, scenario.model, at_most=scenario.model)
    _check_end(scenario)
    return True


def _check(world: World, model: list[NewEvent], at_most: list[NewEvent]) -> None:
    """All acknowledged events are in the log and in the steps; the interrupted batch is stored completely or not at all."""
    parts = event_parts(world)
    logs = {step: read_step_log(parts, step) for step in ("s", "t")}
    for step, text in logs.items():
        assert text in (_text(model, step), _text(at_most, step))
    assert read_log(parts) in (_text(model), _text(at_most))
    assert [event.message for event in all_events(parts, RUN)][: len(model)] == [event.message for event in model]


def _check_end(scenario: Scenario) -> None:
    world, parts = scenario.world, event_parts(scenario.world)
    if len(scenario.model) < 3:
        append(scenario, parts)
    parts.writers.close(RUN, "w", 3)
    parts.finalizer.close(RUN)
    notify(world, parts)
    assert parts.watch.check(RUN).state == COMPLETE
    assert [event.message for event in all_events(parts, RUN)] == [event.message for event in scenario.model]
    assert [(event.id, event.writer) for event in all_events(parts, RUN)] == [(0, "w"), (1, "w"), (2, "w")]
    _check(world, scenario.model, at_most=scenario.model)


def _text(events: list[NewEvent], step: str | None = None) -> str:
    return "".join(f"{event.message}\n" for event in events if step in (None, event.step))


@pytest.mark.parametrize(("other", "calls"), [("another call", 6), ("a reader", 5), ("the deletion of the run", 5)])
def test_bundling_meets_another_process(other: str, calls: int) -> None:
    """Orders of six calls of bundling and the first ``calls`` of the other process: all calls of the latter two."""
    for turns in combinations(range(6 + calls), 6):
        scenario = Scenario().with_batch().ended()
        world, expected = scenario.world, [event.message for event in scenario.model]

        def others(wrap: Any, scenario: Scenario = scenario) -> list[str]:
            parts = event_parts(scenario.world, wrap)
            if other == "another call":
                bundle(scenario, parts)
            elif other == "the deletion of the run":
                wrap(scenario.world.store).delete_many([found.key for found in list_all(scenario.world.store, "")])
            return [event.message for event in all_events(parts, RUN)]

        def bundles(wrap: Any, scenario: Scenario = scenario) -> None:
            bundle(scenario, event_parts(scenario.world, wrap))

        one, two = Actor("bundling", bundles), Actor(other, others)
        for turn in range(6 + calls):
            actor = one if turn in turns else two
            if not actor.done:
                actor.step()
        assert two.done or other == "another call", "it has more calls, whose orders are not tried"
        one.finish()
        two.finish()
        assert (one.error, two.error) == (None, None)
        if other == "the deletion of the run":
            is_late = turns[:5] == (0, 1, 2, 3, 4)  # after the second HEAD of logs.txt: the next retention job removes the bundle
            assert bool(list(list_all(world.store, world.layout.bundles(RUN)))) == is_late, f"turns {turns}"
            continue
        assert two.result == expected
        bundle(scenario, scenario.parts)
        assert scenario.parts.indexing.single_numbers(RUN, 0) == []
        _check(world, scenario.model, at_most=scenario.model)
