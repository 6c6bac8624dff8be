"""Pages of files: bounded by their deadline regardless of where time is spent, and each further than the one before."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import pytest

from chalicelib.deadline import Deadline
from chalicelib.pipelines.files.generations import Generations
from chalicelib.pipelines.files.key_layout import DAY_MS
from chalicelib.pipelines.files.reading import FileEventQuery, FileReader, MergePosition
from tests.faults.interception import Intercepted
from tests.files_harness import START_MS, FilesHarness, commit, record_of

QUERY = FileEventQuery("files", "svc", "flow")
GET_S, PAGE_S = 0.5, 4.0


class Slow:
    """Reads a site with GETs that take half a second."""

    def __init__(self, site: FilesHarness, page_s: float = PAGE_S) -> None:
        self.site, self.page_s, self.gets = site, page_s, 0

    def page(
        self, query: FileEventQuery, after: MergePosition | None, limit: int = 10**6
    ) -> tuple[list[str], MergePosition | None]:
        store: Any = Intercepted(self.site.store, self._gate)
        reading = FileReader(store, self.site.database, Generations(self.site.database, self.site.clock), lambda what, why: None)
        merge = reading.merge(query, Deadline(self.site.clock, self.page_s), after)
        found: list[str] = []
        for event in merge.events():
            if len(found) == limit:
                return found, merge.position
            found.append(event.message)
        return found, merge.position if merge.is_cut else None

    def all(self, query: FileEventQuery, limit: int = 10**6) -> tuple[list[str], list[int]]:
        """All pages: their events, and the GETs of each."""
        messages: list[str] = []
        gets: list[int] = []
        after: MergePosition | None = None
        while True:
            self.gets = 0
            begun_s = self.site.clock.monotonic_s()
            found, place = self.page(query, after, limit)
            assert self.site.clock.monotonic_s() - begun_s <= self.page_s + GET_S
            messages, gets = messages + found, [*gets, self.gets]
            assert len(gets) < 300
            if place is None:
                return messages, gets
            assert after is None or (place.time_ms, place.at, place.skipped) > (after.time_ms, after.at, after.skipped)
            after = place

    def _gate(self, operation: str, call: Callable[[], Any]) -> Any:
        if operation == "get":
            self.gets += 1
            self.site.clock.advance(GET_S)
        return call()


def written(site: FilesHarness, times: dict[str, list[int]]) -> list[str]:
    """A file for each program with events of these times, in this order. Returns all messages in the order in which they are
    read."""
    order = []
    for program, of_program in times.items():
        handler = site.handler()
        for number, time_ms in enumerate(of_program):
            handler.handle(record_of(number, f"{program} {number}", program=program, time_ms=START_MS + time_ms))
            order.append((time_ms, program, number, f"{program} {number}"))
        commit(site, handler)
    return [message for *_, message in sorted(order)]


def test_page_that_finds_nothing_ends_at_its_deadline() -> None:
    site = FilesHarness()
    written(site, {f"p{number:02d}": [0, 3_000_000] for number in range(40)})
    messages, gets = Slow(site).all(FileEventQuery("files", "svc", "flow", from_ms=START_MS + 1000, to_ms=START_MS + 2000))
    assert messages == [] and max(gets) <= PAGE_S / GET_S and sum(gets) == 40


def test_pages_read_no_file_again_for_events_of_the_same_time() -> None:
    site = FilesHarness()
    order = written(site, {f"p{number:02d}": [0] for number in range(40)})
    messages, gets = Slow(site).all(QUERY)
    assert messages == order and sum(gets) <= 40 + len(gets)
    messages, gets = Slow(site).all(QUERY, limit=7)
    assert messages == order and sum(gets) <= 40 + 2 * len(gets)


def test_page_whose_time_is_over_before_it_begins_comes_further() -> None:
    site = FilesHarness()
    order = written(site, {f"p{number}": [0, 0, number] for number in range(5)})
    assert Slow(site, page_s=0.0).all(QUERY)[0] == order


def test_pages_pass_over_times_without_events() -> None:
    site = FilesHarness()
    order = written(site, {f"p{number:02d}": [0, 3_000_000, 9_000_000 + number % 2] for number in range(40)})
    messages, gets = Slow(site).all(QUERY)
    assert messages == order and len(gets) < 60


@pytest.mark.parametrize("seed", range(25))
def test_pages_are_what_one_read_without_a_deadline_is(seed: int) -> None:
    rng, site = random.Random(seed), FilesHarness()
    programs = [f"p{number:02d}" for number in range(rng.randint(1, 14))]
    order = written(site, {each: [rng.randrange(12) for _ in range(rng.randint(1, 8))] for each in programs})
    reading = FileReader(site.store, site.database, Generations(site.database, site.clock), lambda what, why: None)
    assert [event.message for event in reading.events(QUERY)] == order
    assert Slow(site).all(QUERY, limit=rng.randint(1, 9))[0] == order
    low, high = sorted((rng.randrange(13), rng.randrange(13)))
    ranged = FileEventQuery("files", "svc", "flow", from_ms=START_MS + low, to_ms=START_MS + high)
    assert Slow(site).all(ranged, limit=rng.randint(1, 9))[0] == [event.message for event in reading.events(ranged)]


def test_rows_of_other_days_are_passed_over(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("chalicelib.pipelines.files.table.PAGE_ROWS", 5)
    site = FilesHarness()
    handler = site.handler()
    programs = ["a", "b", "c"]
    for program in programs:
        for day in range(60):
            for number in (0, 1):
                record = record_of(day, f"{program} {day}.{number}", program=program, time_ms=START_MS + day * DAY_MS)
                handler.handle(record)
    commit(site, handler)
    for day in (0, 30, 59):
        first_ms = START_MS + day * DAY_MS
        site.database.calls.clear()
        reading = FileReader(site.store, site.database, Generations(site.database, site.clock), lambda what, why: None)
        query = FileEventQuery("files", "svc", "flow", from_ms=first_ms, to_ms=first_ms + 1)
        messages = [event.message for event in reading.events(query)]
        assert messages == [f"{program} {day}.{number}" for program in programs for number in (0, 1)]
        assert site.database.calls["query"] <= 3 * len(programs) + 1
    assert len(list(reading.events(QUERY))) == 3 * 60 * 2
