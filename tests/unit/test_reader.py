"""Reads: every page of every state of a log, compared with a plain list of its lines."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import UTC, datetime

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from chalicelib.errors import RunClosedError, StoreUnavailableError
from chalicelib.ports import PutOptions, Run
from chalicelib.response_size import CONTENT_BYTES
from chalicelib.runlog.batch import Batch
from chalicelib.runlog.legacy import on_behalf_of
from chalicelib.runlog.log_end import list_all
from chalicelib.runlog.reader import MAX_WAIT_S, Page, PageRequest, Reader
from chalicelib.runlog.since_search import SinceSearch
from tests.faults.interception import Intercepted
from tests.sampling import examples
from tests.world import RUN, START_MS, World

MIB = 1024 * 1024
LEGACY = PutOptions({})


def append(world: World, text: str, run: Run = RUN) -> None:
    world.parts().writer.append(run, Batch.from_text(text))


def page(world: World, **request: int | float | None) -> Page:
    return world.parts().reader.page(RUN, PageRequest(**request))  # type: ignore[arg-type]


def index_all(world: World) -> None:
    compactor = world.parts().compactor
    compactor.index_pending(RUN, compactor.read_state(RUN))


def leave_open(world: World) -> None: ...


def compact(world: World) -> None:
    world.parts().compactor.compact(RUN, world.deadline())


def compact_and_forget(world: World) -> None:
    compact(world)
    world.clock.advance(21 * 60)
    compact(world)


def close(world: World) -> None:
    world.parts().finalizer.close(RUN)


def abandon(world: World) -> None:
    world.parts().finalizer.abandon(RUN, world.clock.now_ms() + 1, world.deadline())


STATES = [leave_open, index_all, compact, compact_and_forget, close, abandon]


@settings(max_examples=examples(60), deadline=None)
@given(
    batches=st.lists(st.lists(st.text("aé\r\x0b 語", max_size=6), min_size=1, max_size=4), min_size=1, max_size=12),
    cut=st.floats(0, 1),
    state=st.sampled_from(STATES),
    after=st.integers(0, 50),
    limit=st.integers(1, 9),
    indexed=st.booleans(),
)
def test_pages_equal_the_list(
    batches: list[list[str]], cut: float, state: Callable[[World], None], after: int, limit: int, indexed: bool
) -> None:
    world = World()
    middle = int(cut * len(batches))
    for batch in batches[:middle]:
        append(world, "\n".join(batch) + "\n")
    state(world)
    reopened = state is not close or not middle
    for batch in batches[middle:] if reopened else []:
        append(world, "\n".join(batch) + "\n") if world_is_open(world) else None
    if indexed:
        index_all(world)
    lines = [line for batch in (batches if reopened and world_is_open(world) else batches[:middle]) for line in batch]
    got = page(world, after=after, limit=limit)
    expected = lines[after : after + limit]
    assert got.logs == "\n".join(expected)
    assert got.after == (after + limit if after + limit < len(lines) else None)
    assert got.total == len(lines)


def world_is_open(world: World) -> bool:
    return world.parts().writer.tails.find(RUN).seal != "closed"


def test_five_lines_by_two() -> None:
    """Acceptance behaviour 1."""
    world = World()
    append(world, "1\n2\n3\n4\n5\n")
    assert [(got.logs, got.after) for got in (page(world, after=n, limit=2) for n in (0, 2, 4))] == [
        ("1\n2", 2),
        ("3\n4", 4),
        ("5", None),
    ]


def test_an_unknown_run_is_an_empty_page() -> None:
    assert page(World()) == Page("", None, 0, streaming=False)


def test_a_cursor_past_the_end_is_an_empty_page() -> None:
    world = World()
    append(world, "1\n2\n")
    for state in (leave_open, compact, close):
        state(world)
        got = page(world, after=7)
        assert (got.logs, got.after, got.total) == ("", None, 2)


def test_streaming_until_there_is_a_seal() -> None:
    world = World()
    append(world, "1\n")
    assert page(world).streaming
    compact(world)
    assert page(world).streaming
    writer = world.parts().writer
    writer.seal(RUN, "closed", writer.tails.find(RUN))
    assert not page(world).streaming, "sealed is ended, also before logs.txt is there"
    close(world)
    assert not page(world).streaming


def test_the_last_lines() -> None:
    world = World()
    append(world, "".join(f"{n}\n" for n in range(50)))
    compact(world)
    append(world, "".join(f"{n}\n" for n in range(50, 100)))
    for state in (leave_open, index_all, close):
        state(world)
        assert page(world, tail=3).logs == "97\n98\n99"
        assert page(world, tail=500).logs.split("\n") == [str(n) for n in range(100)]


@pytest.mark.behavior("A log can be read from a time.")
def test_lines_since_a_time() -> None:
    world = World()
    times = []
    for number in range(30):
        times.append(world.clock.now_ms())
        append(world, f"{number} a\n{number} b\n")
        world.clock.advance(10)
    index_all(world)
    for number in (0, 1, 13, 29):
        assert page(world, since_ms=times[number]).logs.split("\n")[0] == f"{number} a"
        assert page(world, since_ms=times[number] + 1).logs.split("\n")[0] == (f"{number + 1} a" if number < 29 else "")
    assert page(world, since_ms=0).logs.startswith("0 a")
    assert page(world, since_ms=0).clock == "arrival"


@pytest.mark.parametrize("outlier", ["2019-01-01 00:00:00 partition done", "2026-09-22 13:00:00 is when the next run is due"])
@pytest.mark.parametrize("at", [0, 1, 5, 9])
@pytest.mark.parametrize("is_alone", [True, False])
def test_line_that_begins_with_another_date_hides_no_line(outlier: str, at: int, is_alone: bool) -> None:
    world = World()
    for number in range(10):
        stamp = datetime.fromtimestamp(world.clock.now_ms() / 1000, UTC).isoformat(" ", "seconds")
        lines = [f"{stamp} INFO {number}", *([outlier] if number == at else [])]
        append(world, "".join(f"{line}\n" for line in (lines[1:] if is_alone and number == at else lines)))
        world.clock.advance(60)
    index_all(world)
    for clock in (None, "lines", "arrival"):
        for number in {*range(10)} - {at, at + 1}:
            found = page(world, since_ms=START_MS + number * 60_000, clock=clock)
            assert found.logs.split("\n")[0].endswith(f"INFO {number}"), (clock, number)


@pytest.mark.parametrize("off_s", [0, -3600, 3600, -90 * 86_400])
def test_lines_since_a_time_of_their_own(off_s: int) -> None:
    """Only by the times in the lines, also with a wrong clock, and for lines stored long after they were written."""
    world = World()
    moments = []
    for number in range(12):
        first_ms = START_MS + (off_s + 10 * number) * 1000
        stamps = [datetime.fromtimestamp(first_ms / 1000 + second, UTC).isoformat(" ", "seconds") for second in range(5)]
        append(world, "".join(f"{stamp} INFO {number}.{second}\n" for second, stamp in enumerate(stamps)))
        append(world, "no time of its own\n" * (number % 3))
        moments.append(first_ms)
        world.clock.advance(10)
    for state in (index_all, close):
        state(world)
        if state is close:
            index_all(world)
        for number in (0, 1, 6, 11):
            for second in (0, 3):
                found = page(world, since_ms=moments[number] + second * 1000, clock="lines")
                assert (found.clock, found.logs.split("\n")[0].rpartition(" ")[2]) == ("lines", f"{number}.{second}")
        assert page(world, since_ms=moments[-1] + 5000, clock="lines").logs == ""
        assert page(world, since_ms=moments[3] + 4001, clock="lines").logs.split("\n")[0].endswith("INFO 4.0")
        assert page(world, since_ms=moments[3], clock="lines").total == 72
        unread = SinceSearch(world.index, lambda *_: pytest.fail("the time is before the segment: its lines are not needed"))
        assert unread.line(RUN, moments[6] - 3000, "lines") == (36, "lines")
        for number in (0, 1, 6, 11):
            arrived_ms = START_MS + 10_000 * number
            assert page(world, since_ms=arrived_ms, clock="arrival").logs.split("\n")[0].endswith(f"INFO {number}.0")
            assert len(page(world, since_ms=arrived_ms).logs) >= len(page(world, since_ms=arrived_ms, clock="arrival").logs)
        latest_ms = max(START_MS + 110_000, moments[-1] + 4000)
        assert page(world, since_ms=latest_ms + 1).logs == "" != page(world, since_ms=latest_ms).logs
    assert page(world).clock is None and page(world, tail=1).clock is None


def test_waiting_ends_when_a_line_comes() -> None:
    world = World()
    append(world, "first\n")
    sleep = world.clock.sleep
    naps: list[float] = []

    def nap(seconds: float) -> None:
        naps.append(seconds)
        sleep(seconds)
        if len(naps) == 3:
            append(world, "second\n")

    world.clock.sleep = nap  # type: ignore[method-assign]
    assert page(world, after=1, wait_s=20).logs == "second"
    assert len(naps) == 3


def test_waiting_ends_at_twenty_seconds_and_costs_a_head_each_half_second() -> None:
    world = World()
    append(world, "first\n")
    start, before = world.clock.monotonic_s(), world.store.calls["head"]
    assert page(world, after=1, wait_s=3600).logs == ""
    assert world.clock.monotonic_s() - start == MAX_WAIT_S
    assert world.store.calls["head"] - before <= 42


def test_nobody_waits_for_a_run_that_has_ended() -> None:
    world = World()
    append(world, "first\n")
    close(world)
    start = world.clock.monotonic_s()
    assert page(world, after=1, wait_s=20).logs == ""
    assert world.clock.monotonic_s() == start


@pytest.mark.slow
def test_a_page_fits_an_answer_whatever_its_lines_are() -> None:
    world = World()
    lines = ["\x01" * 700_000, "語" * 900_000, "x" * (9 * MIB), "", "short"]
    append(world, "\n".join(lines) + "\n")
    for state in (leave_open, compact, close):
        state(world)
        got: list[str] = []
        cut: list[bool] = []
        after: int | None = 0
        while after is not None:
            one = page(world, after=after)
            assert len(one.logs) * 1 <= CONTENT_BYTES
            got += one.logs.split("\n")
            cut.append(one.truncated)
            after = one.after
        assert len(got) == len(lines) and got[3:] == ["", "short"]
        assert all(whole.startswith(shown) for whole, shown in zip(lines, got, strict=True))
        assert any(cut)


@pytest.mark.behavior("Pages of a log are complete while the catalog is lost or unavailable.")
def test_a_catalog_that_is_lost_or_down_makes_no_difference_but_requests() -> None:
    world = World()
    for number in range(40):
        append(world, f"{number}\n")
    close(world)
    expected = [str(number) for number in range(40)]
    lost = World()
    lost.store = world.store
    assert lost.read_all(limit=7) == expected

    def down(operation: str, call: object) -> object:
        raise StoreUnavailableError(operation)

    parts = world.parts(index=Intercepted(world.index, down))  # type: ignore[arg-type]
    assert parts.reader.page(RUN, PageRequest(after=35)).logs == "\n".join(expected[35:])


def test_bytes_that_are_no_utf8_are_shown_as_replacements_and_kept_in_the_download() -> None:
    world = World()
    world.parts().writer.append(RUN, Batch.from_bytes(b"\xff caf\xe9\n"))
    assert page(world).logs == "\ufffd caf\ufffd"
    whole = world.parts().reader.download(RUN)
    assert whole and whole.body == b"\xff caf\xe9\n"


@pytest.mark.parametrize("state", STATES)
def test_a_download_is_the_log(state: Callable[[World], None]) -> None:
    world = World()
    append(world, "a\nb\n")
    append(world, "c\n")
    state(world)
    whole = world.parts().reader.download(RUN)
    assert whole and (whole.body, whole.size_bytes) == (b"a\nb\nc\n", 6)


@pytest.mark.parametrize("state", STATES)
def test_a_large_download_is_one_object(state: Callable[[World], None]) -> None:
    world = World()
    append(world, ("x" * 1023 + "\n") * 5000)
    state(world)
    whole = world.parts().reader.download(RUN)
    assert whole and whole.body is None and whole.key
    assert world.store.get(whole.key).body == b"x" * 0 + (b"x" * 1023 + b"\n") * 5000


def test_there_is_nothing_to_download_of_an_unknown_run() -> None:
    assert World().parts().reader.download(RUN) is None


@pytest.fixture
def trusted() -> Iterator[None]:
    """A caller that may read all pipelines."""
    with on_behalf_of(lambda _: True):
        yield


@pytest.mark.usefixtures("trusted")
@pytest.mark.parametrize("body", [b"old 1\nold 2\n", b"old 1\nold 2"])
def test_openmetadatas_partial_is_read_appended_to_and_closed(body: bytes) -> None:
    """Acceptance behaviour 9: under OpenMetadata's key, with its metadata or without."""
    world = World()
    world.store.put(world.layout.legacy_partial(RUN), body, LEGACY)
    assert world.layout.legacy_partial(RUN) != world.layout.partial(RUN)
    assert world.read_all() == ["old 1", "old 2"]
    append(world, "new\n")
    assert world.read_all() == ["old 1", "old 2", "new"]
    compact(world)
    assert world.body("partial.txt") == b"old 1\nold 2\nnew\n"
    append(world, "newer\n")
    close(world)
    assert world.body("logs.txt") == b"old 1\nold 2\nnew\nnewer\n"
    assert world.read_all() == ["old 1", "old 2", "new", "newer"]


def test_openmetadatas_partial_under_our_own_name_is_merged() -> None:
    world = World()
    run = Run("plain_name", "run-1")
    world.store.put(
        world.layout.partial(run), b"old\n", PutOptions({"last-flushed-line": "1", "total-bytes": "4", "writer-epoch": "1"})
    )
    append(world, "new\n", run)
    assert world.read_all(run) == ["old", "new"]
    world.parts().compactor.compact(run, world.deadline())
    assert world.body("partial.txt", run) == b"old\nnew\n"
    world.parts().finalizer.close(run)
    assert world.body("logs.txt", run) == b"old\nnew\n"
    assert "partial.txt" not in world.names(run)


@pytest.mark.usefixtures("trusted")
def test_openmetadatas_finished_log_is_read_and_takes_no_more() -> None:
    world = World()
    world.store.put(world.layout.legacy_logs(RUN), b"old 1\nold 2\n", LEGACY)
    got = page(world)
    assert (got.logs, got.total, got.streaming) == ("old 1\nold 2", 2, False)
    whole = world.parts().reader.download(RUN)
    assert whole and whole.body == b"old 1\nold 2\n"


def test_openmetadatas_finished_log_under_the_runs_own_name_is_closed() -> None:
    """As copied by an operator, so that it belongs to exactly one pipeline."""
    world = World()
    world.store.put(world.layout.logs(RUN), b"old 1\nold 2", LEGACY)
    got = page(world)
    assert (got.logs, got.total, got.streaming) == ("old 1\nold 2", 2, False)
    with pytest.raises(RunClosedError):
        append(world, "new\n")


def test_openmetadatas_partial_is_not_read_without_a_caller() -> None:
    world = World()
    world.store.put(world.layout.legacy_partial(RUN), b"old 1\n", LEGACY)
    assert page(world).total == 0
    append(world, "new\n")
    compact(world)
    assert world.read_all() == ["new"]


@pytest.mark.usefixtures("trusted")
def test_new_log_next_to_openmetadatas_object_does_not_continue_it() -> None:
    """Started by a caller that may not read the object, read by one that may."""
    world = World()
    world.store.put(world.layout.legacy_partial(RUN), b"old 1\n", LEGACY)
    with on_behalf_of(lambda _: False):
        append(world, "new\n")
    assert world.read_all() == ["new"]
    append(world, "newer\n")
    compact(world)
    assert world.read_all() == ["new", "newer"]
    assert world.body("partial.txt") == b"new\nnewer\n"


def test_log_that_continues_openmetadatas_object_is_read_as_one() -> None:
    world = World()
    world.store.put(world.layout.legacy_partial(RUN), b"old 1\n", LEGACY)
    with on_behalf_of(lambda _: True):
        append(world, "new\n")
    assert world.read_all() == ["old 1", "new"]
    compact(world)
    assert world.body("partial.txt") == b"old 1\nnew\n"


def test_a_log_of_another_pipeline_that_shares_openmetadatas_name_is_not_shown() -> None:
    world = World()
    twin = Run("svc_pipeline", RUN.run_id)
    append(world, "of the twin\n", twin)
    world.parts().finalizer.close(twin)
    assert world.layout.legacy_logs(RUN) == world.layout.logs(twin)
    assert page(world).total == 0
    append(world, "mine\n")
    assert world.read_all() == ["mine"]


def recreated(world: World, old: list[str], new: list[str], state: Callable[[World], None], *, stale_rows: bool) -> Reader:
    """A reader that served pages of a log that was then deleted; its run id is reused. ``stale_rows``: rows of the old log stay."""
    for body in old:
        append(world, body)
    state(world)
    index_all(world)
    reader = world.parts().reader
    for after in range(40):
        reader.page(RUN, PageRequest(after=after, limit=1))
    for found in list_all(world.store, world.layout.run_prefix(RUN)):
        world.store.delete(found.key)
    if not stale_rows:
        world.index.clear()
    for body in new:
        append(world, body)
    state(world)
    return reader


@pytest.mark.parametrize("stale_rows", [False, True])
@pytest.mark.parametrize("state", [leave_open, compact, close])
def test_recreated_run_is_read_at_its_own_places(state: Callable[[World], None], stale_rows: bool) -> None:
    world = World()
    new = [f"a much longer new line {number}" for number in range(50)]
    bodies = ["".join(f"{line}\n" for line in new[first : first + 25]) for first in (0, 25)]
    old = ["".join(f"old {number}\n" for number in range(first, first + 25)) for first in (0, 25)]
    reader = recreated(world, old, bodies, state, stale_rows=stale_rows)
    for after in range(50):
        assert reader.page(RUN, PageRequest(after=after, limit=2)).logs == "\n".join(new[after : after + 2])


@pytest.mark.parametrize("state", [leave_open, compact])
def test_recreated_run_with_lines_at_old_places_is_read_by_its_own_numbers(state: Callable[[World], None]) -> None:
    """The cached byte is a line start in the new log, too, but of another line."""
    world = World()
    old = ["".join(f"old {number:03d}\n" for number in range(first, first + 25)) for first in (0, 25)]
    new = [f"{number:03d}" for number in range(100)]
    bodies = ["".join(f"{line}\n" for line in new[first : first + 50]) for first in (0, 50)]
    reader = recreated(world, old, bodies, state, stale_rows=False)
    for after in range(60):
        assert reader.page(RUN, PageRequest(after=after, limit=2)).logs == "\n".join(new[after : after + 2])


def test_recreated_run_with_segments_of_equal_sizes_is_read_by_its_own_numbers() -> None:
    """A page ended at the end of a segment; in the new log another segment ends at the same byte, after other lines."""
    world = World()
    reader = recreated(world, ["aa\nbb\n", "cc\ndd\n"], ["eeeee\n", "fffff\n", "ggggg\n"], leave_open, stale_rows=False)
    assert reader.page(RUN, PageRequest(after=2, limit=1)).logs == "ggggg"


def test_scan_of_recreated_run_starts_at_its_own_line() -> None:
    world = World()
    new = [f"a much longer new line {number}" for number in range(50)]
    old = "".join(f"old {number}\n" for number in range(50))
    reader = recreated(world, [old], ["".join(f"{line}\n" for line in new)], compact, stale_rows=False)
    scan = reader.scan(RUN, 10)
    assert b"".join(scan.chunks).decode().split("\n")[scan.skip] == new[10]


@pytest.mark.parametrize("state", [leave_open, compact, close])
def test_next_page_needs_no_query(state: Callable[[World], None]) -> None:
    world = World()
    for first in range(0, 60, 10):
        append(world, "".join(f"line {number}\n" for number in range(first, first + 10)))
    state(world)
    asked: list[str] = []

    def watched(operation: str, call: Callable[[], object]) -> object:
        asked.append(operation)
        return call()

    reader = world.parts(index=Intercepted(world.index, watched)).reader  # type: ignore[arg-type]
    for after in range(0, 60, 6):
        lines = [f"line {number}" for number in range(after, after + 6)]
        assert reader.page(RUN, PageRequest(after=after, limit=6)).logs == "\n".join(lines)
    assert asked == []
