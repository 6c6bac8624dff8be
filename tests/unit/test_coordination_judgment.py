"""The checker of the logs of killed workers: it must detect each violation."""

from __future__ import annotations

from typing import Any

import pytest

from bench.coordination_kill import violations


def event(name: str, owner: str, fence: int, version: int, at_s: float) -> dict[str, Any]:
    return {"event": name, "key": "k", "owner": owner, "fence": fence, "version": version, "at_s": at_s}


GOOD = [
    event("acquired", "a", 1, 1, 10.0),
    event("step", "a", 1, 1, 11.0),
    event("saved", "a", 1, 2, 12.0),
    event("acquired", "b", 3, 3, 30.0),
    event("step", "b", 3, 3, 31.0),
    event("saved", "b", 3, 4, 32.0),
    event("completed", "b", 3, 5, 33.0),
]


def test_judge_accepts_a_takeover() -> None:
    assert violations(GOOD) == violations(list(reversed(GOOD))) == []


@pytest.mark.parametrize(
    ("bad", "told"),
    [
        (event("acquired", "c", 3, 3, 30.5), "two acquisitions with one fence"),
        (event("saved", "a", 1, 3, 29.0), "written after another had it"),
        (event("saved", "a", 1, 6, 40.0), "written after another had it"),
        (event("completed", "a", 1, 3, 29.0), "completed twice"),
        (event("step", "a", 1, 2, 30.5), "worked after another had it"),
        (event("saved", "b", 3, 4, 32.5), "a version was written twice"),
        (event("acquired", "c", 6, 6, 50.0), "something followed on the completion"),
        (event("step", "c", 7, 7, 50.0), "worked without an acquisition"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_judge_reports_violations(bad: dict[str, Any], told: str) -> None:
    assert any(told in fault for fault in violations([*GOOD, bad]))
