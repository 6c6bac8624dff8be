"""What a GB costs: the counts are those of the runs that the command makes, and the sum is right."""

from __future__ import annotations

import json

import pytest

from bench import costs
from docs import generate
from tests.docs.pages import rows, section

COUNTED = json.loads(costs.PAGE.read_text())


@pytest.mark.parametrize(("size", "shape"), costs.BATCHES.items())
def test_a_run_was_counted_whole(size: str, shape: tuple[int, int]) -> None:
    lines, batches = shape
    counts = COUNTED[size]["counts"]
    assert COUNTED[size]["bytes"] == costs.LINE_BYTES * lines * batches
    assert counts["API requests"] == batches + 1, "each batch is one request, and the close is one"
    assert batches < counts["S3 writes (PUT, copy, delete)"] < 2 * batches + 12, (
        "each batch is one PUT; some more to compact and close"
    )


def test_the_sum_is_right() -> None:
    """By hand, from list prices: 3.50 for a million requests of the gateway, 0.20 of Lambda, 16.6667 for a million GB-seconds; 5 and 0.40
    of S3; 0.625 for a million write units, 2.5 for a request; 0.50 of SNS."""
    counts, size = COUNTED["100 lines"]["counts"], COUNTED["100 lines"]["bytes"]
    prices = (3.5, 0.2, 16.6667, 5, 0.4, 2.5 * 0.625, 0.5)
    by_hand = sum(count * price for count, price in zip(counts.values(), prices, strict=True)) / size * 1000
    assert sum(generate.costs()["100 lines"].values()) == pytest.approx(by_hand)


def test_the_page_compares_with_cloudwatch_logs() -> None:
    for size, *_, total, times in rows(section(generate.DOCS / "operations.md", "What a GB costs")):
        assert size in costs.BATCHES
        assert float(times) == pytest.approx(float(total.strip("*")) / 0.5, abs=0.01)


def test_large_batches_are_cheaper_than_cloudwatch_logs_and_small_ones_are_not() -> None:
    """As the page says."""
    assert [sum(dollars.values()) < 0.5 for dollars in generate.costs().values()] == [False, False, True, True]
