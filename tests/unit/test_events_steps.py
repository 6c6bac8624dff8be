"""The log of a step equals the overall log filtered, for every order of storage, notification and reading."""

from __future__ import annotations

from random import Random
from unittest.mock import patch

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bench.events import MB, WAYS, measure_step_reading
from chalicelib.events import byte_ranges, step_log
from chalicelib.events.bundling import Bundled
from chalicelib.events.byte_ranges import ByteRange
from chalicelib.events.event_view import EventFilter
from chalicelib.events.step_updates import StepUpdate
from chalicelib.ports import PutOptions, Run, run_key
from chalicelib.runlog.batch import Batch
from tests.events_harness import ClientWriter, EventParts, event_parts, make_event, notify, read_log, read_step_log
from tests.sampling import examples
from tests.world import RUN, START_MS, World

STEPS = ("a", "b/c", "ä#", None)
OPERATIONS = st.lists(
    st.one_of(
        st.tuples(st.just("events"), st.lists(st.tuples(st.sampled_from(STEPS), st.sampled_from(["", "x", "y\nz", "é\r"])), min_size=1, max_size=4)),
        st.tuples(st.just("plain"), st.just("plain\n")),
        st.tuples(st.just("compact"), st.none()),
        st.tuples(st.just("notify"), st.integers(0, 3)),
        st.tuples(st.just("later"), st.just(21 * 60)),
        st.tuples(st.just("end until the next append"), st.none()),
        st.tuples(st.just("bundle"), st.none()),
    ),
    min_size=1,
    max_size=12,
)  # fmt: skip


@pytest.mark.behavior("The log of a step equals the log of the run filtered by the step.")
@pytest.mark.slow
@settings(deadline=None, max_examples=examples(60))
@given(OPERATIONS, st.booleans(), st.sampled_from([None, 1, 3]))
def test_step_log_equals_the_overall_log_filtered(
    operations: list[tuple[str, object]], closed: bool, max_lines: int | None
) -> None:
    world = World()
    parts = event_parts(world)
    author, model, plain = ClientWriter(parts, "w"), [], []
    for kind, given_ in operations:
        if kind == "events":
            author.say(*(make_event(message, step) for step, message in given_))  # type: ignore[attr-defined]
            model += given_  # type: ignore[arg-type]
        elif kind == "plain":
            parts.writer.append(RUN, Batch.from_text(str(given_)))
            model.append((None, "plain"))
        elif kind == "compact":
            parts.finalizer.compact_and_finalize(RUN, world.deadline())
        elif kind == "notify":
            _notify_some(world, parts, int(given_))  # type: ignore[call-overload]
        elif kind == "bundle":
            parts.bundler.bundle(RUN, world.deadline())
        elif kind == "later":
            world.clock.advance(float(given_))  # type: ignore[arg-type]
        else:
            parts.finalizer.abandon(RUN, world.clock.now_ms() + 1, world.deadline())
        plain.append(kind)
        _check(parts, model, max_lines)
    if closed:
        parts.finalizer.close(RUN)
        _check(event_parts(world), model, max_lines)
        world.clock.advance(21 * 60)
        parts.bundler.bundle(RUN, world.deadline())
        assert len(parts.indexing.single_numbers(RUN, 0)) <= 1
        _check(event_parts(world), model, max_lines)


def _notify_some(world: World, parts: EventParts, each: int) -> None:
    """Some of the notifications, in reverse order."""
    for number in parts.indexing.single_numbers(RUN, 0)[:: -1 - each]:
        parsed = world.layout.parse(world.layout.sidecar(RUN, number))
        assert parsed
        parts.indexing.index_object(parsed)


def _events_of(parts: EventParts, step: str) -> list[str]:
    """Events by small pages."""
    found: list[str] = []
    after: int | None = 0
    while after is not None:
        page = parts.browser.page(RUN, EventFilter(step=step), after, 2)
        found += [event.message for event in page.events]
        after = page.after
    return found


def _check(parts: EventParts, model: list[tuple[str | None, str]], max_lines: int | None) -> None:
    assert read_log(parts) == "".join(f"{message}\n" for _, message in model)
    for step in STEPS[:3]:
        wanted = "".join(f"{message}\n" for of, message in model if of == step)
        assert read_step_log(parts, str(step), max_lines=max_lines) == wanted
        assert _events_of(parts, str(step)) == [message for of, message in model if of == step]
    for facts in parts.steps.all(RUN):
        of = [message for step, message in model if step == facts.step]
        assert (facts.lines, facts.bytes) == (sum(m.count("\n") + 1 for m in of), sum(len(m.encode()) + 1 for m in of))


def test_a_position_stays_true_while_the_log_grows() -> None:
    world = World()
    parts = event_parts(world)
    author, text, start = ClientWriter(parts, "w"), "", 0
    for number in range(30):
        author.say(make_event(f"one {number}", "s"), make_event("other", "t"), make_event(f"two {number}\n", "s"))
        if number % 7 == 3:
            parts.compactor.compact(RUN, world.deadline())
        if number % 5 == 2:
            notify(world, parts)
        answer = event_parts(world).logs.step_log(RUN, "s", start, max_lines=4)
        text, start = text + answer.text, answer.next
        assert not answer.complete
    parts.finalizer.close(RUN)
    while not (answer := parts.logs.step_log(RUN, "s", start, max_lines=4)).complete:
        text, start = text + answer.text, answer.next
    text += answer.text
    assert text == "".join(f"one {number}\ntwo {number}\n\n" for number in range(30))


def test_append_in_progress_withholds_later_events() -> None:
    """The segment of one batch exists without its sidecar, while another sidecar exists: the step's log ends before both."""
    world = World()
    parts = event_parts(world)
    parts.log.append(RUN, [make_event("first", "s")])
    position = parts.log.append(RUN, []).position
    parts.log.append(RUN, [make_event("under way", "s")], position=position)
    key = world.layout.sidecar(RUN, 1)
    body = world.store.get(key).body
    world.store.delete(key)
    parts.log.append(RUN, [make_event("third", "s")])
    notify(world, parts)
    assert read_step_log(parts, "s") == "first\n"
    assert [event.message for event in parts.browser.page(RUN, EventFilter()).events] == ["first"]
    world.clock.advance(61)  # the append has failed
    assert read_step_log(event_parts(world), "s") == "first\nthird\n"
    assert body
    parts.log.append(RUN, [make_event("under way", "s")], position=position)
    assert read_step_log(event_parts(world), "s") == "first\nunder way\nthird\n"


@pytest.mark.parametrize("closed", [False, True])
def test_compaction_during_an_append_hides_nothing(closed: bool) -> None:
    """The artifact has the lines of a batch whose sidecar is written later, and whose notification is lost."""
    world = World()
    parts = event_parts(world)
    parts.log.append(RUN, [make_event("first", "s")])
    position = parts.log.append(RUN, []).position
    parts.log.append(RUN, [make_event("under way", "s")], position=position)
    key = world.layout.sidecar(RUN, 1)
    body = world.store.get(key).body
    world.store.delete(key)
    parts.log.append(RUN, [make_event("third", "s")])
    parts.finalizer.close(RUN) if closed else parts.compactor.compact(RUN, world.deadline())
    assert read_step_log(parts, "s") == "first\n"
    assert [event.message for event in parts.browser.page(RUN, EventFilter()).events][:1] == ["first"]
    assert not parts.logs.step_log(RUN, "s").complete
    world.store.put(key, body, PutOptions())
    assert read_step_log(event_parts(world), "s") == "first\nunder way\nthird\n"
    world.clock.advance(22 * 60)
    parts.finalizer.compact_and_finalize(RUN, world.deadline())
    assert parts.index.indexed(RUN, 0) == {0, 1, 2}
    world.clock.advance(22 * 60)
    assert read_step_log(event_parts(world), "s") == "first\nunder way\nthird\n"


@pytest.mark.parametrize("bundles", [False, True], ids=["sidecars", "bundles"])
def test_the_index_is_rebuilt_from_s3_alone(bundles: bool) -> None:
    world = World()
    parts = event_parts(world)
    author = ClientWriter(parts, "w")
    for number in range(6):
        author.say(make_event(f"{number}", "a"), make_event("x", "b"))
    parts.step_updates.record(RUN, "a", StepUpdate(name="Compile", startedMs=3))
    parts.finalizer.close(RUN)
    before = {row["at"]: row for row in world.database.rows("events")}
    if bundles:
        world.clock.advance(21 * 60)
        assert parts.bundler.bundle(RUN, world.deadline()) == Bundled(6, 1)
    world.database.__init__()  # type: ignore[misc]
    assert parts.indexing.rebuild(RUN) == 6
    after = {row["at"]: row for row in world.database.rows("events")}
    varying = {"version": 0, "indexed_ms": 0, "expires_at": 0}
    assert {at: row | varying for at, row in after.items()} == {at: row | varying for at, row in before.items()}


def test_notifications_twice_and_in_any_order_are_the_same() -> None:
    world = World()
    parts = event_parts(world)
    author = ClientWriter(parts, "w")
    for number in range(9):
        author.say(*(make_event(f"{number}", "ab"[at % 2]) for at in range(3)))
    notify(world, parts)
    expected = {row["at"]: row | {"version": 0} for row in world.database.rows("events")}
    seed = Random().randrange(10**9)
    print(f"seed: {seed}")
    numbers = list(range(9)) * 2
    Random(seed).shuffle(numbers)
    world.database.__init__()  # type: ignore[misc]
    for number in numbers:
        parts.indexing.index_object(world.layout.parse(world.layout.sidecar(RUN, number)))  # type: ignore[arg-type]
    assert {row["at"]: row | {"version": 0} for row in world.database.rows("events")} == expected
    assert parts.index.visible(RUN)["w"].ranges == ((0, 26),)


def test_steps_in_order_of_start_with_updates() -> None:
    world = World()
    parts = event_parts(world)
    parts.log.append(RUN, [
        make_event("x", "late", timestamp=START_MS + 50), make_event("ERROR: no", "early", timestamp=START_MS + 10),
        make_event("y", "late", timestamp=START_MS + 90, level="fatal"),
    ])  # fmt: skip
    parts.step_updates.record(
        RUN, "early", StepUpdate(name="Early one", parent="root", startedMs=START_MS + 5, endedMs=START_MS + 25, status="failed")
    )
    parts.step_updates.record(RUN, "early", StepUpdate(status="succeeded"))
    parts.step_updates.record(RUN, "root", StepUpdate(startedMs=START_MS))
    found = parts.steps.all(RUN)
    assert [
        (each.step, each.name, each.parent, each.status, each.errors, each.duration_ms, each.line_ranges) for each in found
    ] == [
        ("root", "root", None, "running", 0, None, ()),
        ("early", "Early one", "root", "succeeded", 1, 20, ((1, 1),)),
        ("late", "late", None, "running", 1, 40, ((0, 0), (2, 2))),
    ]
    assert [each.first_line for each in found] == [None, 1, 0]
    assert not any(each.complete for each in found)
    parts.finalizer.close(RUN)
    late = parts.steps.all(RUN)[2]
    assert (late.status, late.ended_ms, late.complete) == (None, START_MS + 90, True)


@pytest.mark.slow
def test_cost_of_a_step_is_independent_of_the_run() -> None:
    """A step of 200 lines in a log a hundred times as long: two requests for its text, and no other bytes."""
    world = World()
    parts = event_parts(world)
    author = ClientWriter(parts, "w")
    for number in range(100):
        author.say(*(make_event("x" * 100, f"step-{number}") for _ in range(200)))
    parts.finalizer.close(RUN)
    world.clock.advance(3600)
    fresh = event_parts(world)
    world.store.calls.clear()
    world.database.calls.clear()
    answer = fresh.logs.step_log(RUN, "step-50")
    assert (len(answer.text), answer.complete) == (20_200, True)
    assert (dict(world.store.calls), dict(world.database.calls)) == ({"get": 1}, {"query": 1})


@pytest.mark.parametrize(("other_bytes", "batches"), [(70_000, 100), (30_000, 400)], ids=["requests", "bytes"])
def test_scattered_step_is_read_in_bounded_requests_and_bytes(other_bytes: int, batches: int) -> None:
    world = World()
    parts = event_parts(world)
    author = ClientWriter(parts)
    for number in range(batches):
        author.say(make_event("s" * 50, "s"), make_event("o" * other_bytes, "o"), make_event(str(number), "s"))
    parts.finalizer.close(RUN)
    world.clock.advance(3600)
    longest = tuple((line, line + 1) for line in range(2, 62, 3))
    assert parts.steps.all(RUN)[0].line_ranges == longest, (
        "adjacent ranges of two segments are one, and the first of 200 are listed"
    )
    world.store.calls.clear()
    ranges: list[tuple[int, int]] = []
    with patch.object(step_log, "plan_reads", lambda found: ranges.extend(plan := byte_ranges.plan_reads(found)) or plan):
        first = parts.logs.step_log(RUN, "s")
    assert world.store.calls["get"] <= step_log.MAX_READS + 1 and first.text and not first.complete
    assert max(end - start for start, end in ranges[-1:]) <= step_log.MAX_READ_BYTES
    assert read_step_log(parts, "s") == "".join("s" * 50 + f"\n{number}\n" for number in range(batches))


@pytest.mark.parametrize("way", [way for way in WAYS if way not in ("one line in 150", "one line in 500")])
def test_step_of_long_runs_reads_at_most_twice_its_bytes(way: str) -> None:
    found = measure_step_reading(way, 32 * MB, 4 * MB)
    assert found["step_bytes"] > MB
    if WAYS[way][0] >= 16_384:
        assert found["s3_bytes"] <= 2 * found["step_bytes"] + MB
    assert found["s3_bytes"] <= found["answers"] * step_log.MAX_READ_BYTES + MB


@pytest.mark.slow
def test_many_sidecars_cost_compaction_one_more_listing() -> None:
    """Keys under ``events/`` sort before the segments: listings skip them."""
    world = World()
    parts = event_parts(world)
    position = None
    for number in range(1200):
        position = parts.log.append(RUN, [make_event(f"{number}", "s")], position=position).position
    world.store.calls.clear()
    state = parts.compactor.read_state(RUN)
    assert (len(state.pending), state.has_events, world.store.calls["list"]) == (1200, True, 3)
    world.store.calls.clear()
    world.database.calls.clear()
    parts.compactor.compact(RUN, world.deadline())
    assert parts.index.indexed(RUN, 0) == set(range(1200))
    assert world.store.calls["list"] == 5 and world.database.calls["put_many"] <= 2 * 1200 // 25 + 40
    world.database.calls.clear()
    parts.log.append(RUN, [make_event("more", "s")])
    parts.compactor.compact(RUN, world.deadline())
    assert dict(world.database.calls) == {"query": 1, "put_many": 2}


def test_run_key_is_percent_encoded() -> None:
    assert run_key(Run("a/b c", "r#1")) == "a%2Fb%20c/r%231"


@given(st.lists(st.tuples(st.integers(0, 100_000), st.integers(1, 50_000)), max_size=30))
def test_planned_reads_cover_all_ranges_and_little_more(drawn: list[tuple[int, int]]) -> None:
    found, at = [], 0
    for gap, size in drawn:
        found.append(ByteRange(at + gap, size, at, 1))
        at += gap + size
    found = byte_ranges.merge_adjacent(found)
    ranges = byte_ranges.plan_reads(found)
    assert all(any(start <= each.byte and each.end_byte <= end for start, end in ranges) for each in found)
    assert ranges == sorted(ranges) and len(ranges) <= len(found)
    wanted = sum(each.bytes for each in found)
    is_fine = wanted < byte_ranges.FINE_BYTES * len(found)
    more = byte_ranges.FINE_GAP_BYTES * len(found) if is_fine else 0
    assert sum(end - start for start, end in ranges) <= wanted * byte_ranges.MAX_READ_RATIO + more
    assert byte_ranges.decode_ranges(byte_ranges.encode_ranges(found)) == tuple(found)
