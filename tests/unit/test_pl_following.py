"""Following a running run: the events of its new segments are those of snapshots, whatever happens to the log meanwhile, and a visit
costs few requests."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from chalicelib.errors import PreconditionFailedError, RunClosedError, StoreUnavailableError
from chalicelib.events.sidecar import decode_sidecar, encode_sidecar
from chalicelib.lines.formats import PLAIN
from chalicelib.pipelines import run_event_reader
from chalicelib.pipelines.ordering import PendingEvent
from chalicelib.pipelines.rows import EventPosition
from chalicelib.pipelines.run_event_reader import MAX_FOLLOWED_MS, MAX_PENDING_BYTES, FetchedEvents, RunEventReader
from chalicelib.ports import PutOptions
from chalicelib.runlog.batch import Batch
from chalicelib.runlog.log_end import list_all
from chalicelib.runlog.new_segments import MAX_LISTED_SEGMENTS, NewSegmentReader
from tests.events_harness import event_parts, make_event
from tests.pipelines_harness import LiveRun, PipelinesHarness, line
from tests.world import RUN

Event = tuple[int, int, int, str, str]
SNAPSHOT = "get logs.txt"
"""The first request of a snapshot."""


class Log(PipelinesHarness):
    """A run's log, and readers of it whose requests are recorded: ``requests`` of the last visit. ``before_request``: called before each."""

    def __init__(self) -> None:
        super().__init__()
        self.event_parts = event_parts(self)
        self.written = self.size = 0
        self.requests: list[str] = []
        self.missing: dict[str, bytes] = {}
        self.before_request: Callable[[], None] = lambda: None
        self.port = self.recorded(RUN, self._note)

    def reader(self, *, follows: bool = True, fetch_bytes: int = 10_000) -> RunEventReader:
        port = self.port if follows else lambda inner: inner
        parts = self.parts(port(self.store), port(self.index))
        return RunEventReader(
            parts.reader,
            RUN,
            EventPosition(),
            "",
            fetch_bytes=fetch_bytes,
            patience_ms=2000,
            clock=self.clock,
            sidecars=self.sidecars(event_parts(self, port), port),
            segments=NewSegmentReader(parts.writer.tails) if follows else None,
        )

    def _note(self, request: str) -> None:
        self.before_request()
        self.requests.append(request)

    def visit(self, reader: RunEventReader, live_bytes: int | None = 0) -> tuple[list[Event], FetchedEvents]:
        """Read to the end: the events, and the last piece."""
        self.requests.clear()
        events: list[Event] = []
        for _ in range(200):
            fetched = reader.fetch(live_bytes=live_bytes)
            events += map(_event, fetched.events)
            if fetched.at_end:
                return events, fetched
        raise AssertionError("no end")

    # What happens to the log

    def lines(self, batches: int = 1, records: int = 2, *, continues: bool = False) -> None:
        """Batches of records. ``continues``: the first one begins with lines of the record before."""
        for _ in range(batches):
            before = ["  of the line before", "Traceback (most recent call last):"] if continues and self.written else []
            text = [*before, *(line(self.clock.now_ms(), f"line {self._next()}") for _ in range(records))]
            batch = Batch.from_text("".join(f"{each}\n" for each in text))
            self._append(lambda batch=batch: self.parts().writer.append(RUN, batch))

    def events(self, batches: int = 1) -> None:
        """Batches of two structured events."""
        for _ in range(batches):
            now_ms = self.clock.now_ms()
            batch = [make_event(f"event {self._next()}\n  more", "step", timestamp=now_ms) for _ in range(2)]
            self._append(lambda batch=batch: self.event_parts.log.append(RUN, batch))

    def events_without_sidecar(self) -> None:
        """The process ends between the two writes."""
        put = self.store.put

        def refused(key: str, body: bytes, *given: Any) -> str:
            if "/events/" in key:
                self.missing[key] = body
                raise PreconditionFailedError("the process ended")
            return put(key, body, *given)

        self.store.put = refused  # type: ignore[method-assign]
        try:
            self.events()
        finally:
            self.store.put = put  # type: ignore[method-assign]

    def sidecars_of_retries(self) -> None:
        while self.missing:
            self.store.put(*self.missing.popitem(), PutOptions())

    def compact(self) -> None:
        """Also retires old segments, and finalizes a sealed run. In a snapshot of a compacted log the last line is as young as the
        compaction: a pause follows, after which that does not matter."""
        self.event_parts.finalizer.compact_and_finalize(RUN, self.deadline())
        self.clock.advance(3)

    def retire(self) -> None:
        self.compact()
        self.clock.advance(21 * 60)
        self.compact()

    def close(self) -> None:
        """The lines of an ended run are not held back for sidecars that are missing."""
        self.sidecars_of_retries()
        self.parts().finalizer.close(RUN)

    def reopen(self) -> None:
        """The sweep abandons the run, and the next append reopens it."""
        self.sidecars_of_retries()
        self.parts().finalizer.abandon(RUN, self.clock.now_ms() + 1, self.deadline())
        self.lines()

    def delete(self) -> None:
        for found in list(list_all(self.store, self.layout.run_prefix(RUN))):
            self.store.delete(found.key)

    def _next(self) -> int:
        self.written += 1
        return self.written

    def _append(self, append: Callable[[], object]) -> None:
        with suppress(RunClosedError):
            append()
            self.size = self.parts().writer.tails.find(RUN).byte


def _event(pending: PendingEvent) -> Event:
    step = pending.context.step if pending.context else ""
    return pending.line, pending.byte, pending.time_ms, pending.parsed.message, step


MEANWHILE: dict[str, Callable[[Log], None]] = {
    "lines": Log.lines,
    "many segments": partial(Log.lines, batches=9),
    "events": Log.events,
    "many events": partial(Log.events, batches=5),
    "events without a sidecar": Log.events_without_sidecar,
    "sidecars": Log.sidecars_of_retries,
    "compaction": Log.compact,
    "close": Log.close,
}
BETWEEN: dict[str, Callable[[Log], None]] = MEANWHILE | {
    "lines that continue": partial(Log.lines, continues=True),
    "retirement": Log.retire,
    "reopening": Log.reopen,
    "a second": lambda log: log.clock.advance(1),
    "a pause": lambda log: log.clock.advance(3),
    "a minute": lambda log: log.clock.advance(61),
    "an hour": lambda log: log.clock.advance(3600),
}
VISITS = st.tuples(
    st.lists(st.sampled_from(list(BETWEEN)), max_size=4),
    st.booleans(),
    st.none() | st.tuples(st.integers(0, 6), st.sampled_from(list(MEANWHILE))),
)


@pytest.mark.behavior("Following a run gives the events that snapshots of its log give.")
@settings(suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(VISITS, min_size=1, max_size=8), st.sampled_from([150, 10_000]))
def test_followed_run_has_the_events_of_snapshots(
    visits: Sequence[tuple[list[str], bool, tuple[int, str] | None]], fetch_bytes: int
) -> None:
    """Changes before a visit, whether the catalog is up to date, and a change before the nth request of an earlier visit, whose events are
    then in either of the two. Each visit is compared with one that reads a snapshot at the same moment."""
    log = Log()
    log.lines()
    followed, reference = log.reader(fetch_bytes=fetch_bytes), log.reader(follows=False)
    seen: list[Event] = []
    expected: list[Event] = []
    for changes, is_known, meanwhile in visits:
        for name in changes:
            BETWEEN[name](log)
        live_bytes = log.size if is_known else 0
        if meanwhile:
            number, change = meanwhile
            _before_request(log, number, partial(MEANWHILE[change], log))
            seen += log.visit(followed, live_bytes)[0]
            log.before_request = lambda: None
            log.clock.advance(3)
        events, last = log.visit(followed, live_bytes)
        seen += events
        events, snapshot = log.visit(reference, None)
        expected += events
        assert seen == expected
        assert followed.position == reference.position
        assert (last.final, last.bytes, last.lines) == (snapshot.final, snapshot.bytes, snapshot.lines)


def _before_request(log: Log, number: int, act: Callable[[], None]) -> None:
    """Act before a request, once."""
    numbers = iter(range(1_000_000))

    def before() -> None:
        if next(numbers) == number:
            act()

    log.before_request = before


def followed_log(fetch_bytes: int = 10_000) -> tuple[Log, RunEventReader]:
    """A log of one segment, and a reader that follows it."""
    log = Log()
    log.lines()
    log.clock.advance(3)
    reader = log.reader(fetch_bytes=fetch_bytes)
    log.visit(reader)
    return log, reader


@pytest.mark.parametrize("catalog", ["knows", "lags"])
@pytest.mark.parametrize(
    ("change", "is_followed"),
    [
        (lambda log: log.clock.advance(MAX_FOLLOWED_MS / 1000 - 1), True),
        (lambda log: log.clock.advance(MAX_FOLLOWED_MS / 1000), False),
        (Log.lines, True),
        (lambda log: (log.lines(), log.compact()), True),
        (Log.events, True),
        (Log.events_without_sidecar, False),
        (lambda log: (log.lines(), log.clock.advance(21 * 60), log.lines(), log.compact()), False),
        (Log.close, False),
        (Log.reopen, False),
    ],
)
def test_run_is_followed_unless_its_log_may_be_another(change: Callable[[Log], Any], is_followed: bool, catalog: str) -> None:
    log, reader = followed_log()
    change(log)
    log.visit(reader, log.size if catalog == "knows" else 0)
    assert (SNAPSHOT not in log.requests) == is_followed


@pytest.mark.parametrize(("fetch_bytes", "snapshots"), [(10_000, [False, False, False]), (150, [False, False, True])])
def test_time_of_a_known_end_is_that_of_the_last_look_behind_it(fetch_bytes: int, snapshots: list[bool]) -> None:
    """Each visit reads to the log's end, or the last of few segments and not what follows."""
    log, reader = followed_log(fetch_bytes)
    log.lines(9)
    for expected in snapshots:
        log.clock.advance(0.4 * MAX_FOLLOWED_MS / 1000)
        log.requests.clear()
        while not reader.fetch(live_bytes=log.size).at_end and fetch_bytes > 150:
            pass
        assert (SNAPSHOT in log.requests) == expected


def test_ended_run_is_read_from_a_snapshot() -> None:
    log, reader = followed_log()
    log.visit(reader, live_bytes=None)
    assert SNAPSHOT in log.requests


def test_run_is_followed_by_a_worker_that_begins_at_its_end() -> None:
    log, reader = followed_log()
    later = log.reader()
    later.position = reader.position
    for snapshots in (1, 0):
        assert log.visit(later)[0] == [] and log.requests.count(SNAPSHOT) == snapshots


def _other_log(log: Log) -> None:
    log.delete()
    log.events()
    log.lines()


def _other_log_of_as_many_lines(log: Log) -> None:
    log.delete()
    log.parts().writer.append(RUN, Batch.from_text("other\nlines\n"))
    log.lines()


@pytest.mark.parametrize(
    "change",
    [
        lambda log: (log.lines(3), log.retire()),
        lambda log: (log.lines(), log.delete()),
        Log.close,
        _other_log,
        _other_log_of_as_many_lines,
        lambda log: log.store.put(log.layout.segment(RUN, 1), b"x\n", PutOptions()),
        lambda log: log.lines(batches=1, records=100),
    ],
    ids=["retired", "deleted", "a seal", "another log", "another log of as many lines", "without metadata", "larger than a piece"],
)
def test_next_segment_that_does_not_continue_the_log_takes_a_snapshot(change: Callable[[Log], object]) -> None:
    log, _ = followed_log()
    end = log.parts().writer.tails.find(RUN)
    change(log)
    assert NewSegmentReader(log.parts().writer.tails).read_after(RUN, end, 4096, known_bytes=end.byte + 1) is None


@pytest.mark.parametrize("change", [Log.close, lambda log: log.lines(records=100)], ids=["a seal", "larger than a piece"])
@pytest.mark.parametrize("before", [1, 2, 5])
def test_segments_before_one_that_does_not_continue_the_log_are_read(change: Callable[[Log], object], before: int) -> None:
    log, _ = followed_log()
    end = log.parts().writer.tails.find(RUN)
    log.lines(before)
    change(log)
    read = NewSegmentReader(log.parts().writer.tails).read_after(RUN, end, 4096, known_bytes=log.size + 1)
    assert read and (len(read.segments), read.is_log_end, read.end.sequence) == (before, False, before + 1)


@pytest.mark.parametrize(("fitting", "excess", "segments", "requests"), [(1, 0, 1, 1), (2, -1, 1, 2), (2, 0, 2, 2), (2, 1, 2, 3)])
def test_segments_are_read_up_to_a_size(fitting: int, excess: int, segments: int, requests: int) -> None:
    """Without a request for nothing."""
    log, _ = followed_log()
    end, sizes = log.parts().writer.tails.find(RUN), list[int]()
    for _ in range(4):
        before = log.size
        log.lines()
        sizes.append(log.size - before)
    log.requests.clear()
    read = NewSegmentReader(log.parts(log.port(log.store)).writer.tails).read_after(
        RUN, end, sum(sizes[:fitting]) + excess, log.size
    )
    assert read and (len(read.segments), read.is_log_end, len(log.requests)) == (segments, False, requests)


@pytest.mark.parametrize("before", [2, 5])
def test_log_of_which_the_catalog_knows_more_than_was_listed_has_not_ended_there(before: int) -> None:
    """Otherwise the worker would let go of the run, as of one whose log is shorter than before."""
    log, _ = followed_log()
    end = log.parts().writer.tails.find(RUN)
    log.lines(before + 1)
    log.store.delete(log.layout.segment(RUN, before + 1))
    read = NewSegmentReader(log.parts().writer.tails).read_after(RUN, end, 10_000, log.size)
    assert read and (len(read.segments), read.is_log_end) == (before, False)


def test_segment_that_is_retired_after_it_was_listed_ends_a_piece() -> None:
    log, _ = followed_log()
    end = log.parts().writer.tails.find(RUN)
    log.lines(6)
    log.requests.clear()
    log.before_request = lambda: log.store.delete(log.layout.segment(RUN, 5)) if len(log.requests) == 3 else None
    read = NewSegmentReader(log.parts(log.port(log.store)).writer.tails).read_after(RUN, end, 10_000, log.size)
    assert read and (len(read.segments), read.is_log_end) == (4, False)


def test_events_after_a_piece_that_their_data_ended_are_structured(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run_event_reader, "MAX_DATA_BYTES", 0)
    log, reader = followed_log()
    log.events()
    assert [step for *_, step in log.visit(reader)[0]] == ["step", "step"]


@pytest.mark.parametrize(("excess", "is_followed"), [(0, True), (1, False)])
def test_held_event_is_kept_in_memory_up_to_a_limit(excess: int, is_followed: bool) -> None:
    log, reader = followed_log()
    text = line(log.clock.now_ms(), "long ").encode()
    log.parts().writer.append(RUN, Batch.from_text((text + b"x" * (MAX_PENDING_BYTES + excess - len(text) - 1)).decode() + "\n"))
    assert log.visit(reader)[0] == []
    log.clock.advance(3)
    assert len(log.visit(reader)[0]) == 1
    assert (log.requests == ["get segments/0000000002"]) == is_followed


def test_failed_request_of_a_followed_run_is_repeated_without_a_snapshot() -> None:
    log, reader = followed_log()
    log.events()
    for number in range(3):
        _before_request(log, number, _fail)
        with pytest.raises(StoreUnavailableError):
            log.visit(reader)
    log.before_request = lambda: None
    events, _ = log.visit(reader)
    assert [step for *_, step in events] == ["step", "step"] and SNAPSHOT not in log.requests


def _fail() -> None:
    raise StoreUnavailableError("throttled")


NEXT, AFTER, SIDECAR, LIST = "get segments/", "get segments/", "get events/", "list segments/"


@pytest.mark.behavior("A visit to a running run takes at most four requests.")
@pytest.mark.parametrize("batches_before", [3, 120])
@pytest.mark.parametrize("is_compacted", [False, True])
@pytest.mark.parametrize(
    ("has_events", "batches", "requests"),
    [
        (False, 0, []),
        (False, 1, [NEXT, AFTER]),
        (False, 2, [NEXT, AFTER]),
        (True, 1, [NEXT, AFTER, SIDECAR]),
        (True, 2, [NEXT, AFTER, SIDECAR, SIDECAR]),
        (False, 9, [NEXT, AFTER, LIST, *[NEXT] * 7]),
        (True, 9, [NEXT, AFTER, LIST, *[NEXT] * 7, *[SIDECAR] * 9]),
    ],
)
def test_visit_costs_a_request_for_each_segment_and_sidecar(
    has_events: bool, batches: int, requests: list[str], is_compacted: bool, batches_before: int
) -> None:
    live = LiveRun(has_events=has_events, is_compacted=is_compacted, batches=batches_before)
    for _ in range(3):
        assert [request.rstrip("0123456789") for request in live.visit(batches)] == requests
        assert len(live.visit()) <= 1
        assert live.visit() == []


def test_event_that_may_continue_costs_one_request_after_a_pause() -> None:
    log, reader = followed_log()
    log.lines()
    log.visit(reader)
    log.clock.advance(3)
    assert [message for *_, message, _ in log.visit(reader)[0]] == ["line 4"]
    assert log.requests == ["get segments/0000000002"]


def test_more_segments_than_are_listed_are_read_in_further_pieces() -> None:
    log, reader = followed_log(fetch_bytes=1_000_000)
    log.lines(MAX_LISTED_SEGMENTS + 5)
    events, last = log.visit(reader, log.size)
    assert last.bytes == log.size and len(events) == 2 * (MAX_LISTED_SEGMENTS + 5) - 1
    assert SNAPSHOT not in log.requests and [request for request in log.requests if request.startswith(LIST)] == [LIST] * 2


def test_snapshot_after_following_does_not_read_all_sidecars_again() -> None:
    log, reader = followed_log()
    for _ in range(20):
        log.events()
        log.visit(reader)
    log.clock.advance(3600)
    log.events()
    assert [step for *_, step in log.visit(reader)[0]] == ["step", "step"]
    assert SNAPSHOT in log.requests and sum(request.startswith("get events/") for request in log.requests) <= 2


def test_events_of_a_damaged_sidecar_are_never_taken_for_plain_lines() -> None:
    """It says that an event has more lines than its segment: it is held back until the run has ended, whether or not it is followed."""
    log = Log()
    log.lines()
    log.events_without_sidecar()
    ((key, body),) = log.missing.items()
    sidecar = decode_sidecar(body)
    last = replace(list(sidecar.events)[-1], lines=3)
    log.store.put(key, encode_sidecar(replace(sidecar, events=[last])), PutOptions())
    readers = [log.reader(), log.reader(follows=False)]
    for _ in range(4):
        events, snapshots = (log.visit(reader)[0] for reader in readers)
        assert [message for *_, message, _ in events] == [message for *_, message, _ in snapshots]
        assert readers[0].position == readers[1].position and readers[0].position.line == 4
        log.clock.advance(3)


def test_format_is_that_of_the_first_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also for a reader that counts lines as they come."""
    monkeypatch.setattr(run_event_reader, "_SAMPLE_BYTES", 64)
    log = Log()
    log.parts().writer.append(RUN, Batch.from_text("-" * 64 + "\n"))
    reader = log.reader()
    for _ in range(3):
        log.clock.advance(3)
        log.visit(reader)
        log.lines()
    assert reader.format == PLAIN.name


@pytest.mark.parametrize("batches", [30, 200])
def test_format_of_a_followed_run_is_that_of_its_first_lines(batches: int) -> None:
    """Found from each line as it comes, or from the log's beginning by a reader that begins later."""
    log = Log()
    log.lines()
    reader = log.reader()
    log.visit(reader)
    for _ in range(batches):
        log.lines(records=1)
        log.visit(reader)
        assert SNAPSHOT not in log.requests
    later = log.reader(follows=False)
    log.visit(later)
    assert reader.format == later.format
    assert bool(reader.format) == (batches > 100)
