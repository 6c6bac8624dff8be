"""The ordering buffer: by (event time, run, line), delayed, bounded."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chalicelib.lines.parsed import ParsedLine
from chalicelib.pipelines.ordering import (
    MIN_BUFFER_BYTES,
    OrderingBuffer,
    PendingEvent,
    automatic_bytes,
    memory_bytes_of,
)

DELAY_MS = 2000


def pending(time_ms: int, run: str = "a", line: int = 0, size: int = 10) -> PendingEvent:
    return PendingEvent(time_ms, run, line, line * 10, time_ms, memory_bytes_of(size), ParsedLine(None, None, None, ""))


def places(taken: list[PendingEvent]) -> list[tuple[int, str, int]]:
    return [(each.order_ms, each.partition, each.line) for each in taken]


def add(buffer: OrderingBuffer, *found: PendingEvent, final: bool = False) -> None:
    for each in found:
        buffer.add(each)
    for run in {each.partition for each in found}:
        buffer.settle(run, at_end=True, final=final)


def test_events_are_held_for_the_delay_and_come_out_sorted() -> None:
    buffer = OrderingBuffer(DELAY_MS, 1 << 20)
    add(buffer, pending(300, "b"), pending(100, "a", 1), pending(100, "a", 0), pending(100, "b", 5))
    assert buffer.take(2099) == []
    assert places(buffer.take(2100)) == [(100, "a", 0), (100, "a", 1), (100, "b", 5)]
    assert places(buffer.take(2300)) == [(300, "b", 0)]
    assert (buffer.bytes, buffer.count) == (0, 0)


def test_late_ones_go_out_at_once_and_are_counted() -> None:
    buffer = OrderingBuffer(DELAY_MS, 1 << 20)
    add(buffer, pending(5000))
    buffer.take(7000)
    add(buffer, pending(4999, line=1), pending(6000, line=2))
    assert places(buffer.take(7001)) == [(4999, "a", 1)]
    assert buffer.late == 1


def test_a_run_that_has_ended_waits_for_nothing() -> None:
    buffer = OrderingBuffer(DELAY_MS, 1 << 20)
    add(buffer, pending(10_000, "live"))
    add(buffer, pending(10_001, "ended"), final=True)
    assert places(buffer.take(10_001)) == [(10_001, "ended", 0)]


def test_last_events_of_a_run_do_not_overtake_its_delayed_ones() -> None:
    buffer = OrderingBuffer(DELAY_MS, 1 << 20)
    add(buffer, pending(10_000, "ended", 0), pending(10_001, "ended", 1), pending(10_000, "live"))
    add(buffer, pending(10_002, "ended", 2), final=True)
    assert places(buffer.take(10_002)) == [(10_000 + line, "ended", line) for line in range(3)]
    assert places(buffer.take(12_000)) == [(10_000, "live", 0)]
    assert (buffer.bytes, buffer.count) == (0, 0)


@pytest.mark.behavior("The memory of buffered events is bounded.")
def test_a_full_buffer_is_drained_to_half_whatever_the_delay() -> None:
    buffer = OrderingBuffer(DELAY_MS, 100_000)
    count = 0
    while not buffer.is_full:
        add(buffer, pending(1_000_000 - count, line=count))
        count += 1
    taken = buffer.drain(1_000_000)
    assert 2 * buffer.bytes <= 100_000 < 2 * (buffer.bytes + taken[-1].size)
    assert [each.order_ms for each in taken] == sorted(1_000_000 - number for number in range(count))[: len(taken)]


def test_a_piece_of_a_run_settles_when_nothing_read_later_can_overtake_it() -> None:
    buffer = OrderingBuffer(DELAY_MS, 1 << 20)
    for each in (pending(1000, line=0), pending(4000, line=1), pending(2500, line=2)):
        buffer.add(each)
    buffer.settle("a", at_end=False, final=True)
    assert places(buffer.take(0)) == [(1000, "a", 0)]
    buffer.add(pending(2100, line=3))
    buffer.settle("a", at_end=True, final=True)
    assert places(buffer.take(0)) == [(2100, "a", 3), (2500, "a", 2), (4000, "a", 1)]


def test_what_could_not_be_processed_is_due_at_once() -> None:
    buffer = OrderingBuffer(DELAY_MS, 1 << 20)
    add(buffer, pending(100), pending(200, line=1))
    taken = buffer.take(2200)
    buffer.put_back(taken)
    assert buffer.take(0) == taken


def test_all_events_of_a_forgotten_run_are_dropped() -> None:
    buffer = OrderingBuffer(DELAY_MS, 1 << 20)
    add(buffer, pending(100, "a"), pending(200, "b"))
    add(buffer, pending(150, "a", 1), final=True)
    buffer.add(pending(300, "a", 2))
    buffer.forget("a")
    assert places(buffer.take(9999)) == [(200, "b", 0)]
    assert (buffer.bytes, buffer.count) == (0, 0)


ARRIVALS = st.lists(
    st.tuples(st.integers(0, 20_000), st.integers(0, DELAY_MS - 1), st.sampled_from("abc")), min_size=1, max_size=80
)


@pytest.mark.behavior("Events that arrive out of order within the delay are processed in order.")
@given(ARRIVALS, st.randoms(use_true_random=False))
def test_shuffled_arrival_within_the_delay_comes_out_sorted(events: list[tuple[int, int, str]], random: object) -> None:
    """Each event arrives up to the delay after its time, in a run with several writers; the clock follows the arrivals."""
    arriving = sorted((time_ms + behind_ms, time_ms, run) for time_ms, behind_ms, run in events)
    lines = dict.fromkeys("abc", 0)
    buffer, out, expected = OrderingBuffer(DELAY_MS, 1 << 30), [], []
    for now_ms, time_ms, run in arriving:
        out += places(buffer.take(now_ms - 1))
        add(buffer, pending(time_ms, run, lines[run]))
        expected.append((time_ms, run, lines[run]))
        lines[run] += 1
    out += places(buffer.take(1 << 40))
    assert out == sorted(expected)
    assert buffer.late == 0


@given(ARRIVALS, st.integers(1, 7))
def test_a_run_that_is_read_in_pieces_comes_out_sorted(events: list[tuple[int, int, str]], piece: int) -> None:
    """The lines of an ended run are in the order of their arrival; it is read a few lines at a time."""
    ordered = sorted((time_ms + behind_ms, time_ms) for time_ms, behind_ms, _ in events)
    log = [pending(time_ms, "a", number) for number, (_, time_ms) in enumerate(ordered)]
    buffer, out = OrderingBuffer(DELAY_MS, 1 << 30), []
    for first in range(0, len(log), piece):
        for each in log[first : first + piece]:
            buffer.add(each)
        buffer.settle("a", at_end=first + piece >= len(log), final=True)
        out += places(buffer.take(0))
    assert out == sorted(places(log))


@given(st.lists(st.tuples(st.integers(0, 50_000), st.integers(0, 5000), st.booleans()), max_size=120), st.integers(3_000, 60_000))
def test_whatever_comes_everything_leaves_once_and_the_size_is_right(found: list[tuple[int, int, bool]], most: int) -> None:
    buffer, out = OrderingBuffer(DELAY_MS, most), []
    for line, (time_ms, size, final) in enumerate(found):
        add(buffer, pending(time_ms, "e" if final else "l", line, size), final=final)
        if buffer.is_full:
            out += buffer.drain(1 << 20)
            assert 2 * buffer.bytes <= most
        out += buffer.take(25_000)
    out += buffer.take(1 << 40, 1 << 20)
    assert sorted(each.line for each in out) == list(range(len(found)))
    assert (buffer.bytes, buffer.count) == (0, 0)


def test_the_automatic_size_is_70_percent_less_the_fetch_buffers_in_equal_parts() -> None:
    gib = 1 << 30
    assert automatic_bytes(gib, 1 << 20, 1) == int(0.7 * gib) - 3 * (1 << 20)
    assert automatic_bytes(gib, 1 << 20, 4) == (int(0.7 * gib) - 12 * (1 << 20)) // 4
    assert automatic_bytes(1 << 20, 1 << 20, 4) == MIN_BUFFER_BYTES
