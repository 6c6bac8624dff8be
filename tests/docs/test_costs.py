"""What logs cost: the counts are those of the runs that the command makes, and the sums are right."""

from __future__ import annotations

import json

import pytest

from bench.costs import LINE_BYTES, SHAPES
from docs import costs
from docs.generate import DOCS
from local.prices import PRICES, dollars
from tests.docs.pages import rows, section

COUNTED = costs.shapes()


@pytest.mark.parametrize(("size", "shape"), SHAPES.items())
def test_counts_are_of_a_complete_run(size: str, shape: object) -> None:
    lines, batches = SHAPES[size].lines, SHAPES[size].batches
    run = COUNTED[size]
    assert (run["bytes"], run["appends"]) == (LINE_BYTES * lines * batches, batches)
    assert run["appended"]["api"]["API requests"] == batches and run["finished"]["api"]["API requests"] == 1
    assert batches <= run["appended"]["api"]["S3 PUT, copy, LIST"] <= batches + 3, "an append is one PUT; the first also lists"
    assert run["finished"]["api"]["S3 writes to STANDARD_IA"] == 1, "logs.txt"


def test_counts_have_the_date_and_commit_of_their_measurement() -> None:
    measured = json.loads(costs.COUNTS.read_text())["measured"]
    assert len(measured["date"]) == 10 and len(measured["commit"]) == 8


def test_tables_of_counts_say_when_they_were_counted() -> None:
    assert (DOCS / "operations.md").read_text().count(costs.counted_at()) >= 1


def test_month_counts_markers_once() -> None:
    """What follows an append is one PUT, the append itself: those of ingestion are the markers, which have a row of their own."""
    shape = COUNTED["4 KiB"]
    assert costs.BATCH_EVERY_S < costs.MARKER_EVERY_S and shape["appended"]["ingest"]["S3 PUT, copy, LIST"] > 0
    assert costs._without_markers(shape["appended"])["S3 PUT, copy, LIST"] == shape["appended"]["api"]["S3 PUT, copy, LIST"]
    _, (appends, _, _, markers, _) = costs.of_a_month()
    with_markers = dollars(costs._sum(shape["appended"])) / shape["appends"] * costs.OPEN_RUNS * costs.MONTH_S / costs.BATCH_EVERY_S
    own = 216 * shape["appended"]["ingest"]["S3 PUT, copy, LIST"]  # dollars: one PUT for 60 of 2.592 billion appends
    assert float(appends[1].replace(",", "")) == pytest.approx(with_markers - own, abs=1) and markers[1] == "2,160"


def test_sum_of_a_gigabyte_is_right() -> None:
    """By hand, from list prices for a million."""
    by_hand = {
        "API requests": 3.5, "function calls": 0.2, "function time, GB-seconds": 16.6667, "S3 PUT, copy, LIST": 5,
        "S3 writes to STANDARD_IA": 10, "S3 GET, HEAD": 0.4, "DynamoDB write units": 0.625, "DynamoDB read units": 0.125,
        "SQS requests": 0.4, "SNS reports": 0.5, "bytes of own log lines": 0.0005,
    }  # fmt: skip
    assert by_hand == PRICES
    assert sorted(name for names in costs.GROUPS.values() for name in names) == sorted(PRICES)
    run = COUNTED["64 KiB"]
    functions = [*run["appended"].values(), *run["finished"].values()]
    total = sum(count * by_hand[name] / 1e6 for units in functions for name, count in units.items()) / run["bytes"] * 1e9
    assert sum(costs.by_gigabyte()["64 KiB"].values()) == pytest.approx(total)


def test_page_compares_with_cloudwatch_logs() -> None:
    compared = list(rows(section(DOCS / "operations.md", "What a GB costs")))
    assert [row[0] for row in compared if len(row) == 7] == list(SHAPES)
    for _, *_, total, times in (row for row in compared if len(row) == 7):
        assert float(times) == pytest.approx(float(total.strip("*")) / 0.5, abs=0.01)


def test_goal_of_a_tenth_is_missed() -> None:
    """CloudWatch Logs takes 0.50 a GB."""
    totals = {size: sum(groups.values()) for size, groups in costs.by_gigabyte().items()}
    assert totals["64 KiB"] > totals["1 MiB"] > 0.05, "docs/operations.md says so"


def test_expiring_a_million_runs_costs_what_the_page_says() -> None:
    """2 LIST, 1 HEAD, 1 PUT, 1 DeleteItem, 1 Query, and 25 rows of segments: 32."""
    puts, gets = PRICES["S3 PUT, copy, LIST"], PRICES["S3 GET, HEAD"]
    rows, reads = PRICES["DynamoDB write units"], PRICES["DynamoDB read units"]
    assert round(3 * puts + gets + 26 * rows + reads) == 32
