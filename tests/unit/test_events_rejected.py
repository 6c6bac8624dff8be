"""The Python writer and invalid events: each is rejected alone, nothing is stored twice, and a failing store loses nothing."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from chalicelib.errors import InvalidEventError, UnavailableError
from chalicelib.events.event import Annotation, NewEvent
from chalicelib.events.ports import EventWriter
from chalicelib.events.sinks import BATCH_EVENTS, BatchSink
from chalicelib.events.validation import MAX_DETAILS_BYTES
from chalicelib.events.well_formed import MAX_DEPTH
from tests.events_harness import event_parts, notify
from tests.faults.interception import AFTER, BEFORE, Intercepted, StopAt
from tests.unit.test_event_targets import events_of
from tests.unit.test_events_methods import House, texts
from tests.world import RUN


def nested(levels: int) -> Any:
    value: Any = "x"
    for _ in range(levels):
        value = [value]
    return value


INVALID: dict[str, Callable[[EventWriter], None]] = {
    "unknown level": lambda writer: writer.write_message("bad", level="LOUD"),
    "empty level": lambda writer: writer.write_message("bad", level=""),
    "large data": lambda writer: writer.write_event(NewEvent(message="bad", data={"k": "v" * MAX_DETAILS_BYTES})),
    "infinity": lambda writer: writer.write_event(NewEvent(message="bad", data={"k": float("inf")})),
    "deep data": lambda writer: writer.write_event(NewEvent(message="bad", data={"k": nested(MAX_DEPTH)})),
    "note behind the message": lambda writer: writer.write_event(
        NewEvent(message="bad", annotations=(Annotation(position=4, note=1),))
    ),
    "step with a newline": lambda writer: writer.write_message("bad", step="a\nb"),
    "two different steps": lambda writer: writer.write_event(NewEvent(message="bad", step="a", data={"stepId": "b"})),
    "step that is no text": lambda writer: writer.write_event(NewEvent(message="bad", data={"stepId": 5})),
    "another run": lambda writer: writer.write_event(NewEvent(message="bad", data={"jobId": "another"})),
    "stream of an invalid step": lambda writer: print("bad", file=writer.stream(step="a\nb"), flush=True),
}


@pytest.fixture(params=["runlog", "files"])
def house(request: pytest.FixtureRequest, tmp_path: Path) -> House:
    return House(request.param, tmp_path)


@pytest.mark.parametrize("name", INVALID)
def test_invalid_event_is_rejected_on_entry(house: House, name: str) -> None:
    writer = house.writer("w")
    writer.write_message("good 1")
    with pytest.raises(ValueError if name == "deep data" else InvalidEventError):
        INVALID[name](writer)
    writer.write_message("good 2")
    for _ in range(3):
        writer.flush()
    writer.write_message("good 3")
    writer.close()
    assert texts(house) == "good 1\ngood 2\ngood 3\n"
    assert [event.id for event in house.browser.events()] == [0, 1, 2]
    if house.configuration.method == "runlog":
        parts = event_parts(house.world)
        notify(house.world, parts)
        (state,) = parts.watch.check(RUN).writers
        assert (state.count, list(state.missing)) == (3, [])


def test_event_that_only_the_log_rejects_costs_itself_alone(house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    """A rule that the log has and the writer does not: another version, another process."""
    monkeypatch.setattr("chalicelib.events.writing.checked_event", lambda event, loggable: event)
    writer = house.writer("w")
    for message, level in (("good 1", None), ("bad", "x" * 41), ("good 2", None)):
        writer.write_message(message, level=level)
    with pytest.raises(InvalidEventError, match="rejected=1 first=1"):
        writer.flush()
    writer.flush()
    writer.write_message("good 3")
    writer.close()
    assert texts(house) == "good 1\ngood 2\ngood 3\n"
    assert [event.id for event in house.browser.events()] == [0, 2, 3]


def test_batch_without_any_valid_event_is_dropped(house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("chalicelib.events.writing.checked_event", lambda event, loggable: event)
    writer = house.writer("w")
    writer.write_message("bad", level="x" * 41)
    with pytest.raises(InvalidEventError):
        writer.close()
    writer.close()
    assert texts(house) == ""


def test_rejection_of_a_full_batch_is_raised_by_the_next_flush() -> None:
    """Not by ``add``: its event is valid, and would be taken for the rejected one."""
    sent: list[list[int]] = []

    def send(events: Any) -> None:
        sent.append([event.id for event in events])
        if len(sent) == 1:
            raise InvalidEventError("one of them")

    sink, events = BatchSink(send), events_of(BATCH_EVENTS + 1)
    for event in events:
        sink.add(event)
    with pytest.raises(InvalidEventError, match="one of them"):
        sink.flush()
    sink.flush()
    assert sent == [list(range(BATCH_EVENTS)), [BATCH_EVENTS]]


def test_later_batches_of_a_writer_are_two_puts_each(tmp_path: Path) -> None:
    """Each batch has the position of the one before, so none searches the log's end."""
    house = House("runlog", tmp_path)
    writer = house.writer("w")
    writer.write_message("first")
    writer.flush()
    house.world.store.calls.clear()
    for number in range(3):
        writer.write_message(f"later {number}")
        writer.flush()
    assert dict(house.world.store.calls) == {"put": 6}


SURROGATES: dict[str, Callable[[EventWriter], None]] = {
    "message": lambda writer: writer.write_message("caf\udce9"),
    "stream": lambda writer: print("caf\udce9", file=writer.stream(), flush=True),
    "step": lambda writer: writer.write_message("caf", step="s\udce9"),
    "stream's step": lambda writer: print("caf", file=writer.stream(step="s\udce9"), flush=True),
    "data": lambda writer: writer.write_event(NewEvent(message="caf", data={"a\udce9": [{"b\udce9": "c\udce9"}]})),
    "note": lambda writer: writer.write_event(NewEvent(message="caf", annotations=(Annotation(position=0, note=["\udce9"]),))),
}


@pytest.mark.parametrize("name", SURROGATES)
def test_lone_surrogate_is_replaced(house: House, name: str) -> None:
    writer = house.writer("w")
    writer.write_message("good 1")
    SURROGATES[name](writer)
    writer.write_message("good 2")
    writer.close()
    first, odd, last = house.browser.events()
    assert (first.message, last.message) == ("good 1", "good 2")
    text = repr(odd.model_dump())
    assert "\ufffd" in text and "\udce9" not in text and "caf" in odd.message


def test_surrogate_pair_is_a_letter() -> None:
    assert NewEvent(message="\ud83d\ude00 \ude00\ud83d").message == "\U0001f600 \ufffd\ufffd"


@pytest.mark.parametrize("when", [BEFORE, AFTER])
@pytest.mark.parametrize("call", range(8))
def test_store_that_fails_late_loses_nothing(tmp_path: Path, when: str, call: int) -> None:
    """The write is applied or not, and its response is lost: two batches and an invalid event, flushed until it succeeds."""
    house = House("runlog", tmp_path)
    stop = StopAt(call, when, "error")
    house.registry = house.build(lambda port: Intercepted(port, stop))
    writer = None
    while writer is None:
        try:
            writer = house.writer("w")
        except UnavailableError:
            continue
    for number in range(2):
        writer.write_message(f"good {number}")
        with pytest.raises(InvalidEventError):
            writer.write_message("bad", level="x" * 41)
        _until_it_works(writer.flush)
    _until_it_works(writer.close)
    house.registry = house.build()
    assert texts(house) == "good 0\ngood 1\n"
    assert [(event.id, event.writer) for event in house.browser.events()] == [(0, "w"), (1, "w")]


def _until_it_works(act: Callable[[], None]) -> None:
    for _ in range(3):
        try:
            return act()
        except UnavailableError:
            continue
    raise AssertionError("the store failed once")
