"""Times of events without their own time: inherited from the event before, independent of pages."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import pytest

from chalicelib.errors import UnavailableError
from chalicelib.events.event_browser import EventBrowser
from chalicelib.events.event_times import LOOK_BACK_LINES
from chalicelib.events.event_view import EventFilter
from chalicelib.runlog.batch import Batch
from tests.events_harness import EventParts, event_parts, make_event
from tests.faults.interception import Intercepted
from tests.world import RUN, World

TRACE = "Traceback (most recent call last):\n  File x\nValueError: y\n"
HOUR_S = 3600


def stated(world: World, behind_s: float = 0) -> str:
    """A time at the beginning of a line, some seconds ago."""
    return datetime.fromtimestamp(world.clock.now_ms() // 1000 + behind_s, UTC).strftime("%Y-%m-%d %H:%M:%S,000")


def append(parts: EventParts, text: str) -> None:
    parts.writer.append(RUN, Batch.from_text(text))


def lines_of(browser: EventBrowser, wanted: EventFilter, limit: int = 100) -> list[int]:
    """The first lines of the matching events, read by pages of a given size."""
    found: list[int] = []
    after: int | None = 0
    while after is not None:
        page = browser.page(RUN, wanted, after, limit)
        found += [event.line for event in page.events]
        after = page.after
    return found


def scenario(world: World, parts: EventParts, name: str) -> tuple[int, list[int]]:
    """Appends a log; returns a time, and the first lines of the events at or after it."""
    now_ms = world.clock.now_ms()
    if name == "prints and a trace behind a line with a time":
        append(parts, f"{stated(world, -60)} INFO a: b\nprint\n{stated(world, -30)} INFO a: c\nprint\n{TRACE}")
        return now_ms - 40_000, [2, 3, 4]
    if name == "a log that arrived a week late":
        append(parts, f"{stated(world, -168 * HOUR_S)} INFO a: b\nprint\n{stated(world, -167 * HOUR_S)} INFO a: c\n{TRACE}")
        return now_ms - 167 * HOUR_S * 1000 - 60_000, [2, 3]
    if name == "an hour of silence before the trace":
        append(parts, f"{stated(world)} INFO a: b\n")
        world.clock.advance(HOUR_S)
        append(parts, TRACE)
        return now_ms + 1, [1]
    if name == "a date that a line is about":
        for _ in range(3):
            append(parts, f"{stated(world)} INFO a: b\n")
        append(parts, f"{stated(world, -99_999 * HOUR_S)} INFO partition: done\n{TRACE}")
        return now_ms, [0, 1, 2, 4]
    if name == "no line has a time":
        append(parts, "print\n")
        world.clock.advance(60)
        append(parts, TRACE)
        return now_ms + 60_000, [1]
    if name == "too many lines behind the one with a time":
        append(parts, f"{stated(world, -60)} INFO a: b\n" + "print\n" * (LOOK_BACK_LINES + 1))
        return now_ms, [LOOK_BACK_LINES + 1]
    assert name == "behind an event"
    parts.log.append(RUN, [make_event("a", timestamp=now_ms - 60_000), make_event("b", timestamp=now_ms - 30_000)])
    append(parts, TRACE)
    return now_ms - 40_000, [1, 2]


@pytest.mark.parametrize("limit", [1, 2, 100])
@pytest.mark.parametrize(
    "name",
    [
        "prints and a trace behind a line with a time",
        "a log that arrived a week late",
        "an hour of silence before the trace",
        "a date that a line is about",
        "no line has a time",
        "too many lines behind the one with a time",
        "behind an event",
    ],
)
def test_from_and_to_take_events_without_a_time_by_the_time_before_them_on_pages_of_any_size(name: str, limit: int) -> None:
    world = World()
    parts = event_parts(world)
    time_ms, expected = scenario(world, parts, name)
    parts.finalizer.close(RUN)
    everything = lines_of(parts.browser, EventFilter(), limit)
    assert lines_of(parts.browser, EventFilter(from_ms=time_ms), limit) == expected
    assert lines_of(parts.browser, EventFilter(to_ms=time_ms), limit) == [line for line in everything if line not in expected]


def test_without_catalog_an_event_inherits_the_time_and_none_is_skipped() -> None:
    world = World()
    parts = event_parts(world)
    append(parts, f"print\n{stated(world)} INFO a: b\n{TRACE}{stated(world, 60)} INFO a: c\n{TRACE}")
    parts.finalizer.close(RUN)
    world.index.clear()
    assert lines_of(parts.browser, EventFilter(from_ms=world.clock.now_ms() + 1)) == [0, 5, 6]
    world.index.failures.schedule("at_line", "rows_from", error=UnavailableError, times=99)
    assert lines_of(parts.browser, EventFilter(from_ms=world.clock.now_ms() + 1)) == [0, 5, 6]


def test_times_are_computed_only_with_time_bounds() -> None:
    world = World()
    parts = event_parts(world)
    for _ in range(50):
        append(parts, "print\n")
    append(parts, f"{stated(world)} INFO a: b\n{TRACE}")
    parts.finalizer.close(RUN)
    asked: list[str] = []

    def count(operation: str, call: Callable[[], Any]) -> Any:
        asked.append(operation)
        return call()

    browser = event_parts(world, lambda port: Intercepted(port, count) if port is world.index else port).browser
    for wanted, queries in [
        (EventFilter(), []),
        (EventFilter(from_ms=1, text="INFO"), []),
        (EventFilter(from_ms=1), ["at_line", "rows_from"]),
    ]:
        asked.clear()
        assert browser.page(RUN, wanted).events
        assert asked == queries
