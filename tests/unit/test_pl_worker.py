"""A pipeline at work: read, ordered, given to handlers, flushed, checkpointed."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from chalicelib.ports import Run
from tests.piping import START_MS, Piping, Remembering, line, pipeline

A, B = Run("svc.a", "r1"), Run("svc.b", "r1")


@pytest.fixture
def world() -> Iterator[Piping]:
    Remembering.forget()
    yield Piping()
    Remembering.forget()


def test_a_finalized_run_is_processed_without_delay(world: Piping) -> None:
    world.write(A, [line(START_MS, "one"), line(START_MS + 1, "two")])
    world.end(A)
    worker = world.worker(pipeline())
    worker.start()
    worker.step()
    assert Remembering.messages() == ["one", "two"]


def test_a_live_run_is_held_for_the_delay_and_comes_sorted(world: Piping) -> None:
    worker = world.worker(pipeline())
    worker.start()
    world.write(A, [line(START_MS + 10, "second")])
    world.write(B, [line(START_MS + 5, "first"), line(START_MS + 20, "third")])
    worker.step()
    assert Remembering.messages() == []
    world.clock.advance(3)
    world.work(worker)
    assert Remembering.messages() == ["first", "second", "third"]


def test_it_goes_on_where_it_was(world: Piping) -> None:
    world.write(A, [line(START_MS, "one")])
    worker = world.worker(pipeline())
    worker.start()
    world.clock.advance(5)
    world.work(worker)
    worker.stop()
    world.write(A, [line(START_MS + 100, "two")])
    world.end(A)
    again = world.worker(pipeline(), owner="w2")
    again.start()
    world.work(again)
    again.stop()
    assert Remembering.messages() == ["one", "two"]
    assert [row["at"] for row in world.database.rows("pipelines")] == ["checkpoint", "status", "svc.a/r1"]
    once_more = world.worker(pipeline(), owner="w3")
    once_more.start()
    world.work(once_more)
    assert Remembering.messages() == ["one", "two"]
