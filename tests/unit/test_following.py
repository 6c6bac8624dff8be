"""Following a run: each line once and in order during compaction and retirement; fast while lines arrive, cheap while none do."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from chalicelib.errors import StoreUnavailableError
from chalicelib.response_size import CONTENT_BYTES
from chalicelib.runlog.batch import Batch
from chalicelib.runlog.following import HOLD_S, MAX_PAUSE_S, MIN_PAUSE_S, FollowEnd, Follower, FollowRequest, FollowUpdate
from chalicelib.runlog.page import RAW_BYTES
from tests.faults.interception import Intercepted
from tests.sampling import examples
from tests.world import RUN, World

IDLE_MS = 3_600_000
HOUR_S = 3600.0


class Scene:
    """A world with following clients; counts requests to the store and the catalog. ``later``: actions at times during a wait."""

    def __init__(self) -> None:
        self.world = World()
        self.spent: dict[str, int] = {}
        self.later: list[tuple[float, Callable[[], Any]]] = []
        self.store, self.index = self._watched(self.world.store, "s3"), self._watched(self.world.index, "catalog")
        self.follower = self.process()

    def process(self) -> Follower:
        """A function instance with empty caches."""
        reader = self.world.parts(self.store, self.index).reader
        return Follower(self.store, self.index, self.world.layout, self.world.clock, reader, IDLE_MS)

    def _watched(self, port: Any, name: str) -> Any:
        def gate(operation: str, call: Callable[[], Any]) -> Any:
            for due_s, happen in [each for each in self.later if each[0] <= self.world.clock.monotonic_s()]:
                self.later.remove((due_s, happen))
                happen()
            self.spent[name] = self.spent.get(name, 0) + 1
            self.spent[operation] = self.spent.get(operation, 0) + 1
            return call()

        return Intercepted(port, gate)

    def append(self, text: str) -> None:
        self.world.parts().writer.append(RUN, Batch.from_text(text))

    def in_s(self, seconds: float, happen: Callable[[], Any]) -> None:
        self.later.append((self.world.clock.monotonic_s() + seconds, happen))

    def index_all(self) -> None:
        compactor = self.world.parts().compactor
        compactor.index_pending(RUN, compactor.read_state(RUN))

    def compact(self) -> None:
        self.world.parts().compactor.compact(RUN, self.world.deadline())

    def retire(self) -> None:
        self.compact()
        self.world.clock.advance(21 * 60)
        self.compact()

    def close(self) -> None:
        self.world.parts().finalizer.close(RUN)

    def ask(self, after: int = 0, **options: Any) -> FollowUpdate:
        return self.follower.follow(RUN, FollowRequest(after, **options))


def test_existing_lines_are_returned_at_once() -> None:
    scene = Scene()
    scene.append("one\ntwo\n")
    assert scene.ask() == FollowUpdate(2, "one\ntwo\n", replay=True)
    assert scene.world.clock.monotonic_s() == 0


def test_new_lines_are_returned_when_they_arrive() -> None:
    scene = Scene()
    scene.append("one\n")
    scene.ask()
    scene.in_s(0.6, lambda: scene.append("two\n"))
    assert scene.ask(1) == FollowUpdate(2, "two\n")
    assert scene.world.clock.monotonic_s() <= 0.6 + MIN_PAUSE_S


def test_wait_ends_without_lines() -> None:
    scene = Scene()
    scene.append("one\n")
    scene.ask()
    assert scene.ask(1) == FollowUpdate(1)
    assert scene.world.clock.monotonic_s() == HOLD_S
    assert scene.follower.follow(RUN, FollowRequest(1), 3) == FollowUpdate(1)
    assert scene.world.clock.monotonic_s() == HOLD_S + 3
    assert scene.follower.follow(RUN, FollowRequest(1), 0) == FollowUpdate(1), "no time is left: one look"


def test_a_run_that_does_not_exist_yet_is_waited_for() -> None:
    scene = Scene()
    assert scene.ask() == FollowUpdate(0)
    assert scene.world.clock.monotonic_s() == HOLD_S
    scene.in_s(4, lambda: scene.append("first\n"))
    assert scene.ask() == FollowUpdate(1, "first\n")


@pytest.mark.parametrize("how", ["close", "abandon"])
def test_end_is_returned_with_the_last_lines_and_afterwards(how: str) -> None:
    scene = Scene()
    scene.append("one\n")
    finalizer = scene.world.parts().finalizer
    finish = (
        scene.close if how == "close" else lambda: finalizer.abandon(RUN, scene.world.clock.now_ms() + 1, scene.world.deadline())
    )
    finish()
    assert scene.ask() == FollowUpdate(1, "one\n", replay=True, end=FollowEnd.RUN_FINISHED)
    for follower in (scene.follower, scene.process()):
        assert follower.follow(RUN, FollowRequest(1)) == FollowUpdate(1, end=FollowEnd.RUN_FINISHED)
    assert scene.ask(99) == FollowUpdate(99, end=FollowEnd.RUN_FINISHED), "a place behind the end"


def test_end_arrives_during_the_wait() -> None:
    scene = Scene()
    scene.append("one\n")
    scene.ask()
    scene.in_s(2, lambda: (scene.append("two\n"), scene.close()))
    assert scene.ask(1) == FollowUpdate(2, "two\n", end=FollowEnd.RUN_FINISHED)
    scene = Scene()
    scene.append("one\n")
    scene.ask()
    scene.in_s(2, scene.close)
    assert scene.ask(1) == FollowUpdate(1, end=FollowEnd.RUN_FINISHED)


def test_reopened_run_is_followed() -> None:
    scene = Scene()
    scene.append("one\n")
    scene.world.parts().finalizer.abandon(RUN, scene.world.clock.now_ms() + 1, scene.world.deadline())
    assert scene.ask().end
    scene.index_all()
    scene.append("two\n")
    assert scene.ask(1) == FollowUpdate(2, "two\n", replay=True)


@pytest.mark.parametrize("following", [1, 31, 32, 100])
def test_seal_of_a_reopened_run_is_not_its_end(following: int) -> None:
    """Abandoned and reopened between two looks of a client, with its seal at any place of a response."""
    scene = Scene()
    scene.append("0\n")
    scene.ask()
    for number in range(1, following + 1):
        scene.append(f"{number}\n")
    scene.world.parts().finalizer.abandon(RUN, scene.world.clock.now_ms() + 1, scene.world.deadline())
    scene.append("reopened\n")
    told, after, answers = [], 1, 0
    while len(told) <= following:
        news = scene.ask(after)
        assert news.end is None and answers < 6
        told += news.logs.split("\n")[:-1]
        after, answers = news.after, answers + 1
    assert told == [str(number) for number in range(1, following + 1)] + ["reopened"]
    scene.world.parts().finalizer.abandon(RUN, scene.world.clock.now_ms() + 1, scene.world.deadline())
    assert scene.ask(after).end is FollowEnd.RUN_FINISHED


@pytest.mark.slow
@pytest.mark.parametrize("size", [1, RAW_BYTES // 8])
def test_rows_that_are_written_late_lose_no_line_of_a_client_that_is_far_behind(size: int) -> None:
    """Segments are retired as soon as they have rows, between two requests of a client that has read only the first of them."""
    scene = Scene()
    scene.append("0\n")
    scene.index_all()
    for number in range(1, 101):
        scene.append(f"{number} {'x' * size}\n")
    scene.world.clock.advance(21 * 60)
    after = scene.ask(1).after
    scene.compact()
    scene.append("101\n")
    scene.close()
    while (news := scene.ask(after)).end is None:
        assert news.after > after
        after = news.after
    assert news.after == 102


def test_the_last_lines() -> None:
    scene = Scene()
    scene.append("".join(f"{n}\n" for n in range(50)))
    assert scene.ask(tail=2) == FollowUpdate(50, "48\n49\n", replay=True)
    assert scene.ask(tail=0) == FollowUpdate(50)
    scene.in_s(1, lambda: scene.append("more\n"))
    assert scene.ask(tail=0) == FollowUpdate(51, "more\n")


def test_idle_run_is_waited_for_and_then_reported() -> None:
    scene = Scene()
    scene.append("one\n")
    scene.ask()
    scene.world.clock.advance(IDLE_MS / 1000)
    assert scene.ask(0) == FollowUpdate(1, "one\n", replay=True), "existing lines come first"
    for _ in range(2):
        begin_s = scene.world.clock.monotonic_s()
        assert scene.ask(1) == FollowUpdate(1, end=FollowEnd.IDLE_TIMEOUT)
        assert scene.world.clock.monotonic_s() == begin_s + HOLD_S
        scene.retire()  # the last line is in an artifact
    scene.in_s(20, lambda: scene.append("two\n"))
    assert scene.ask(1) == FollowUpdate(2, "two\n")


def test_client_limits_the_duration() -> None:
    scene = Scene()
    scene.append("one\n")
    until_ms = scene.world.clock.now_ms() + 2000
    assert scene.ask(until_ms=until_ms).logs == "one\n"
    assert scene.ask(1, until_ms=until_ms) == FollowUpdate(1, end=FollowEnd.UNTIL_REACHED)
    assert 2 <= scene.world.clock.monotonic_s() <= 2.5


@pytest.mark.parametrize("is_known", [True, False])
def test_time_of_a_client_ends_with_the_lines_that_exist_also_while_lines_come(is_known: bool) -> None:
    """Otherwise a client of a busy run would continue while each of its requests finds a line."""
    scene = Scene()
    scene.append("one\n")
    if is_known:
        scene.ask()
        scene.append("two\n")
    until_ms = scene.world.clock.now_ms()
    update = FollowUpdate(1 + is_known, "two\n" if is_known else "one\n", replay=True, end=FollowEnd.UNTIL_REACHED)
    assert scene.ask(int(is_known), until_ms=until_ms) == update
    assert scene.ask(update.after, until_ms=until_ms) == FollowUpdate(update.after, end=FollowEnd.UNTIL_REACHED)
    scene.append("".join(f"{number:04d} {'x' * 1000}\n" for number in range(5000)))
    first = scene.ask(update.after, until_ms=until_ms)
    assert first.more and first.end is None, "all of them"


@pytest.mark.parametrize("is_known", [True, False])
def test_a_log_of_the_limit_in_bytes_is_the_end_for_clients_with_a_limit(is_known: bool) -> None:
    scene = Scene()
    scene.append("12345\n")
    reader = scene.world.parts().reader
    follower = Follower(scene.store, scene.index, scene.world.layout, scene.world.clock, reader, IDLE_MS, max_bytes=12)
    assert follower.follow(RUN, FollowRequest(has_limit=True)) == FollowUpdate(1, "12345\n", replay=True)
    scene.append("1234\n")
    assert follower.follow(RUN, FollowRequest(1, has_limit=True)).end is None, "one byte less"
    scene.append("\n")
    if not is_known:
        follower = Follower(scene.store, scene.index, scene.world.layout, scene.world.clock, reader, IDLE_MS, max_bytes=12)
    update = FollowUpdate(3, "\n", replay=True, end=FollowEnd.MAX_BYTES)
    assert follower.follow(RUN, FollowRequest(2, has_limit=True)) == update
    assert follower.follow(RUN, FollowRequest(3, has_limit=True)) == FollowUpdate(3, end=FollowEnd.MAX_BYTES)
    assert follower.follow(RUN, FollowRequest(3)) == FollowUpdate(3), "a client without a limit"


def test_a_page_in_the_middle_of_a_log_over_the_limit_is_the_last_one_that_reaches_it() -> None:
    scene = Scene()
    scene.append("".join(f"{number:04d} {'x' * 1000}\n" for number in range(5000)))
    reader = scene.world.parts().reader
    follower = Follower(scene.store, scene.index, scene.world.layout, scene.world.clock, reader, IDLE_MS, max_bytes=4_000_000)
    first = follower.follow(RUN, FollowRequest(has_limit=True))
    assert first.more and first.end is None
    assert follower.follow(RUN, FollowRequest(first.after, has_limit=True)).end is FollowEnd.MAX_BYTES


@pytest.mark.parametrize("line", ["a\rb", "", "x" * 1_000_000, "a\u2028b\u2029c\x85d", "\x00\x1b[31m", "語" * 1000])
def test_lines_of_any_kind(line: str) -> None:
    scene = Scene()
    scene.append("before\n")
    scene.ask()
    scene.append(f"{line}\nbehind\n")
    assert scene.ask(1).logs == f"{line}\nbehind\n"
    assert scene.process().follow(RUN, FollowRequest(1)).logs == f"{line}\nbehind\n"


def test_a_line_that_is_longer_than_an_answer_is_cut_and_the_next_one_follows() -> None:
    scene = Scene()
    scene.append("before\n")
    scene.ask()
    scene.append("x" * (2 * RAW_BYTES) + "\nbehind\n")
    news = scene.ask(1)
    assert news.truncated and news.more and news.after == 2 and 0 < len(news.logs) <= CONTENT_BYTES
    assert scene.ask(2).logs == "behind\n"


@pytest.mark.slow
def test_lines_beyond_a_response_follow_in_the_next() -> None:
    scene = Scene()
    lines = [f"{n} " + "\x01" * 1000 for n in range(4000)]
    scene.append("\n")
    scene.ask()
    for first in range(0, 4000, 1000):
        scene.append("\n".join(lines[first : first + 1000]) + "\n")
    told, after, answers = [], 1, 0
    while len(told) < len(lines):
        news = scene.ask(after)
        assert news.more == (news.after < 4001) and len(news.logs) <= RAW_BYTES
        told += news.logs.split("\n")[:-1]
        after, answers = news.after, answers + 1
    assert told == lines and answers < 10


def test_many_small_segments_come_in_a_few_answers() -> None:
    scene = Scene()
    scene.append("0\n")
    scene.ask()
    for number in range(1, 101):
        scene.append(f"{number}\n")
    told, after = [], 1
    while len(told) < 100:
        news = scene.ask(after)
        told += news.logs.split("\n")[:-1]
        after = news.after
    assert told == [str(number) for number in range(1, 101)]


def test_the_catalog_may_be_away() -> None:
    scene = Scene()
    scene.append("one\n")
    scene.index_all()

    def gate(operation: str, call: Callable[[], Any]) -> Any:
        raise StoreUnavailableError("the catalog is away")

    scene.index = Intercepted(scene.world.index, gate)
    assert scene.process().follow(RUN, FollowRequest(1)) == FollowUpdate(1)
    assert scene.process().follow(RUN, FollowRequest(0)).logs == "one\n"


# Once and in order, against a plain list

STEPS = st.one_of(
    st.lists(st.text("aé\r\x0b語", max_size=5), min_size=1, max_size=4),
    st.sampled_from(["index", "compact", "retire", "ask", "ask", "other process", "pass"]),
)


@pytest.mark.behavior("A follower gets every line once and in order during appends, compaction and finalization.")
@settings(max_examples=examples(150), deadline=None)
@given(steps=st.lists(STEPS, max_size=20), meanwhile=st.lists(STEPS, max_size=6), start=st.integers(0, 4), tail=st.booleans())
def test_every_line_once_and_in_order(steps: list[Any], meanwhile: list[Any], start: int, tail: bool) -> None:
    scene, lines, told = Scene(), list[str](), list[str]()
    after: int | None = None if tail else start
    first, is_over = None if tail else start, False

    def happen(step: Any) -> None:
        match step:
            case list():
                scene.append("\n".join(step) + "\n")
                lines.extend(step)
            case "index":
                scene.index_all()
            case "compact":
                scene.compact()
            case "retire":
                scene.retire()

    def ask() -> None:
        nonlocal after, first, is_over
        news = scene.ask(tail=2) if after is None else scene.ask(after)
        if after is None:
            first = news.after - news.logs.count("\n")
        else:
            assert news.after == after + news.logs.count("\n")
        told.extend(news.logs.split("\n")[:-1])
        after, is_over = news.after, news.end is FollowEnd.RUN_FINISHED

    for step in steps:
        if step == "ask":
            if meanwhile:
                scene.in_s(1, lambda: happen(meanwhile.pop()) if meanwhile else None)
            ask()
        elif step == "other process":
            scene.follower = scene.process()
        else:
            happen(step)
    scene.later.clear()
    scene.close()
    while not is_over:
        ask()
    assert told == lines[first:]


# Requests


def quiet_hour(scene: Scene, after: int, *, processes: int = 1) -> dict[str, int]:
    """Requests of an hour in which no line arrives, with a reconnect after each response."""
    followers = [scene.process() for _ in range(processes)]
    scene.spent.clear()
    end_s, answers = scene.world.clock.monotonic_s() + HOUR_S, 0
    while scene.world.clock.monotonic_s() < end_s:
        news = followers[answers % processes].follow(RUN, FollowRequest(after))
        assert not news.logs
        if news.end:
            break
        scene.world.clock.advance(0.25)
        answers += 1
    return scene.spent


@pytest.mark.parametrize("processes", [1, 10])
def test_an_idle_viewer_costs_900_gets_an_hour(processes: int) -> None:
    scene = Scene()
    scene.append("one\n")
    scene.index_all()
    scene.world.clock.advance(200)
    spent = quiet_hour(scene, 1, processes=processes)
    assert spent["s3"] == spent["get"] <= 900
    assert spent["catalog"] <= 145


def test_polling_interval_of_a_silent_run_grows() -> None:
    scene = Scene()
    scene.append("one\n")
    scene.ask()
    costs = []
    for _ in range(8):
        scene.spent.clear()
        scene.ask(1)
        costs.append(scene.spent["get"])
    assert costs == sorted(costs, reverse=True)
    assert costs[0] > 40 and costs[-1] <= HOLD_S / MAX_PAUSE_S + 1


@pytest.mark.parametrize("every_s", [0.5, 2.0, 5.0, 10.0, 30.0])
def test_line_of_active_run_arrives_within_a_second(every_s: float) -> None:
    scene = Scene()
    scene.append("first\n")
    after, waited = scene.ask().after, []
    for number in range(20):
        due_s = scene.world.clock.monotonic_s() + every_s
        scene.in_s(every_s, lambda number=number: scene.append(f"{number}\n"))
        while not (news := scene.ask(after)).logs:
            scene.world.clock.advance(0.25)
        after = news.after
        waited.append(scene.world.clock.monotonic_s() - due_s)
        scene.world.clock.advance(0.25)
    assert sorted(waited)[10] < 1.0 and max(waited) <= max(MIN_PAUSE_S, every_s / 20) + 0.5


def test_new_segment_costs_two_gets() -> None:
    scene = Scene()
    scene.append("one\n")
    scene.ask()
    for number in range(5):
        scene.append(f"{number}\n")
        scene.spent.clear()
        assert scene.ask(number + 1).logs == f"{number}\n"
        assert scene.spent == {"s3": 2, "get": 2}


def test_missing_run_costs_a_snapshot_and_25_gets_per_request() -> None:
    scene = Scene()
    scene.ask()
    assert scene.spent["s3"] <= 35 and scene.spent["list"] <= 3
    scene.spent.clear()
    scene.ask()
    assert scene.spent == {"s3": 26, "get": 26}, "the same process has looked a moment ago"
