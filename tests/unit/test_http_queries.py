"""Query parameters of pages: lenient, and clamped."""

from __future__ import annotations

import pytest

from chalicelib.routes.queries import page_request, runs_limit
from chalicelib.runlog.reader import PageRequest

SPARE_S = 24.0


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ({}, PageRequest(after=0, limit=1000)),
        ({"after": "7", "limit": "2"}, PageRequest(after=7, limit=2)),
        ({"offset": "7"}, PageRequest(after=7)),
        ({"after": "7", "offset": "3"}, PageRequest(after=7)),
        ({"after": "0", "offset": "3"}, PageRequest(after=0)),
        # a cursor that is not a number: from 0
        *[({"after": bad}, PageRequest(after=0)) for bad in ("", "null", "-5", "1.5", "1e9", " 7", "٧", "0x10", "DROP")],
        # one past any end
        *[({"after": digits}, PageRequest(after=10**15)) for digits in ("9" * 18, "9" * 5000)],
        # a limit is 1 to 10,000
        ({"limit": "0"}, PageRequest(limit=1)),
        ({"limit": "10001"}, PageRequest(limit=10_000)),
        ({"limit": "all"}, PageRequest(limit=1000)),
        ({"limit": "-1"}, PageRequest(limit=1000)),
        # the last lines
        ({"tail": "50"}, PageRequest(limit=50, tail=50)),
        *[({"since": "5", "clock": each}, PageRequest(since_ms=5, clock=each)) for each in ("lines", "arrival")],
        *[({"since": "5", "clock": bad}, PageRequest(since_ms=5)) for bad in ("", "LINES", "both")],
        ({"tail": "5000"}, PageRequest(limit=5000, tail=5000)),
        ({"tail": "50", "limit": "10"}, PageRequest(limit=10, tail=50)),
        ({"tail": "x"}, PageRequest()),
        # since a time
        ({"since": "1790000000000"}, PageRequest(since_ms=1_790_000_000_000)),
        ({"since": "2026-09-21T14:13:20Z"}, PageRequest(since_ms=1_790_000_000_000)),
        ({"since": "2026-09-21T16:13:20+02:00"}, PageRequest(since_ms=1_790_000_000_000)),
        ({"since": "2026-09-21T14:13:20"}, PageRequest(since_ms=1_790_000_000_000)),
        ({"since": "yesterday"}, PageRequest()),
        # waiting
        ({"wait": "2.5"}, PageRequest(wait_s=2.5)),
        ({"wait": "60"}, PageRequest(wait_s=20.0)),
        ({"wait": "-1"}, PageRequest()),
        ({"wait": "inf"}, PageRequest()),
        ({"wait": "nan"}, PageRequest()),
    ],
)
def test_page_requests(query: dict[str, str], expected: PageRequest) -> None:
    assert page_request(query, SPARE_S) == expected


@pytest.mark.parametrize(("spare_s", "expected"), [(24.0, 20.0), (7.5, 7.5), (0.0, 0.0), (-3.0, 0.0)])
def test_a_page_waits_no_longer_than_the_function_has(spare_s: float, expected: float) -> None:
    assert page_request({"wait": "20"}, spare_s).wait_s == expected


@pytest.mark.parametrize(("given", "expected"), [(None, 10), ("3", 3), ("0", 1), ("5000", 1000), ("x", 10)])
def test_how_many_runs(given: str | None, expected: int) -> None:
    assert runs_limit({"limit": given} if given else {}) == expected
