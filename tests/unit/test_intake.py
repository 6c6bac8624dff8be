"""Results of an agent's items: each item has its own result, failures are isolated, and a repeated request is stored once if it can
be identified."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chalicelib.errors import BatchTooLargeError, OutcomeUnknownError, RunClosedError, StoreUnavailableError
from chalicelib.events import intake
from chalicelib.events.codecs.items import Decoded, Item
from chalicelib.events.event import NewEvent
from chalicelib.events.intake import Intake, IntakeLimits, IntakeRequest, ItemResult, ItemStatus
from chalicelib.events.ports import Refused
from chalicelib.events.routing import Router
from chalicelib.ports import Run
from tests.events_log import InMemoryEventLog

ONE = IntakeRequest({}, "digest", "name")
LIMITS = IntakeLimits(100, 10)


def item(index: int, run: str = "a/r", message: str | None = None, writer: str | None = None, unmistakable: bool = True) -> Decoded:
    fqn, run_id = run.split("/")
    names = {"runlake.fqn": fqn, "runlake.run_id": run_id} if fqn else {}
    return Decoded(index, NewEvent(message=message or f"m{index}"), {"record": names}, writer, unmistakable)


def taken(
    log: InMemoryEventLog,
    items: Iterable[Item],
    request: IntakeRequest = ONE,
    may_write: Callable[[str], bool] = lambda _: True,
    has_time: Callable[[], bool] = lambda: True,
    limits: IntakeLimits = LIMITS,
) -> list[ItemResult]:
    return Intake(log, Router.of([]), may_write, has_time, limits).take(items, request)


def fates(told: list[ItemResult]) -> list[str]:
    return [str(each.status) for each in told]


def test_items_of_several_runs_are_each_in_their_own_in_order() -> None:
    log = InMemoryEventLog()
    told = taken(log, [item(0), item(1, "b/r"), item(2), item(3, "a/s"), item(4)])
    assert fates(told) == ["stored"] * 5
    assert [log.messages(*run) for run in (("a", "r"), ("b", "r"), ("a", "s"))] == [["m0", "m2", "m4"], ["m1"], ["m3"]]
    assert len(log.batches) == 3, "one append for each run"


def test_writers_of_one_run_append_apart() -> None:
    log = InMemoryEventLog()
    taken(log, [item(0, writer="w"), item(1), item(2, writer="w")])
    assert log.batches == [(Run("a", "r"), "w", 2), (Run("a", "r"), None, 1)]


def test_every_item_has_its_own_result() -> None:
    log = InMemoryEventLog()

    def fails(run: Run) -> None:
        if run.fqn == "closed":
            raise RunClosedError("the run is closed")
        if run.fqn == "away":
            raise StoreUnavailableError("the store is away")

    log.fails = fails
    items: list[Item] = [
        item(0), Refused(1, "not json"), item(2, "hr/r"), item(3, "closed/r"), item(4, "away/r"), item(5, "/"), item(6, message="bad"),
        item(7, "allbad/r", "bad"), item(8),
    ]  # fmt: skip
    told = taken(log, items, may_write=lambda fqn: fqn != "hr")
    assert fates(told) == ["stored", "malformed", "forbidden", "closed", "away", "malformed", "malformed", "malformed", "stored"]
    assert log.runs.keys() == {Run("a", "r")} and log.messages("a", "r") == ["m0", "m8"]
    assert all(bool(each.reason) == (each.status is not ItemStatus.STORED) for each in told)


def test_permission_is_checked_once_for_each_pipeline() -> None:
    asked: list[str] = []
    taken(InMemoryEventLog(), [item(0), item(1), item(2, "b/r"), item(3, "a/s")], may_write=lambda fqn: asked.append(fqn) is None)
    assert asked == ["a", "b"]


def test_items_without_time_are_retryable_and_stored_once() -> None:
    log, time = InMemoryEventLog(), iter([True, False, True, True])
    items: list[Item] = [item(0), item(1, "b/r")]
    assert fates(taken(log, items, has_time=lambda: next(time))) == ["stored", "away"]
    assert fates(taken(log, items, has_time=lambda: next(time))) == ["stored", "stored"]
    assert log.messages("a", "r") == ["m0"] and log.messages("b", "r") == ["m1"]


def test_repeat_after_a_lost_response_is_stored_once() -> None:
    log, lost = InMemoryEventLog(), itertools.count()

    def fails(run: Run) -> Callable[[], None] | None:
        def lose() -> None:
            raise OutcomeUnknownError("the answer was lost")

        return lose if next(lost) == 0 else None

    log.fails = fails
    assert fates(taken(log, [item(0)])) == ["away"]
    assert fates(taken(log, [item(0)])) == ["stored"]
    assert log.messages("a", "r") == ["m0"]


@pytest.mark.behavior("A log agent's repeat is stored once if its records have ids or exact times.")
@pytest.mark.parametrize(
    ("request_", "unmistakable", "copies"),
    [
        (IntakeRequest({}, "d", "the id"), False, 1),
        (IntakeRequest({}, "d", repeats_bytes=True), True, 1),
        (IntakeRequest({}, "d", repeats_bytes=True), False, 2),
        (IntakeRequest({}, "d", repeats_bytes=False), True, 2),
    ],
)
def test_identifiable_repeat_is_stored_once(request_: IntakeRequest, unmistakable: bool, copies: int) -> None:
    """Equal lines are legitimate: content alone never identifies a repeat."""
    log = InMemoryEventLog()
    for _ in range(2):
        assert fates(taken(log, [item(0, message="x", unmistakable=unmistakable)], request_)) == ["stored"]
    assert log.messages("a", "r") == ["x"] * copies


@pytest.mark.behavior("Equal records of two requests are not taken for a repeat.")
def test_other_requests_are_never_taken_for_a_repeat() -> None:
    log = InMemoryEventLog()
    for request in (
        IntakeRequest({}, "d", "1"),
        IntakeRequest({}, "d", "2"),
        IntakeRequest({}, "d", repeats_bytes=True),
        IntakeRequest({}, "e", repeats_bytes=True),
    ):
        taken(log, [item(0, message="x")], request)
    assert len(log.messages("a", "r")) == 4


def test_permission_granted_between_attempts_loses_no_line() -> None:
    """The second batch differs: stored lines are stored again with it, and none is refused."""
    log = InMemoryEventLog()
    log.fails = lambda run: None
    items: list[Item] = [item(0), item(1, "a/r", "bad"), item(2)]
    assert fates(taken(log, items)) == ["stored", "malformed", "stored"]
    repaired: list[Item] = [item(0), Refused(1, "x"), item(2)]
    assert fates(taken(log, repaired)) == ["stored", "malformed", "stored"]


def test_too_many_items_store_nothing() -> None:
    log = InMemoryEventLog()
    with pytest.raises(BatchTooLargeError, match="too many items for one request limit=3"):
        taken(log, [item(number) for number in range(4)], limits=IntakeLimits(3, 10))
    assert log.batches == []
    assert fates(taken(log, [item(number) for number in range(3)], limits=IntakeLimits(3, 10))) == ["stored"] * 3


def test_too_many_items_are_decoded_no_further_than_the_limit() -> None:
    left = iter([item(number) for number in range(100)])
    with pytest.raises(BatchTooLargeError):
        taken(InMemoryEventLog(), left, limits=IntakeLimits(3, 10))
    assert len(list(left)) == 96


def test_too_many_runs_store_nothing_and_ask_for_no_more_permissions() -> None:
    log, asked = InMemoryEventLog(), list[str]()
    with pytest.raises(BatchTooLargeError, match="too many runs and writers for one request limit=3"):
        taken(log, [item(n, f"p{n}/r") for n in range(9)], may_write=lambda fqn: not asked.append(fqn), limits=IntakeLimits(9, 3))
    assert log.batches == [] and len(asked) == 3
    assert fates(taken(log, [item(n, f"p{n % 3}/r") for n in range(9)], limits=IntakeLimits(9, 3))) == ["stored"] * 9


def test_each_writer_of_a_run_counts() -> None:
    log = InMemoryEventLog()
    with pytest.raises(BatchTooLargeError):
        taken(log, [item(n, writer=f"w{n}") for n in range(4)], limits=IntakeLimits(9, 3))
    assert log.batches == []


def test_too_many_forbidden_runs_count_as_well() -> None:
    with pytest.raises(BatchTooLargeError):
        taken(InMemoryEventLog(), [item(n, f"p{n}/r") for n in range(4)], may_write=lambda _: False, limits=IntakeLimits(9, 3))


def test_large_groups_are_appended_in_parts_and_stored_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(intake, "MAX_BATCH", 3)
    log = InMemoryEventLog()
    items: list[Item] = [item(number, "b/r" if number == 4 else "a/r") for number in range(8)]
    for _ in range(2):
        assert fates(taken(log, items)) == ["stored"] * 8
    assert [count for run, _, count in log.batches if run.fqn == "a"] == [3, 3, 1]
    assert log.messages("a", "r") == [f"m{number}" for number in range(8) if number != 4]


KINDS = st.lists(st.sampled_from(["a/r", "b/r", "away/r", "hr/r", "/", "refused"]), max_size=12)


@given(kinds=KINDS, outages=st.integers(0, 3))
def test_items_repeated_until_none_is_retryable_are_stored_once(kinds: list[str], outages: int) -> None:
    """Compared with a model: a list for each run."""
    log, left = InMemoryEventLog(), iter([True] * outages)

    def fails(run: Run) -> None:
        if run.fqn == "away" and next(left, False):
            raise StoreUnavailableError("the store is away")

    log.fails = fails
    items: list[Item] = [Refused(n, "bad") if kind == "refused" else item(n, kind) for n, kind in enumerate(kinds)]
    while "away" in fates(told := taken(log, items, may_write=lambda fqn: fqn != "hr")):
        pass
    for kind in ("a/r", "b/r", "away/r"):
        expected = [f"m{n}" for n, each in enumerate(kinds) if each == kind]
        assert log.messages(*kind.split("/")) == expected
    assert fates(told) == [{"hr/r": "forbidden", "/": "malformed", "refused": "malformed"}.get(kind, "stored") for kind in kinds]


def sharing(index: int, shared_bytes: int, run: str = "a/r") -> Decoded:
    return replace(item(index, run), shared_bytes=shared_bytes)


def test_shared_bytes_are_counted_for_each_item() -> None:
    log, left = InMemoryEventLog(), iter([sharing(number, 10) for number in range(9)])
    spent: list[int] = []

    def count(shared_bytes: int) -> None:
        spent.append(shared_bytes)
        if sum(spent) > 30:
            raise BatchTooLargeError("too much")

    with pytest.raises(BatchTooLargeError):
        taken(log, left, limits=IntakeLimits(9, 9, count))
    assert log.batches == [] and len(list(left)) == 5


def test_items_that_share_much_are_several_appends(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(intake, "MAX_BATCH_SHARED_BYTES", 25)
    log = InMemoryEventLog()
    told = taken(log, [sharing(number, 10) for number in range(5)] + [sharing(5, 99), item(6)])
    assert fates(told) == ["stored"] * 7
    assert [count for _, _, count in log.batches] == [2, 2, 1, 1, 1]
    assert log.messages("a", "r") == [f"m{number}" for number in range(7)]


def test_items_that_are_refused_for_one_reason_have_one_text() -> None:
    told = taken(InMemoryEventLog(), [item(number, "/r") for number in range(9)])
    told += taken(InMemoryEventLog(), [item(number) for number in range(9)], may_write=lambda _: False)
    assert len({id(each.reason) for each in told}) == 2
