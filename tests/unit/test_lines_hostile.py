"""Parsing takes at most linear time in the length of a line, and bounded time for its head.

Compares processor times of one process with each other, never wall-clock times. Linear and quadratic growth, which differ by a factor of ten
(or a hundred), are separated at their geometric mean, in the best of some attempts. Work below a fifth of a millisecond is bounded enough,
and too short to compare.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from time import process_time_ns

import pytest

from chalicelib.lines.events import count_continuation_lines, events
from chalicelib.lines.formats import FORMATS, PLAIN, LogFormat
from chalicelib.lines.layout import HEAD_CHARS
from chalicelib.lines.layouts import DBT_CONSOLE
from chalicelib.lines.text import decode_line
from chalicelib.lines.timestamps import TimestampParser
from chalicelib.lines.workflow_summary import stated_end

FILLS = [
    *(" ", "[", "]", "(", ")", "{", "}", '"', "\\", "0", "a", "A", ":", "-", ".", "/", "$", "=", "<", "@", "\t", "|", ",", "é"),
    *("[]", "[[", "[a]", "[a] ", "a.", "a ", "a:", "a: ", "- ", " - ", "a - ", '\\"', '"a"', 'a="', "a=b ", 'a="b" ', "1:", "1 ", "(1)", "[a[b]"),
    *("2026-", "03:12:45 ", "INFO ", "| ", "a@1", "\x1b[", "\x1b[0;", "a.Error", "Caused by: "),
    *("\x1b]0;", "\x1bP", "\x1b[8mha:", "\r", "1\r"),
]  # fmt: skip
SHORT, LONG = HEAD_CHARS // 10, HEAD_CHARS
ATTEMPTS = 10
_ENOUGH_NS = 200_000


def spent_ns(work: Callable[[], object], least: int = 3) -> int:
    """The least of some runs: what the work takes when nobody disturbs it."""

    def once() -> int:
        started_ns = process_time_ns()
        work()
        return process_time_ns() - started_ns

    return min(once() for _ in range(least))


def grows_with_its_length(work: Callable[[str], object], line: Callable[[int], str]) -> bool:
    """Whether ten times the length takes nearer ten times as long than a hundred times."""
    short, long = line(SHORT), line(LONG)
    if spent_ns(partial(work, long), least=1) < _ENOUGH_NS:
        return True
    return any(spent_ns(partial(work, long)) < max(_ENOUGH_NS, 32 * spent_ns(partial(work, short))) for _ in range(ATTEMPTS))


def starts_of(each: LogFormat) -> Iterator[str]:
    """Beginnings of lines of a format, cut at any token border."""
    text = each.example
    yield from ("", text)
    yield from (text[:end] for end in range(1, len(text)) if not (text[end - 1].isalnum() and text[end].isalnum()))


@pytest.mark.parametrize("fill", ["1", "1 ", "1 error, ", " "])
@pytest.mark.parametrize("end", ["", " fail"])
def test_result_of_dbt_without_end(fill: str, end: str) -> None:
    read = DBT_CONSOLE.parse_with(TimestampParser())
    assert grows_with_its_length(read, lambda length: "02:00:04  Completed with " + fill * (length // len(fill)) + end)


def test_counts_of_openmetadatas_client_on_one_line() -> None:
    """Each further count doubles the time if a line can be parsed in two ways."""

    def text(count: int) -> str:
        return "hello\nstreamable_logger shutdown:\n" + "  a: b=1" * count + "\nbye\n"

    assert spent_ns(partial(stated_end, text(20)), least=1) < max(_ENOUGH_NS * 10, 32 * spent_ns(partial(stated_end, text(10))))


@pytest.mark.sampled(default=20)
@pytest.mark.slow
@pytest.mark.parametrize("each", FORMATS, ids=lambda each: each.name)
def test_a_line_that_goes_wrong_after_a_good_start(each: LogFormat) -> None:
    parse, times = (
        each.bind(TimestampParser()),
        4 if each.name == "json" else 1,
    )  # shorter objects that do not end are not looked at
    slow = [
        (start, fill)
        for start in starts_of(each)
        for fill in FILLS
        if not grows_with_its_length(parse, lambda size, start=start, fill=fill: start + fill * (times * size // len(fill)))  # type: ignore[misc]
    ]
    assert slow == []


@pytest.mark.sampled(default=1)
@pytest.mark.slow
@pytest.mark.parametrize("end", ["", "\0", ": ", "]", '"', ")"])
def test_a_line_that_nobody_knows(end: str) -> None:
    """Through all parsers, removal of colors, and grouping."""
    for chosen in (PLAIN, FORMATS[0]):

        def work(text: str, chosen: LogFormat = chosen) -> None:
            raw = text.encode()
            assert len(list(events([(0, b"x:"), (1, raw)], chosen))) <= 2
            count_continuation_lines([b"x:", raw], chosen)
            decode_line(raw)

        slow = [
            (start, fill)
            for start in (
                "",
                "2026-11-21 03:12:45",
                "[2026-11-21 03:12:45]",
                "Nov 21, 2026 3:12:45",
                "[1795230765.",
                "21.",
                "\x1b[0m",
                "{",
                ": ",
            )
            for fill in FILLS
            if not grows_with_its_length(work, lambda size, start=start, fill=fill: start + fill * (size // len(fill)) + end)  # type: ignore[misc]
        ]
        assert slow == []


@pytest.mark.parametrize("each", FORMATS, ids=lambda each: each.name)
def test_beyond_its_head_a_line_costs_what_its_length_is_worth(each: LogFormat) -> None:
    """A hundred times the length takes nearer a hundred times as long than ten thousand times."""
    parse = each.bind(TimestampParser())
    for fill in (" ", "[", "a", '"', "a.", "[a] "):
        line, long = (each.example[:-3] + fill * (size // len(fill)) for size in (LONG, 100 * LONG))
        assert any(
            spent_ns(partial(parse, long)) < max(_ENOUGH_NS, 1_000 * spent_ns(partial(parse, line))) for _ in range(ATTEMPTS)
        ), f"fill={fill!r}"


def test_many_lines_of_a_trace_without_its_end() -> None:
    """Each unindented line looks back for a trace, at most to the previous unindented line."""

    def log(lines: int) -> list[tuple[int, bytes]]:
        return list(
            enumerate([b"Traceback (most recent call last):", *[b"  x"] * (lines // 2), *[b"Caused by: x", b"  y"] * (lines // 4)])
        )

    def work(lines: list[tuple[int, bytes]]) -> None:
        assert sum(event.lines for event in events(lines)) == len(lines)

    short, long = log(2_000), log(20_000)
    assert any(spent_ns(partial(work, long)) < 32 * spent_ns(partial(work, short)) for _ in range(ATTEMPTS))
