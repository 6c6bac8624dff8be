"""Faults of a run's log besides a stop: a write that is applied late, right after its successor or at the very end; a throttled read; and
two compactors of one ``partial.txt``, interleaved call by call."""

from __future__ import annotations

import itertools
from collections.abc import Callable

import pytest

from chalicelib.errors import RunClosedError, UnavailableError
from chalicelib.runlog.batch import Batch
from tests.faults.interception import LATE, LATER, THROTTLED, Crash, Intercepted, StopAt
from tests.faults.stepping import Actor
from tests.faults.test_crash_points import CASES, Operation, Scenario, compacted_once, with_a_large_log, with_old_segments
from tests.world import RUN, World

pytestmark = pytest.mark.usefixtures("small_parts")
REPEATED = [case for case in CASES if case[0] != "append, cold"]
"""A client without cookies cannot tell its repeat from a new batch."""


@pytest.mark.sampled(default=30)
@pytest.mark.parametrize(("moment", "how"), [(LATE, "crash"), (LATER, "error"), (THROTTLED, "error")])
@pytest.mark.parametrize(("name", "prepare", "operation"), REPEATED, ids=[name for name, _, _ in REPEATED])
def test_late_write_or_throttled_read_at_every_call_changes_nothing(
    name: str, prepare: Callable[[], Scenario], operation: Operation, moment: str, how: str
) -> None:
    numbers = itertools.count()
    while stopped_at(prepare(), operation, StopAt(next(numbers), moment, how)):
        pass
    assert next(numbers) > 1 or moment == THROTTLED, "a warm append reads nothing, but every case writes"


def stopped_at(scenario: Scenario, operation: Operation, stop: StopAt) -> bool:
    world = scenario.world
    try:
        operation(scenario, world.parts(Intercepted(world.store, stop), Intercepted(world.index, stop)))  # type: ignore[arg-type]
    except (UnavailableError, Crash):
        after = Intercepted(world.store, stop.successor), Intercepted(world.index, stop.successor)
        operation(scenario, world.parts(*after))  # type: ignore[arg-type]
    if not stop.fired:
        return False
    lines = b"".join(scenario.model).decode().split("\n")[:-1]
    assert world.read_all(limit=700) == lines
    world.parts().finalizer.close(RUN)
    scenario.settle()
    stop.land()
    assert world.read_all(limit=700) == lines
    with pytest.raises(RunClosedError):
        world.parts().writer.append(RUN, Batch.from_text("too late"), position=scenario.position)
    world.clock.advance(21 * 60)
    scenario.settle()
    assert world.body("logs.txt") == b"".join(scenario.model)
    assert "partial.txt" not in world.names()
    return True


@pytest.mark.parametrize("prepare", [compacted_once, with_old_segments, with_a_large_log])
def test_compactors_overtake_each_other_at_every_call(prepare: Callable[[], Scenario]) -> None:
    """One pauses at each of its calls. Meanwhile lines arrive, another compacts, and twenty minutes later compacted segments are deleted."""
    numbers = itertools.count()
    while overtaken_at(prepare(), next(numbers)):
        pass
    assert next(numbers) > 4


def overtaken_at(scenario: Scenario, number: int) -> bool:
    world = scenario.world
    assert "partial.txt" in world.names()
    actor = compactor(world)
    for _ in range(number):
        if actor.done:
            return False
        actor.step()
    scenario.append("meanwhile\n")
    scenario.settle()
    world.clock.advance(21 * 60)
    scenario.append("twenty minutes later\n")
    scenario.settle()
    scenario.settle()
    actor.finish()
    assert actor.error is None or isinstance(actor.error, UnavailableError)
    lines = b"".join(scenario.model).decode().split("\n")[:-1]
    assert world.read_all(limit=700) == lines
    scenario.append("at last\n")
    scenario.settle()
    assert world.body("partial.txt") == b"".join(scenario.model)
    assert world.store.uploads == 0
    return True


@pytest.mark.parametrize("moment", [LATE, LATER])
def test_late_partial_of_a_killed_compactor_is_refused(moment: str) -> None:
    """Its successor has compacted more, and segments are retired."""
    scenario = compacted_once()
    world = scenario.world
    actor = compactor(world)
    while actor.waiting_for != "put":
        actor.step()
    actor.step((moment, "crash"))
    scenario.append("meanwhile\n")
    scenario.settle()
    world.clock.advance(21 * 60)
    scenario.settle()
    actor.land()
    assert world.body("partial.txt") == b"".join(scenario.model)


def compactor(world: World) -> Actor:
    return Actor("compactor", lambda wrap: world.parts(wrap(world.store)).compactor.compact(RUN, world.deadline()))
