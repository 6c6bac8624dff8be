"""The request units that decision 0009 tells are what operations cost. ``python -m docs.units`` writes them anew."""

from __future__ import annotations

import pytest

from docs import units
from tests.docs.pages import rows


def test_writes_cost_what_the_decision_says() -> None:
    assert units.render("writes") == units.writes(), "run: python -m docs.units"


@pytest.mark.parametrize("count", units.COUNTS[:2])
def test_queries_cost_what_the_decision_says(count: int) -> None:
    column = 1 + units.COUNTS.index(count)
    assert {row[0]: row[column] for row in rows(units.render("reads"))} == units.reads(count), "run: python -m docs.units"
