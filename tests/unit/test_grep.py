"""Search in a run: each matching line once and in order, at a bounded cost; and no pattern blocks a request."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from chalicelib.errors import InvalidInputError, PreconditionFailedError, StoreUnavailableError
from chalicelib.response_size import PAGE_BYTES
from chalicelib.runlog import grep as grep_module
from chalicelib.runlog.batch import Batch
from chalicelib.runlog.grep import MAX_MATCHES, TEXT_CHARS, Grep, GrepRequest, GrepResult
from chalicelib.runlog.matching import MAX_PATTERN_CHARS, matcher_of
from tests.faults.interception import Intercepted
from tests.sampling import examples
from tests.unit.test_reader import STATES, append
from tests.world import RUN, World

MIB = 1024 * 1024


def find(world: World, wanted: str, **options: Any) -> GrepResult:
    return Grep(world.parts().reader, world.clock).find(RUN, GrepRequest(wanted, **options))


def find_all(world: World, wanted: str, **options: Any) -> list[tuple[int, str]]:
    """Matches of all requests."""
    matches, after = [], 0
    while after is not None:
        found = find(world, wanted, after=after, **options)
        matches += [(each.line, each.text) for each in found.matches]
        assert found.after is None or found.after > after
        after = found.after
    return matches


@settings(max_examples=examples(100), deadline=None)
@given(
    batches=st.lists(st.lists(st.text("aAbé\r ſ語", max_size=6), min_size=1, max_size=5), min_size=1, max_size=8),
    state=st.sampled_from(STATES),
    wanted=st.text("aAbé s", min_size=1, max_size=2),
    ignore_case=st.booleans(),
    limit=st.integers(1, 4),
    is_pattern=st.booleans(),
    invert=st.booleans(),
)
def test_each_matching_line_is_returned_once_and_in_order(
    batches: list[list[str]],
    state: Callable[[World], None],
    wanted: str,
    ignore_case: bool,
    limit: int,
    is_pattern: bool,
    invert: bool,
) -> None:
    world = World()
    for batch in batches:
        append(world, "\n".join(batch) + "\n")
    state(world)
    lines = [line for batch in batches for line in batch]
    pattern = re.compile(re.escape(wanted), re.IGNORECASE if ignore_case and not wanted.isascii() else 0)
    folded = ignore_case and wanted.isascii()
    fits = [
        (number, line)
        for number, line in enumerate(lines)
        if bool(wanted.lower() in re.sub("[A-Z]", lambda at: at[0].lower(), line) if folded else pattern.search(line)) != invert
    ]
    if is_pattern and ignore_case:
        return  # regex folds a little more than bytes do
    assert find_all(world, wanted, ignore_case=ignore_case, limit=limit, is_pattern=is_pattern, invert=invert) == fits


def test_spans_in_a_line() -> None:
    world = World()
    append(world, "no\nan error, an Error\né error\n")
    assert [(each.line, each.spans) for each in find(world, "error").matches] == [(1, [(3, 8)]), (2, [(2, 7)])]
    assert find(world, "ERROR", ignore_case=True).matches[0].spans == [(3, 8), (13, 18)]
    assert find(world, r"\ban? (\w+)", is_pattern=True).matches[0].spans == [(0, 8), (10, 18)]
    assert find(world, "x*", is_pattern=True).matches[0].spans == []


@pytest.mark.parametrize(
    ("query", "is_pattern", "line"),
    [("error", False, "no"), ("error", True, "no"), ("s", False, "ſ"), ("a$", True, "a" * TEXT_CHARS + "b")],
    ids=["text", "pattern", "other folding of spans", "excerpt that matches"],
)
def test_line_without_a_match_has_no_spans(query: str, is_pattern: bool, line: str) -> None:
    world = World()
    append(world, f"an ERROR, as: A\n{line}\n")
    (other,) = find(world, query, is_pattern=is_pattern, ignore_case=True, invert=True).matches
    assert (other.line, other.text, other.spans) == (1, line[:TEXT_CHARS], [])


def test_excerpt_of_long_line_surrounds_first_match() -> None:
    world = World()
    append(world, "x" * 900_000 + "needle" + "y" * 100_000 + "\n" + "needle" + "z" * 5000 + "\n")
    far, near = find(world, "needle").matches
    assert len(far.text) == len(near.text) == TEXT_CHARS
    ((start, end),) = far.spans
    assert far.text[start:end] == "needle" and near.spans == [(0, 6)]


def test_next_request_continues_after_the_last_line() -> None:
    world = World()
    append(world, "a\nb\na\nb\na\n")
    found = find(world, "a", limit=2)
    assert ([each.line for each in found.matches], found.after, found.scanned_lines, found.total) == ([0, 2], 3, 3, 5)
    found = find(world, "a", after=3)
    assert ([each.line for each in found.matches], found.after, found.scanned_bytes) == ([4], None, 4)
    assert find(world, "a", after=99).after is None
    assert find(World(), "a") == GrepResult(0, 100)


@pytest.mark.behavior("A search request reads a bounded number of bytes and continues with a cursor.")
def test_bytes_and_time_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World()
    for _ in range(6):
        append(world, ("x" * 99 + "\n") * 20_000)
    monkeypatch.setattr(grep_module, "SCAN_BYTES", 3 * MIB)
    found = find(world, "needle")
    assert 3 * MIB <= found.scanned_bytes <= 8 * MIB and found.after == found.scanned_lines
    assert find_all(world, "needle") == []

    def slow(_: str, call: Callable[[], Any]) -> Any:
        world.clock.advance(2)
        return call()

    reader = world.parts(Intercepted(world.store, slow)).reader
    found = Grep(reader, world.clock).find(RUN, GrepRequest("needle"))
    assert found.after and found.scanned_lines == found.after


def test_matches_fit_an_answer() -> None:
    world = World()
    append(world, ("\x01" * 1999 + "a\n") * 3000)
    found = find(world, "a", limit=MAX_MATCHES)
    assert PAGE_BYTES * 0.9 < sum(len(each.text) * 7 for each in found.matches) < PAGE_BYTES * 1.1
    assert len(find_all(world, "a", limit=MAX_MATCHES)) == 3000


def test_requests_of_a_search() -> None:
    world = World()
    for _ in range(30):
        append(world, ("x" * 99 + "\n") * 10_000)
    world.parts().finalizer.close(RUN)
    world.parts().finalizer.compact_and_finalize(RUN, world.deadline())
    world.store.calls.clear()
    found = find(world, "needle")
    assert found.after is None and found.scanned_bytes == 30_000_000
    assert dict(world.store.calls) == {"get": 6}, "a GET for 5 MiB of a finished log"
    world.store.calls.clear()
    assert find(world, "needle", after=290_000).scanned_bytes == 1_000_000
    assert world.store.calls["get"] <= 2, "and none for what is before"


def test_search_continues_after_concurrent_compaction() -> None:
    world = World()
    for number in range(8):
        append(world, f"a {number}\n" * 100_000)
    torn = Counter[str]()

    def gate(operation: str, call: Callable[[], Any]) -> Any:
        torn[operation] += 1
        if operation == "get" and torn["get"] in (6, 14):
            raise PreconditionFailedError("it changed")
        return call()

    found = Grep(world.parts(Intercepted(world.store, gate)).reader, world.clock).find(RUN, GrepRequest("a 7", limit=5))
    assert [each.line for each in found.matches] == list(range(700_000, 700_005))

    def never(operation: str, call: Callable[[], Any]) -> Any:
        torn[operation] += 1
        if operation == "get" and torn["get"] % 3 == 0:  # the first two look for an artifact
            raise PreconditionFailedError("it changed")
        return call()

    torn.clear()
    with pytest.raises(StoreUnavailableError):
        Grep(world.parts(Intercepted(world.store, never)).reader, world.clock).find(RUN, GrepRequest("a"))


@pytest.mark.parametrize("wanted", ["", "x" * (MAX_PATTERN_CHARS + 1), "a\nb", "\ud800"])
def test_what_cannot_be_looked_for(wanted: str) -> None:
    with pytest.raises(InvalidInputError):
        matcher_of(wanted, is_pattern=False, ignore_case=False)


@pytest.mark.parametrize(
    "pattern",
    [
        "(", "[", "a**", r"\p{L}", "(?R)", "(?V1)a", "(?x) a # b", "(?#[)a", r"\L<x>", "(?L)a", "(?:a){e<=2}", "(?P<n>a)(?P<n>b)",
        "a{1001}", "((a?){1000}b?){1000}", "(((a{9}){9}){9}){9}", "[]((](((x?){99}y?){99}z?){99}", "a{99999999999999999999}", "\\",
    ],
)  # fmt: skip
def test_invalid_or_too_large_pattern(pattern: str) -> None:
    with pytest.raises(InvalidInputError):  # at once: compiling the largest of them would not end
        matcher_of(pattern, is_pattern=True, ignore_case=False)


@pytest.mark.parametrize(
    ("pattern", "line"),
    [
        (r"\d{4}-\d\d-\d\dT\d{2}:\d{2}", "at 2026-11-21T20:00:00Z"),
        (r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", "0f1e2d3c-0000-4000-8000-000000000001"),
        (r"^\[?(ERROR|WARN)\b.*(?<!ok)$", "[ERROR] no"),
        (r"\{\"id\":\s*\d+\}", '{"id": 7}'),
        (r"[]a-c{2}]+", "b]{"),
        (r"(?i)straße", "STRAßE"),
    ],
)
def test_common_patterns(pattern: str, line: str) -> None:
    world = World()
    append(world, f"other\n{line}\n")
    assert [each.line for each in find(world, pattern, is_pattern=True).matches] == [1]


def test_slow_pattern_is_rejected_with_its_line() -> None:
    world = World()
    append(world, "fine\n" + "a" * 40_000 + "b\n")
    with pytest.raises(InvalidInputError, match="line=1"):
        find(world, r"(a+)+$", is_pattern=True)


def test_pattern_search_ends_in_time() -> None:
    world = World()
    append(world, "a\n" * 1000)
    grep = Grep(world.parts().reader, world.clock)

    class Ticking:
        def __getattr__(self, name: str) -> Any:
            if name == "monotonic_s":
                world.clock.advance(0.1)
            return getattr(world.clock, name)

    grep = Grep(world.parts().reader, Ticking())  # type: ignore[arg-type]
    found = grep.find(RUN, GrepRequest("b", is_pattern=True))
    assert found.after and 20 < found.after == found.scanned_lines < 100


def test_bytes_that_are_no_utf8() -> None:
    world = World()
    world.parts().writer.append(RUN, Batch.from_bytes(b"\xff\xfe error\n\xffx\n"))
    assert find(world, "error").matches[0].spans == [(3, 8)]
    assert find(world, "x", is_pattern=True).matches[0].text == "\ufffdx"
