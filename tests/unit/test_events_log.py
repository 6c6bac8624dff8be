"""Events in a run's log: stored once, masked, and read back exactly; log readers see plain lines."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import SecretStr

from chalicelib.errors import BatchTooLargeError, InvalidBatchError, InvalidEventError, RunClosedError, UnavailableError
from chalicelib.events.event import Annotation, NewEvent
from chalicelib.events.event_view import EventFilter
from chalicelib.events.sidecar import decode_sidecar
from chalicelib.masking.rules import MaskingRule
from chalicelib.routes.events import browsed_event
from chalicelib.runlog.batch import Batch
from tests.events_harness import INSTANCE, ClientWriter, all_events, event_parts, make_event, read_log, read_step_log
from tests.faults.interception import BEFORE, Intercepted, StopAt
from tests.world import RUN, World

MESSAGES = st.one_of(
    st.sampled_from(["", "\n", "a\n", "\n\n", "\r", "a\r\nb", "a\rb", " ", "\x00", "größe 語", "no newline"]),
    st.text(st.characters(exclude_categories=["Cs"]), max_size=20),
)


@settings(deadline=None)
@given(st.lists(st.lists(MESSAGES, min_size=1, max_size=5), min_size=1, max_size=5), st.booleans(), st.booleans())
def test_every_message_comes_back_as_it_was(batches: list[list[str]], closed: bool, compacted: bool) -> None:
    world = World()
    parts = event_parts(world)
    author = ClientWriter(parts, "w")
    for batch in batches:
        author.say(*map(make_event, batch))
        if compacted:
            parts.compactor.compact(RUN, world.deadline())
    if closed:
        parts.finalizer.close(RUN)
    flat = [message for batch in batches for message in batch]
    shown = list(all_events(parts, RUN))
    assert [(each.id, each.message) for each in shown] == list(enumerate(flat))
    assert "".join(f"{message}\n" for message in flat) == "".join(f"{line}\n" for line in world.read_all())
    assert [each.lines for each in shown] == [message.count("\n") + 1 for message in flat]


@pytest.mark.behavior("An event is read back with all of its fields.")
def test_event_is_read_back_with_all_fields() -> None:
    world = World()
    parts = event_parts(world)
    note = {"url": "https://example.com", "colours": [1, 2]}
    event = NewEvent(
        message="built\nwell", timestamp=5, id=7, step="compile", level="warn", data={"a": {"b": [1, None]}},
        annotations=(Annotation(position=6, note=note),),
    )  # fmt: skip
    parts.log.append(RUN, [event], writer="agent")
    (shown,) = parts.browser.page(RUN, EventFilter()).events
    assert browsed_event(shown) == {
        "id": 7, "writer": "agent", "line": 0, "lines": 2, "timestamp": 5, "level": "warn", "step": "compile",
        "message": "built\nwell", "severity": "WARNING", "hasData": True,
        "data": {
            "a": {"b": [1, None]}, "instanceId": INSTANCE, "loggableType": "run", "loggableId": RUN.run_id, "jobId": RUN.fqn,
            "stepId": "compile",
        },
        "annotations": [{"position": 6, "note": note}],
    }  # fmt: skip


def test_errors_of_a_segment_are_those_that_senders_state() -> None:
    world = World()
    parts = event_parts(world)
    events = [
        make_event("went wrong", level="err"),
        make_event("gone", level="fatal"),
        make_event("ERROR a", level="info"),
        make_event("ERROR b"),
        make_event("c"),
    ]
    parts.log.append(RUN, events)
    assert parts.writer.tails.segment(RUN, 0).errors == 3


def test_without_an_id_the_line_is_the_id_and_without_a_time_it_is_now() -> None:
    world = World()
    parts = event_parts(world)
    parts.writer.append(RUN, Batch.from_text("plain\n"))
    answer = parts.log.append(RUN, [make_event("a\nb"), make_event("c")])
    assert (answer.accepted, answer.first_line, answer.repeated) == (2, 1, False)
    shown = parts.browser.page(RUN, EventFilter(), after=1).events
    assert [(each.id, each.timestamp) for each in shown] == [(1, world.clock.now_ms()), (3, world.clock.now_ms())]


def test_an_append_is_two_puts() -> None:
    world = World()
    author = ClientWriter(event_parts(world))
    author.say(make_event("first"))
    world.store.calls.clear()
    author.say(make_event("second"), make_event("third"))
    assert world.store.calls == {"put": 2}


def test_a_repeat_with_the_same_position_is_stored_once() -> None:
    world = World()
    parts = event_parts(world)
    position = parts.log.append(RUN, []).position
    first = parts.log.append(RUN, [make_event("a")], position=position)
    again = parts.log.append(RUN, [make_event("a")], position=position)
    assert (again.first_line, again.repeated) == (first.first_line, True)
    other = parts.log.append(RUN, [make_event("a", data={"n": 1})], position=position)
    assert (other.first_line, other.repeated) == (1, False)


def test_a_repeat_with_the_same_key_is_stored_once_and_another_batch_refused() -> None:
    parts = event_parts(World())
    parts.log.append(RUN, [make_event("a", id=1)], writer="w", idempotency_key="k")
    assert parts.log.append(RUN, [make_event("a", id=1)], writer="w", idempotency_key="k").repeated
    with pytest.raises(InvalidBatchError):
        parts.log.append(RUN, [make_event("a", id=2)], writer="w", idempotency_key="k")


def test_valid_items_are_stored_and_invalid_ones_reported() -> None:
    parts = event_parts(World())
    answer = parts.log.append(
        RUN,
        [
            make_event("a", id=0),
            make_event("b", id=1, data={"loggableId": "another"}),
            make_event("c", id=2, step="x", data={"stepId": "y"}),
            make_event("d"),
            make_event("e", id=3, annotations=(Annotation(position=2, note=1),)),
            make_event("f", id=4, step="\n"),
            make_event("g", id=5, data={"x": "y" * 70_000}),
            make_event("g", id=6, level="LOUD"),
            make_event("g", id=7, level=""),
            make_event("g", id=8, data={"x": float("inf")}),
            make_event("g", id=9, data={"stepId": 5}),
            make_event("h", id=10, data={"loggableId": RUN.run_id, "jobId": RUN.fqn, "loggableType": "run", "stepId": "s"}),
        ],
        writer="w",
    )
    assert (answer.accepted, [each.index for each in answer.refused]) == (2, list(range(1, 11)))
    shown = parts.browser.page(RUN, EventFilter()).events
    assert [(each.message, each.step) for each in shown] == [("a", None), ("h", "s")]
    with pytest.raises(InvalidEventError):
        parts.log.append(RUN, [make_event("b", data={"loggableId": "another"})])
    with pytest.raises(BatchTooLargeError):
        parts.log.append(RUN, [make_event("x")] * 10_001)


@pytest.mark.parametrize(
    "event",
    [
        {"message": "caf\udce9"},
        {"message": "caf", "step": "s\udce9"},
        {"message": "caf", "data": {"a\udce9": [{"b\udce9": "c\udce9"}]}},
        {"message": "caf", "annotations": (Annotation(position=0, note=["\udce9"]),)},
    ],
)
def test_lone_surrogate_is_replaced(event: dict[str, Any]) -> None:
    parts = event_parts(World())
    parts.log.append(RUN, [make_event("good"), make_event(**event)])
    first, odd = all_events(parts)
    assert first.message == "good" and "caf" in odd.message
    assert "\ufffd" in repr(odd) and "\udce9" not in repr(odd)


def test_surrogate_pair_is_a_letter() -> None:
    assert NewEvent(message="\ud83d\ude00 \ude00\ud83d").message == "\U0001f600 \ufffd\ufffd"


def test_a_closed_run_takes_no_events() -> None:
    parts = event_parts(World())
    parts.log.append(RUN, [make_event("a")])
    parts.finalizer.close(RUN)
    with pytest.raises(RunClosedError):
        parts.log.append(RUN, [make_event("b")])


SECRET = "hunter2-secret"
RULES = [MaskingRule(fqn="*", values=(SecretStr(SECRET),))]


def test_secrets_are_masked_in_message_data_and_annotations_before_anything_is_stored() -> None:
    world = World()
    counted: list[object] = []
    parts = event_parts(world, rules=RULES, masked=counted.append)
    event = NewEvent(
        message=f"é {SECRET} then {SECRET}\nnext",
        data={"deep": [{"x": f"a {SECRET}"}], "password": "short", "pin": {"api_key": 1234567890}},
        annotations=(
            Annotation(position=0, note=SECRET), Annotation(position=2, note=1), Annotation(position=5, note=1),
            Annotation(position=17, note=1), Annotation(position=len(f"é {SECRET} then {SECRET}\n"), note=1),
        ),
    )  # fmt: skip
    parts.log.append(RUN, [event, make_event("behind")])
    everything = b"".join(world.store.get(key).body for key in (world.layout.segment(RUN, 0),))
    sidecar = decode_sidecar(world.store.get(world.layout.sidecar(RUN, 0)).body)
    assert SECRET.encode() not in everything and SECRET not in repr(sidecar) and "1234567890" not in repr(sidecar)
    first, second = parts.browser.page(RUN, EventFilter()).events
    marker = "***configured-value***"
    assert first.message == f"é {marker} then {marker}\nnext" and second.message == "behind"
    assert first.data["deep"] == [{"x": f"a {marker}"}]
    assert first.data["password"] == "***password***"
    assert [note["position"] for note in first.annotations] == [0, 2, 2, 2 + len(marker) + 1, len(first.message) - 4]
    assert first.annotations[0]["note"] == marker
    assert counted


def test_a_secret_that_is_cut_into_events_is_masked() -> None:
    parts = event_parts(World(), rules=RULES)
    key = ["-----BEGIN RSA PRIVATE KEY-----", "MIIEpAIBAAKCAQEA", "-----END RSA PRIVATE KEY-----"]
    parts.log.append(RUN, [make_event(line) for line in ["before", *key, "behind"]])
    assert [each.message for each in parts.browser.page(RUN, EventFilter()).events] == [
        "before",
        *["***private-key***"] * 3,
        "behind",
    ]


def test_retry_under_other_rules_describes_the_stored_bytes() -> None:
    world = World()
    strict, lax = event_parts(world, rules=RULES), event_parts(world)
    position = lax.log.append(RUN, []).position
    events = [make_event(f"{SECRET} a"), make_event("b\nc")]
    lax.log.append(RUN, events, position=position)
    world.store.delete(world.layout.sidecar(RUN, 0))
    assert strict.log.append(RUN, events, position=position).repeated
    assert [each.message for each in lax.browser.page(RUN, EventFilter()).events] == [f"{SECRET} a", "b\nc"]


def test_retry_under_other_rules_describes_the_stored_bytes_when_only_the_text_was_stored() -> None:
    """The first attempt failed between its two writes; the retry masks a line that was stored unmasked, so positions in its batch
    are not the stored ones."""
    world = World()
    position = event_parts(world).log.append(RUN, []).position
    stop = StopAt(1, BEFORE, "error")
    events = [make_event("password=hunter2 a"), make_event("b", "s"), make_event("c\nd", "s")]
    with pytest.raises(UnavailableError):
        event_parts(world, lambda port: Intercepted(port, stop) if port is world.store else port).log.append(
            RUN, events, position=position
        )
    parts = event_parts(world, rules=[MaskingRule(fqn="*")])
    assert parts.log.append(RUN, events, position=position).repeated
    assert read_log(parts) == "password=hunter2 a\nb\nc\nd\n", "as it was stored"
    assert read_step_log(parts, "s") == "b\nc\nd\n"


def test_missing_sidecar_is_written_by_the_retry() -> None:
    world = World()
    parts = event_parts(world)
    position = parts.log.append(RUN, []).position
    parts.log.append(RUN, [make_event("a\nb", step="s")], position=position)
    world.store.delete(world.layout.sidecar(RUN, 0))
    world.clock.advance(61)
    assert [each.message for each in parts.browser.page(RUN, EventFilter()).events] == ["a"]  # plain lines; the last may grow
    parts.log.append(RUN, [make_event("a\nb", step="s")], position=position)
    assert [each.message for each in parts.browser.page(RUN, EventFilter()).events] == ["a\nb"]


@pytest.mark.behavior("Plain lines are read as events, with stack traces joined.")
def test_plain_lines_between_events_are_parsed() -> None:
    world = World()
    parts = event_parts(world)
    plain = "2026-11-21 03:12:45,123 ERROR orders: no\nTraceback (most recent call last):\n  File x\nValueError: y\n"
    parts.writer.append(RUN, Batch.from_text(plain))
    parts.log.append(RUN, [make_event("an event", step="s")])
    parts.writer.append(RUN, Batch.from_text("2026-11-21 03:12:46,000 INFO orders: yes\n"))
    parts.finalizer.close(RUN)
    shown = parts.browser.page(RUN, EventFilter()).events
    assert [(each.id, each.writer, each.lines, each.level, each.step) for each in shown] == [
        (0, "", 4, "ERROR", None), (4, "", 1, None, "s"), (5, "", 1, "INFO", None),
    ]  # fmt: skip
    assert shown[0].timestamp == 1795230765123
    assert [each.message for each in parts.browser.page(RUN, EventFilter(level="error")).events] == [plain[:-1]]


def test_filters_and_cursor() -> None:
    parts = event_parts(World())
    parts.log.append(RUN, [make_event(f"m{n}\n.", step="ab"[n % 2], level="INFO", timestamp=n) for n in range(20)])
    page = parts.browser.page(RUN, EventFilter(step="a"), limit=3)
    assert [each.message for each in page.events] == ["m0\n.", "m2\n.", "m4\n."] and page.after == 10
    rest = parts.browser.page(RUN, EventFilter(step="a"), after=page.after or 0)
    assert (len(rest.events), rest.after) == (7, None)
    assert [each.id for each in parts.browser.page(RUN, EventFilter(from_ms=5, to_ms=7)).events] == [10, 12]
    assert next(each.message for each in parts.browser.page(RUN, EventFilter(text="m1")).events) == "m1\n."
    assert [each.message for each in parts.browser.page(RUN, EventFilter(), after=1, limit=1).events] == ["m1\n."]
    assert parts.browser.page(RUN, EventFilter(level="debug")).events == []
