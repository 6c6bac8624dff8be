"""Memory for reading and writing events does not grow with the values that records share: large sidecars stay compressed."""

from __future__ import annotations

import gzip
import json
import queue
import threading
import tracemalloc
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from chalicelib.errors import BatchTooLargeError
from chalicelib.events import batch, indexing, sidecar, sidecar_store, step_events, tail
from chalicelib.events.event import NewEvent
from chalicelib.events.event_view import EventFilter
from chalicelib.events.sidecar import Sidecar, SidecarEntry, decode_outline, decode_sidecar, encode_sidecar
from chalicelib.events.sidecar_bundle import SidecarGroup
from chalicelib.pipelines import run_event_reader as feeds
from chalicelib.pipelines.rows import EventPosition
from chalicelib.pipelines.run_event_reader import RunEventReader
from chalicelib.ports import PutOptions, Run, StoredObject
from tests.events_harness import EventParts, event_parts, make_event, read_step_log
from tests.pipelines_harness import PipelinesHarness
from tests.world import RUN, START_MS, World

A = Run("svc.a", "r1")
MIB = 1024 * 1024
LONG = "x" * 60_000
EVENTS, SIDECARS = 300, 4


def peak_bytes(act: Callable[[], object]) -> int:
    """The peak of allocated memory during a call."""
    tracemalloc.start()
    try:
        act()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def body_of(sequence: int, events: int = EVENTS) -> bytes:
    """A sidecar whose events all repeat a field."""
    head = {"v": 1, "sequence": sequence, "line": sequence * events, "byte": sequence * events * 2, "lines": events}
    head |= {"bytes": events * 2, "writer": "", "instance": "house-1", "appended_ms": START_MS}
    numbers = range(sequence * events, (sequence + 1) * events)
    noted = [
        {"line": n, "byte": n * 2, "lines": 1, "bytes": 1, "timestamp": START_MS, "step": "s", "data": {"resource": LONG}}
        for n in numbers
    ]
    return gzip.compress("".join(json.dumps(each) + "\n" for each in [head, *noted]).encode(), mtime=0)


@pytest.fixture(name="stored", scope="module")
def _stored() -> World:
    """A run of large sidecars that are not indexed."""
    world = World()
    parts = event_parts(world)
    for number in range(SIDECARS):
        parts.log.append(RUN, [make_event("x", "s") for _ in range(EVENTS)])
        key = world.layout.sidecar(RUN, number)
        world.store.delete(key)
        world.store.put(key, body_of(number), PutOptions())
    return world


@pytest.mark.parametrize("read", [decode_sidecar, decode_outline])
def test_large_sidecar_is_read_an_event_at_a_time(read: Callable[[bytes], Sidecar]) -> None:
    body = body_of(0)
    count = 0

    def act() -> None:
        nonlocal count
        found = read(body)
        count = sum(1 for each in found.events if each.step == "s")
        assert len(found.events) == EVENTS

    assert peak_bytes(act) < 3 * MIB
    assert count == EVENTS


def test_large_sidecar_can_be_iterated_twice() -> None:
    found = decode_sidecar(body_of(2, 40))
    assert [each.line for each in found.events] == [each.line for each in found.events] == list(range(80, 120))
    assert all(each.data == {"resource": LONG} for each in found.events)
    assert next(iter(found.events)) in found.events
    assert decode_sidecar(encode_sidecar(found)).end_line == found.end_line == 120


@pytest.mark.slow
@pytest.mark.parametrize(
    "read",
    [
        lambda parts: parts.browser.page(RUN, EventFilter(), limit=1),
        lambda parts: parts.browser.page(RUN, EventFilter(text="nowhere")),
        lambda parts: parts.browser.page(RUN, EventFilter(step="s", text="nowhere")),
        lambda parts: parts.steps.all(RUN),
        lambda parts: parts.logs.step_log(RUN, "s"),
        lambda parts: parts.indexing.rebuild(RUN),
        lambda parts: parts.compactor.compact(RUN, World().deadline()),
    ],
    ids=["page", "search", "step", "steps", "step log", "rebuild", "compaction"],
)
def test_readers_of_large_sidecars_use_bounded_memory(stored: World, read: Callable[[EventParts], object]) -> None:
    """Decompressed they have 69 MiB."""
    parts = event_parts(stored)
    assert peak_bytes(lambda: read(parts)) < 16 * MIB


def test_pipeline_reads_large_sidecars_in_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(feeds, "MAX_DATA_BYTES", 2_000)
    world = PipelinesHarness()
    parts = event_parts(world)
    for first in (0, 10):
        parts.log.append(A, [make_event(f"m{number}", data={"k": "x" * 50}) for number in range(first, first + 10)])
    world.end(A)
    reading = RunEventReader(
        world.parts().reader, A, EventPosition(0, 0, START_MS), "", fetch_bytes=4096, patience_ms=0, clock=world.clock,
        sidecars=world.sidecars(parts),
    )  # fmt: skip
    pieces = [reading.fetch()]
    while not pieces[-1].at_end:
        pieces.append(reading.fetch())
    assert [each.parsed.message for piece in pieces for each in piece.events] == [f"m{number}" for number in range(20)]
    assert max(len(piece.events) for piece in pieces) < 6 and pieces[-1].final


class Ranges:
    """A store that records requested byte ranges."""

    def __init__(self, inner: Any) -> None:
        self._inner = inner
        self.asked: list[tuple[str, int | None]] = []

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    def get(self, key: str, start: int | None = None, end: int | None = None, **more: Any) -> StoredObject:
        self.asked.append((key, end))
        found: StoredObject = self._inner.get(key, start, end, **more)
        return found


def test_only_the_beginnings_of_sidecars_are_read_ahead(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sidecar_store, "READ_AHEAD_BYTES", 64)
    world = World()
    stores: list[Ranges] = []
    writing = event_parts(world)
    for number in range(5):
        writing.log.append(RUN, [make_event(f"m{number}", data={"number": number})])
    parts = event_parts(world, lambda inner: stores.append(Ranges(inner)) or stores[-1])
    found = parts.indexing.sidecars.read_numbers(RUN, range(5))
    assert next(found).sequence == 0
    asked = [end for store in stores for key, end in store.asked if "/events/" in key]
    assert asked.count(None) == 1, "one was read whole: the one that was taken"
    assert [each.sequence for each in found] == [1, 2, 3, 4]


def test_sidecars_are_read_on_demand() -> None:
    world = World()
    stores: list[Ranges] = []
    parts = event_parts(world, lambda inner: stores.append(Ranges(inner)) or stores[-1])
    parts.log.append(RUN, [make_event("m")])
    found = parts.indexing.sidecars.readers(RUN, [SidecarGroup(0, 0, (0,))] * 64)
    next(found)
    found.close()  # type: ignore[attr-defined]
    assert sum(len(store.asked) for store in stores) < 64


def test_reading_of_sidecars_can_be_closed_by_one_of_its_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    """As garbage collection does, which runs in any thread."""
    is_suspended, errors = threading.Event(), queue.SimpleQueue[Exception | None]()
    sidecars = event_parts(World()).indexing.sidecars

    def close(run: object, number: int) -> None:
        if number == 0 and is_suspended.wait(60):
            try:
                found.close()  # type: ignore[attr-defined]
                errors.put(None)
            except RuntimeError as error:
                errors.put(error)

    monkeypatch.setattr(sidecars, "_begin", close)
    found = sidecars.readers(RUN, [SidecarGroup(0, 0, (0,)), SidecarGroup(1, 1, (1,))])
    next(found)
    is_suspended.set()
    assert errors.get(timeout=60) is None


def test_unindexed_events_are_bounded_and_the_rest_withheld(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tail, "MAX_EVENTS", 3)
    world = World()
    parts = event_parts(world)
    for number in range(4):
        parts.log.append(RUN, [make_event(f"{number}a", "s"), make_event(f"{number}b", "s")])
    parts.index.put(RUN, [parts.indexing.sidecars.read_one(RUN, 3)])
    assert parts.logs.step_log(RUN, "s").text == "0a\n0b\n" and not parts.logs.step_log(RUN, "s").complete
    assert parts.indexing.rebuild(RUN) == 4
    assert read_step_log(parts, "s") == "0a\n0b\n1a\n1b\n2a\n2b\n3a\n3b\n"


def test_page_of_a_step_is_independent_of_batch_size(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World()
    parts = event_parts(world)
    for number in range(3):
        parts.log.append(RUN, [make_event(f"{number}-{each}", "s" if each % 2 else "t", data={"n": each}) for each in range(6)])
    parts.indexing.rebuild(RUN)
    whole = parts.browser.page(RUN, EventFilter(step="s")).events
    monkeypatch.setattr(step_events, "MAX_BATCH_BYTES", 0)
    assert parts.browser.page(RUN, EventFilter(step="s")).events == whole and len(whole) == 9


def test_rows_of_many_events_are_made_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(indexing, "MAX_INDEXED_EVENTS", 1)
    world = World()
    parts = event_parts(world)
    for number in range(3):
        parts.log.append(RUN, [make_event(f"{number}", "s"), make_event("x", "t")], writer="w" if number else None)
    assert parts.indexing.rebuild(RUN) == 3
    assert parts.index.indexed(RUN, 0) == {0, 1, 2}


def test_small_sidecars_are_parsed_once(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World()
    event_parts(world).log.append(RUN, [make_event("m", data={"a": 1})])
    body = world.store.get(world.layout.sidecar(RUN, 0)).body
    assert isinstance(decode_sidecar(body).events, tuple)
    monkeypatch.setattr(sidecar, "MAX_PARSED_BYTES", 0)
    assert tuple(decode_sidecar(body).events) == tuple(outlined_with_data(body))


def outlined_with_data(body: bytes) -> Iterator[SidecarEntry]:
    for line in gzip.decompress(body).splitlines()[1:]:
        yield SidecarEntry(**json.loads(line))


def test_a_batch_of_too_much_data_stores_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(batch, "MAX_DETAILS_BYTES", 1_000)
    world = World()
    events = [make_event("m", data={"k": "x" * 400}) for _ in range(3)]
    with pytest.raises(BatchTooLargeError, match="data and annotations of a batch are too large limit=1000"):
        event_parts(world).log.append(RUN, events)
    assert not world.store.list("").objects
    assert event_parts(world).log.append(RUN, events[:2]).accepted == 2


def test_identity_of_a_batch_is_unchanged() -> None:
    events = [NewEvent(message="m", data={"b": 1, "a": "ü"}), NewEvent(message="", step="s")]
    documents = [event.model_dump(exclude_defaults=True) for event in events]
    for some in (events, events[:1]):
        assert batch._as_sent(some, "ü") == json.dumps(["ü", documents[: len(some)]], sort_keys=True).encode()
