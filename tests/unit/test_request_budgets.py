"""Request budgets: calls of the store and the catalog per operation."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from chalicelib.ports import KeyClaim, PutOptions
from chalicelib.runlog.batch import Batch
from chalicelib.runlog.legacy import on_behalf_of
from chalicelib.runlog.reader import PageRequest
from chalicelib.runlog.segment import metadata_of
from chalicelib.runlog.writer import session_of_key
from tests.faults.interception import Intercepted
from tests.world import RUN, Parts, World


class Counted:
    """A world whose calls are counted: of the store under ``s3``, of the catalog under ``catalog``."""

    def __init__(self) -> None:
        self.world = World()
        self.calls: Counter[str] = Counter()
        self.parts: Parts = self.world.parts(self._count(self.world.store, "s3"), self._count(self.world.index, "catalog"))

    def _count(self, port: Any, name: str) -> Any:
        def gate(operation: str, call: Callable[[], Any]) -> Any:
            self.calls[name] += 1
            self.calls[operation] += 1
            return call()

        return Intercepted(port, gate)

    def cost(self, operation: Callable[[], Any]) -> tuple[int, int]:
        """(requests to S3, requests to the catalog) of one operation."""
        before = self.calls.copy()
        operation()
        spent = self.calls - before
        return spent["s3"], spent["catalog"]

    def append(self, text: str, position: str | None = None, key: str | None = None) -> str:
        return self.parts.writer.append(RUN, Batch.from_text(text), position=position, idempotency_key=key).position


@pytest.mark.behavior("A warm append is one PUT.")
def test_a_warm_append_is_one_put() -> None:
    counted = Counted()
    position = counted.append("first")
    assert counted.cost(lambda: counted.append("second", position)) == (1, 0)


def test_a_retry_is_two_requests() -> None:
    counted = Counted()
    position = counted.append("first")
    counted.append("second", position)
    assert counted.cost(lambda: counted.append("second", position)) == (2, 0)
    assert counted.world.read_all() == ["first", "second"]


def test_a_cold_append_is_at_most_four_requests_in_all() -> None:
    counted = Counted()
    with on_behalf_of(lambda _: True):  # a caller that may read shared folders pays for the LIST
        assert counted.cost(lambda: counted.append("to a new run")) == (3, 1)
    counted = Counted()
    assert counted.cost(lambda: counted.append("to a new run")) == (2, 1)
    counted.append("without a cookie")
    assert counted.cost(lambda: counted.append("without a cookie again")) == (3, 1)
    entries = [counted.world.parts().writer.tails.segment(RUN, number) for number in range(3)]
    counted.world.index.put(RUN, entries)
    assert counted.cost(lambda: counted.append("the catalog knows the tail")) == (2, 1)


def test_a_cold_append_to_a_run_of_many_segments_is_at_most_four_requests_in_all() -> None:
    counted = Counted()
    grow(counted.world, 1205, catalogued=1190)
    assert sum(counted.cost(lambda: counted.append("cold"))) <= 4


@pytest.mark.behavior("An append with an Idempotency-Key takes the same requests in a run of any length.")
@pytest.mark.parametrize("segments", [10, 10_000])
def test_append_with_key_costs_the_same_among_any_number_of_equal_segments(segments: int) -> None:
    counted = Counted()
    counted.world.index.claim(RUN, KeyClaim(session_of_key("died before its PUT"), 0, Batch.from_text("equal").digest, 1))
    counted.append("equal", key="early")
    grow(counted.world, segments)
    for key, cost in (
        ("cold", (2, 2)),
        ("cold while the catalog lags behind", (3, 2)),
        ("cold", (2, 2)),
        ("early", (2, 2)),
        ("died before its PUT", (4, 3)),
    ):
        assert counted.cost(lambda key=key: counted.append("equal", key=key)) == cost, key  # type: ignore[misc]
    position = counted.append("equal")
    assert counted.cost(lambda: counted.append("equal", position, "warm")) == (1, 1)
    assert counted.cost(lambda: counted.append("equal", position, "warm")) == (2, 1)
    assert counted.world.parts().writer.tails.find(RUN).sequence == segments + 5


def grow(world: World, segments: int, catalogued: int | None = None) -> None:
    """Append batches of equal content up to a number of segments; the catalog has the rows of the first ones, or all."""
    first = world.parts().writer.append(RUN, Batch.from_text("equal")).entry
    assert first
    numbers = range(first.sequence, segments)
    entries = [replace(first, sequence=number, line=number, byte=number * first.bytes, base=number) for number in numbers]
    for entry in entries[1:]:
        world.store.put(world.layout.segment(RUN, entry.sequence), b"equal\n", PutOptions(metadata_of(entry)))
    world.index.put(RUN, entries[:catalogued])


def test_two_writers_with_keys_in_turn_cost_three_requests_an_append() -> None:
    counted = Counted()
    one, other = counted.append("one"), counted.append("other")
    for number in range(4):
        one, other = counted.append(f"one {number}", one, f"1-{number}"), counted.append(f"other {number}", other, f"2-{number}")
    spent = counted.cost(lambda: (counted.append("one", one, "1"), counted.append("other", other, "2")))
    assert spent == (4, 2)


def test_an_old_position_costs_a_listing_and_a_head() -> None:
    counted = Counted()
    position = counted.append("first")
    counted.world.clock.advance(3600)
    assert counted.cost(lambda: counted.append("an hour later", position)) == (3, 0)


def test_two_writers_in_turn_cost_two_requests_an_append() -> None:
    counted = Counted()
    one, other = counted.append("one"), counted.append("other")
    for number in range(4):
        one, other = counted.append(f"one {number}", one), counted.append(f"other {number}", other)
    spent = counted.cost(lambda: (counted.append("one", one), counted.append("other", other)))
    assert spent == (4, 0)


def test_the_end_of_a_log_is_a_snapshot_and_a_get_of_each_segment_or_5_mib() -> None:
    counted = Counted()
    position = counted.append("first")
    counted.append("second", position)
    assert counted.cost(lambda: counted.parts.reader.read_end(RUN, 100)) == (4 + 2 + 1, 0)
    counted.parts.finalizer.close(RUN, position)
    assert counted.cost(lambda: counted.parts.reader.read_end(RUN, 100)) == (2, 0)


def test_a_page_of_a_finished_log_is_one_query_and_at_most_two_gets() -> None:
    counted = Counted()
    position: str | None = None
    for number in range(60):
        lines = "".join(f"{number:03d} {line:05d} {'x' * (line % 190)}\n" for line in range(2000))
        position = counted.append(lines, position)
    counted.parts.finalizer.close(RUN, position)
    total = 60 * 2000
    for after in (0, 1, 999, 64_321, total - 1000, total - 1, total):
        before = counted.calls.copy()
        page = counted.parts.reader.page(RUN, PageRequest(after=after))
        spent = counted.calls - before
        assert len(page.logs.split("\n")) == min(1000, total - after) or after == total
        assert spent["catalog"] <= 1
        assert spent["get"] + spent["head"] <= 2 and spent["s3"] <= 2


def test_a_close_of_a_small_run_is_a_dozen_requests() -> None:
    counted = Counted()
    position = counted.append("first")
    s3, catalog = counted.cost(lambda: counted.parts.finalizer.close(RUN, position))
    assert s3 <= 12 and catalog <= 3


def test_an_idle_run_costs_a_compactor_four_requests() -> None:
    counted = Counted()
    counted.append("first")
    counted.parts.compactor.compact(RUN, counted.world.deadline())
    assert sum(counted.cost(lambda: counted.parts.compactor.compact(RUN, counted.world.deadline()))) <= 4
