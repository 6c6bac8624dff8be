"""Replays the corpus of costly bodies and counts their cost. ``make fuzz`` searches for others, and measures CPU time too."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import replace
from itertools import islice

import pytest

from tests.fuzz.costs import MAX_MASKED_BYTES, MAX_MEMORY_BYTES, MIB, Cost, Meter, excess
from tests.fuzz.shapes import BODY_BYTES, SHAPES, mutated
from tests.sampling import sample


@pytest.fixture(name="meter", scope="module")
def _meter() -> Iterator[Meter]:
    with Meter() as meter:
        yield meter


@pytest.mark.behavior("A small body costs bounded memory and processor time.")
def test_small_bodies_cost_little(meter: Meter) -> None:
    names = sample(SHAPES, "shapes of costly bodies", default=15, fast=3)
    costs = zip(names, meter.costs(SHAPES[name] for name in names), strict=True)
    over = {name: limits for name, cost in costs if (limits := excess(SHAPES[name], cost))}
    assert not over


@pytest.mark.parametrize(
    "field",
    [
        "body_bytes",
        "expanded_bytes",
        "values",
        "members",
        "shared_bytes",
        "items",
        "masked_bytes",
        "memory_bytes",
        "response_bytes",
        "status",
    ],
)
def test_each_cost_over_its_limit_is_reported(field: str) -> None:
    shape, cheap = SHAPES["events of a word"], Cost(200, BODY_BYTES, 0, 0, 0, 0, 0, 0, 0, 0, 0.0)
    assert excess(shape, cheap) == []
    assert [each.partition("=")[0] for each in excess(shape, replace(cheap, **{field: 1 << 40}))] == [field]


def test_memory_and_work_of_a_request_are_measured(meter: Meter) -> None:
    """Checks the measurement: 6 MiB are counted completely, and are in memory."""
    (cost,) = meter.costs([SHAPES["log of short addresses"]])
    assert cost.status == 200 and cost.expanded_bytes == 6 * MIB
    assert 6 * MIB < cost.memory_bytes < MAX_MEMORY_BYTES and cost.cpu_s > 0
    assert 6 * MIB <= cost.masked_bytes < MAX_MASKED_BYTES


def test_equal_seeds_try_equal_bodies() -> None:
    tries = [list(islice(mutated(random.Random(seed)), 200)) for seed in (7, 7, 8)]
    assert tries[0] == tries[1] != tries[2]
    assert all(len(shape.body()) <= BODY_BYTES for _, shape in tries[0])
