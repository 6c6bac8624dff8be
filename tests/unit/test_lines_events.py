"""Grouping of lines into events: every byte belongs to one event, and events do not depend on where a reader starts."""

from __future__ import annotations

import tracemalloc
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from itertools import pairwise

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from chalicelib.lines import events as events_module
from chalicelib.lines.errors import count_errors
from chalicelib.lines.events import MAX_EVENT_BYTES, MAX_EVENT_LINES, LineEvent, count_continuation_lines, events
from chalicelib.lines.format_detection import detect_format
from chalicelib.lines.formats import FORMATS, PLAIN, LogFormat, format_named
from chalicelib.lines.parsed import ParsedLine
from chalicelib.lines.text import number_lines
from chalicelib.lines.time_search import first_and_last_ms
from chalicelib.lines.timestamps import TimestampParser

QUIET = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
HEADER = "2026-11-21 03:12:45,123 - orders - ERROR - failed"
OTHER_HEADER = "26/11/21 03:12:45 INFO Executor: x"
OTHER_ERROR = "26/11/21 03:12:45 ERROR Executor: x"
TRACE = 'Traceback (most recent call last):\n  File "a.py", line 1, in <module>\n    foo()\nValueError: x'


def events_of(text: str, name: str = "plain") -> list[LineEvent]:
    return list(events(enumerate(text.encode().split(b"\n")), format_named(name)))


def texts_of(text: str, name: str = "plain") -> list[str]:
    return [event.raw.decode() for event in events_of(text, name)]


# Lines of one event.

ONE_EVENT = [
    f"{HEADER}\n{TRACE}",
    f"{HEADER} Traceback (most recent call last):\n  File\nValueError: x",
    f"{HEADER}\n{TRACE}\n\nDuring handling of the above exception, another exception occurred:\n\n{TRACE}",
    f"{HEADER}\n{TRACE}\n\nThe above exception was the direct cause of the following exception:\n\n{TRACE}",
    f"{HEADER}\n{TRACE}\n",
    f"{HEADER}\n{TRACE}\n\n\n   \n",
    f"{HEADER}\n  + Exception Group Traceback (most recent call last):\n  |   File\n  | ExceptionGroup: x (1 sub-exception)\n  +-+---- 1 ----",
    TRACE,
    'Traceback (most recent call last):\n  File "a.py", line 1\n    raise E(\n\n\n    )\npackage.module.WithoutItsName',
    f'{HEADER}\nmultiprocessing.pool.RemoteTraceback: \n"""\n{TRACE}\n"""\n\nThe above exception was the direct cause of the following exception:\n\n{TRACE}',  # noqa: E501
    f"{HEADER}\n{TRACE}\n[SQL: SELECT 1]\n[parameters: {{}}]\n(Background on this error at: https://sqlalche.me/e/20/e3q8)",
    f"{OTHER_ERROR}\njava.lang.RuntimeException: boom\n\tat a.b.C.d(C.java:12)\n\t... 3 more\nCaused by: java.io.IOException: x\n\tat x.Y.z(Y.java)\n\t... 12 more",  # noqa: E501
    f"{OTHER_ERROR}\njava.lang.OutOfMemoryError\n\tat a.b.C.d(C.java:12)\n\tSuppressed: a.b.E: x\n\t\tat a.B.c(D.java:1)",
    f"{OTHER_ERROR}\norg.apache.spark.SparkException: Job aborted\n\tat a.B.c(D.scala:1)\n\nDriver stacktrace:\n\tat a.B.c(D.scala:1)",
    'Exception in thread "main" java.lang.IllegalStateException: bad\n\tat a.b.C.d(C.java:12)',
    f"{HEADER}\n{TRACE}\npy4j.protocol.Py4JJavaError: An error occurred while calling o45.collect.\n: org.apache.spark.SparkException: x\n\tat a.B.c(D.scala:1)\nCaused by: org.apache.spark.api.python.PythonException: {TRACE}\n\n\tat a.B.c(D.scala:1)",  # noqa: E501
    '{\n  "a": 1,\n  "b": [\n    1\n  ]\n}',
    '[\n  {\n    "a": 1\n  }\n]',
    f'{HEADER}:\n{{\n  "a": 1\n}}',
    "Config:\n[\n  1\n]",
    "app.py:12: UserWarning: careful\n  warnings.warn(",
    "a list:\n  one\n\ttwo\n \n\nwith blanks".removesuffix("\nwith blanks"),
    " 10%|#         |\n\r 20%|##        |",
    "   indented from the start\n  and on",
    "Nov 21, 2026 3:12:45 AM com.example.Orders load\nINFO: 42 rows\n  more",
    f"Nov 21, 2026 12:12:45 PM Main <init>\nSEVERE: no rows\n{TRACE}",
    "one line",
]


@pytest.mark.parametrize("text", ONE_EVENT, ids=range(len(ONE_EVENT)))
@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_lines_of_one_event(text: str, end: str) -> None:
    """Between two others, with either line end."""
    text = text.replace("\n", end)
    before, after = f"hello{end.rstrip(chr(10))}", f"{OTHER_HEADER}{end.rstrip(chr(10))}"
    if text[0] in " \r":
        assert texts_of(f"{text}{end}{after}") == [text + end[:-1], after]
    else:
        assert texts_of(f"{before}\n{text}{end}{after}") == [before, text + end[:-1], after]


MANY_EVENTS = [
    ["one", "two", "three"],
    [HEADER, HEADER, OTHER_HEADER],
    [f"{HEADER}\n{TRACE}", "hello", f"{HEADER}\n{TRACE}", HEADER],
    [f"{HEADER}\n{TRACE}", "ValueError: of somebody else"],
    [f'{HEADER}\nTraceback (most recent call last):\n  File "a.py"', OTHER_HEADER, "ValueError: x"],
    ['{\n  "a": 1\n}', '{\n  "a": 2\n}', "x"],
    [HEADER, '{\n  "a": 1\n}'],
    ["Nov 21, 2026 3:12:45 AM a.B c", "Nov 21, 2026 3:12:45 AM a.B c\nINFO: x", "INFO: y", HEADER, "SEVERE: x"],
    ["Nov 21, 2026 3:12:45 AM a.B c", "ERROR: of another program", "Nov 21, 2026 3:12:45 AM a.B c", "[INFO] x"],
    ["Config: {x}", "{\n  1\n}"],
    ["java.util.List is a class", "the java.lang.RuntimeException: was", "Error: no dots"],
    ["a", 'Exception in thread "main" java.lang.Error\n\tat a.B.c(D.java)'],
    ['{"msg": "a"}\n  and an indented line', '{"msg": "b"}'],
]


@pytest.mark.parametrize("texts", MANY_EVENTS, ids=range(len(MANY_EVENTS)))
def test_lines_of_several_events(texts: list[str]) -> None:
    assert texts_of("\n".join(texts)) == texts


STACK = "java.lang.IllegalStateException: bad\n\tat a.b.C.d(C.java:12)\n\t... 3 more\nCaused by: java.io.IOException: x\n\tat x.Y.z(Y.java)"
CHAIN = f"{TRACE}\n\nDuring handling of the above exception, another exception occurred:\n\n{TRACE}"
TRACES = [
    TRACE, CHAIN, STACK, f'Exception in thread "main" {STACK}', STACK[STACK.index("Caused") :], "a.b.Failed: x\n\tat a.B.c(D.java:1)",
    "  + Exception Group Traceback (most recent call last):\n  |   File\n  | ExceptionGroup: x (1 sub-exception)",
]  # fmt: skip


@pytest.mark.parametrize("trace", TRACES, ids=range(len(TRACES)))
@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_level_of_a_trace(trace: str, end: str) -> None:
    """A separate error after a record below ERROR, and part of the event of an error."""

    def found(text: str) -> list[tuple[str, str | None]]:
        return [(event.raw.decode().replace("\r", ""), event.parsed.level) for event in events_of(text.replace("\n", end))]

    error = (trace, "ERROR")
    for level in ("DEBUG", "INFO", "WARNING"):
        header = HEADER.replace("ERROR", level)
        assert found(f"{header}\n  goes on\n{trace}\n{header}") == [(f"{header}\n  goes on", level), error, (header, level)]
    assert found(f"said\n{trace}\n{OTHER_HEADER}") == [("said", None), error, (OTHER_HEADER, "INFO")]
    if "Caused" in trace or not trace.startswith("a."):
        assert found(f"{HEADER}\n{trace}\n{OTHER_HEADER}") == [(f"{HEADER}\n{trace}", "ERROR"), (OTHER_HEADER, "INFO")]


@pytest.mark.parametrize(
    "text",
    [
        "java.lang.IllegalStateException: bad",
        "Caused by: a user",
        "a.b.Load: 3 rows\n  x",
        "\tat a.B.c(D.java:1)\nCaused by: a.b.E: x\n\tat a.B.c(D.java:2)",
    ],
)
def test_lines_that_only_look_like_a_trace(text: str) -> None:
    assert [event.parsed.level for event in events_of(f"{OTHER_HEADER}\n{text}")] in (["INFO"], ["INFO", None])


def test_trace_behind_missing_lines_has_its_own_number() -> None:
    lines = [(3, b"hello"), (4, b"  more"), (9, b"a.b.Error: x"), (12, b"\tat a.B.c(D.java:1)")]
    assert [(event.line, event.lines) for event in events(lines)] == [(3, 2), (9, 2)]


def test_parsed_columns_of_events() -> None:
    first, second, third = events_of(f"{HEADER}\r\n{TRACE}\r\n\r\nhello\n{OTHER_HEADER}".replace("\nV", "\r\nV"), "python")
    time_us = int(datetime(2026, 11, 21, 3, 12, 45, tzinfo=UTC).timestamp()) * 1_000_000
    assert (first.line, first.lines, first.next_line) == (0, 6, 6)
    assert first.parsed == ParsedLine(time_us + 123_000, "ERROR", "orders", f"failed\n{TRACE}")
    assert second == LineEvent(6, b"hello", 1, ParsedLine(None, None, None, "hello"))
    assert third == LineEvent(7, OTHER_HEADER.encode(), 1, ParsedLine(time_us, "INFO", "Executor", "x"))


def test_record_on_two_lines_has_the_columns_of_both() -> None:
    for hour, half in ((12, "AM"), (3, "AM"), (12, "PM"), (3, "PM")):
        moment = datetime.strptime(f"2026-11-07 {hour} {half}", "%Y-%m-%d %I %p").replace(tzinfo=UTC)
        for source, logger in (
            ("com.example.Orders load", "com.example.Orders"),
            ("Main main", "Main"),
            ("com.example", "com.example"),
        ):
            (event,) = events_of(f"Nov 07, 2026 {hour}:00:00 {half} {source}\nSEVERE: no rows\njava.lang.Error: x")
            message = "no rows\njava.lang.Error: x"
            assert event.parsed == ParsedLine(int(moment.timestamp()) * 1_000_000, "ERROR", logger, message)


def test_pretty_printed_object_is_parsed_like_one_on_a_line() -> None:
    (event,) = events_of('{\n  "level": "warn",\n  "msg": "slow",\n  "logger": "a"\n}\n')
    assert event.parsed == ParsedLine(None, "WARNING", "a", "slow")
    (event,) = events_of('{\n  "a": 1\n}')
    assert event.parsed == ParsedLine(None, None, None, '{\n  "a": 1\n}')
    (event,) = events_of('{\n  "level": "warn"')
    assert event.parsed.level is None


@pytest.mark.parametrize("before", ["50%|#  | 1/2\r", "  0%|  | 0/2\r", "\r", "\r \r"])
def test_record_behind_a_progress_bar_begins_an_event(before: str) -> None:
    lines = [before + HEADER, "  more", before + HEADER]
    assert [(event.lines, event.parsed.level) for event in events_of("\n".join(lines))] == [(2, "ERROR"), (1, "ERROR")]
    body = "\n".join([" 10%\r 20%", *lines]).encode()
    time_ms = int(datetime(2026, 11, 21, 3, 12, 45, 123_000, tzinfo=UTC).timestamp() * 1000)
    assert (count_errors(body), first_and_last_ms(body, time_ms)) == (2, (time_ms, time_ms))


def test_colours_are_in_the_bytes_and_not_in_the_text() -> None:
    (event,) = events_of("\x1b[32mINFO\x1b[0m:a:\x1b[1mbold\x1b[0m\n  \x1b[31mred\x1b[0m", "python-default")
    assert event.parsed == ParsedLine(None, "INFO", "a", "bold\n  red")
    assert event.raw.count(b"\x1b") == 6


@pytest.mark.parametrize("raw", [b"\xff\xfe", b"a\0b", b"caf\xe9 \xc3", b"\xed\xa0\x80", "é😀".encode()])
def test_bytes_of_any_kind(raw: bytes) -> None:
    (event,) = events([(7, raw)])
    assert (event.line, event.raw) == (7, raw)
    assert event.parsed == ParsedLine(None, None, None, raw.decode(errors="replace"))


def test_empty_log() -> None:
    assert list(events([])) == []
    assert list(events([(0, b"")])) == [LineEvent(0, b"", 1, ParsedLine(None, None, None, ""))]
    assert texts_of("\n\n\na") == ["\n\n", "a"]


# Bounds.


def test_an_event_ends_at_so_many_lines() -> None:
    found = events_of("\n".join([HEADER, *["  x"] * (2 * MAX_EVENT_LINES)]))
    assert [event.lines for event in found] == [MAX_EVENT_LINES, MAX_EVENT_LINES, 1]
    assert [event.parsed.level for event in found] == ["ERROR", None, None]


def test_an_event_ends_at_so_many_bytes() -> None:
    found = events_of("\n".join(["x", *["  " + "y" * 100_000] * 30]))
    assert [event.lines for event in found] == [11, 10, 10]
    assert all(MAX_EVENT_BYTES - 110_000 < len(event.raw) <= MAX_EVENT_BYTES for event in found)


def test_exactly_so_many_bytes_still_fit() -> None:
    half = MAX_EVENT_BYTES // 2
    assert [event.lines for event in events_of("x" * half + "\n " + "y" * (half - 2))] == [2]
    assert [event.lines for event in events_of("x" * half + "\n " + "y" * (half - 1))] == [1, 1]


@pytest.mark.sampled(default=12)
@pytest.mark.parametrize("name", ["plain", "json", "logfmt", "access", "openmetadata", "syslog"])
@pytest.mark.parametrize("kind", ["x", " ", "[", "{", '"', "\xff", "a=b ", "\x1b["])
def test_a_line_of_20_mb(name: str, kind: str) -> None:
    raw = (kind * (20_000_000 // len(kind))).encode("latin-1")
    found = list(events(enumerate([b"a", raw, b" b", b"c"]), format_named(name)))
    assert [event.raw for event in found] == [b"a", raw, b" b", b"c"]


@pytest.mark.slow
def test_a_long_line_of_a_format_is_read() -> None:
    for each in FORMATS:
        line = each.example.encode() + b" x" * 10_000_000
        (event,) = events([(0, line)], each)
        assert event.raw is line
        assert each.name == "json" or event.parsed.level == next(events([(0, each.example.encode())], each)).parsed.level


def test_memory_is_that_of_one_event() -> None:
    """A log of 60 MB in which all lines continue one event."""

    def lines() -> Iterator[tuple[int, bytes]]:
        for number in range(600):
            yield number, b"  " + bytes([65 + number % 26]) * 100_000

    tracemalloc.start()
    try:
        total = sum(len(event.raw) for event in events(lines()))
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert total > 60_000_000
    assert peak < 12 * MAX_EVENT_BYTES


# Every byte, and the same events from every border.

PIECES = st.sampled_from([
    HEADER.encode(), OTHER_HEADER.encode(), *TRACE.encode().split(b"\n"), *(each.example.encode() for each in FORMATS[::6]),
    b"", b" ", b"\t", b"\r", b"  x", b"\tat a.B.c(D.java:1)", b"\t... 3 more", b"hello", b"Config:", b"{", b"}", b"[", b"],", b'  "a": 1',
    b'{"msg": "x"}', b"level=info msg=x", b"INFO:a:b", b"[INFO] x", b"java.lang.RuntimeException: boom", b"Caused by: x", b'"""', b": a.B: x",
    b"During handling of the above exception, another exception occurred:", b"x Traceback (most recent call last):", b"\xff\xfe", b"\0",
    b"Nov 21, 2026 3:12:45 AM a.B c", b"Nov 21, 2026 3:12:45 AM B", b"SEVERE: x", b"INFO: x",
    b"  Traceback (most recent call last):", b"\x1b[0m", b"\x1b[0m  x", b"\xef\xbb\xbfINFO:a:b", b"\xef\xbb\xbf", b"a.b.Error",
    b"  50%|# |\r" + HEADER.encode(), b"\r" + OTHER_HEADER.encode(),
])  # fmt: skip
LINE = st.tuples(PIECES, st.sampled_from([b"", b"", b"", b"\r"])).map(b"".join) | st.binary(max_size=8).map(
    lambda raw: raw.replace(b"\n", b"")
)
LINES = st.lists(LINE, max_size=30)
CHOSEN = st.sampled_from([PLAIN, *FORMATS])
CLOCK = TimestampParser(reference_us=1_800_000_000_000_000)


def some(lines: Iterable[tuple[int, bytes]], chosen: LogFormat, *, final: bool = True) -> list[LineEvent]:
    return list(events(lines, chosen, CLOCK, final=final))


@contextmanager
def bounds(lines: int, size: int) -> Iterator[None]:
    """Small events, for a moment."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(events_module, "MAX_EVENT_LINES", lines)
        patch.setattr(events_module, "MAX_EVENT_BYTES", size)
        yield


@QUIET
@given(st.binary() | LINES.map(b"\n".join), CHOSEN)
@example(b"a\n", PLAIN)
@example(b"a\r\nb", PLAIN)
@example(b"\n\n", PLAIN)
@example(b"", PLAIN)
def test_raw_bytes_are_the_logs(log: bytes, chosen: LogFormat) -> None:
    lines = log.split(b"\n")
    found = some(enumerate(lines), chosen)
    assert b"\n".join(event.raw for event in found) == log
    assert [event.line for event in found] == [0, *(event.next_line for event in found)][:-1]
    assert sum(event.lines for event in found) == len(lines)
    for event in found:
        assert event.raw.count(b"\n") + 1 == event.lines
        assert event.parsed.message.encode() is not None
    assert some(enumerate(lines), chosen) == found


@QUIET
@given(LINES, CHOSEN, st.integers(1, 10), st.integers(1, 100))
def test_from_every_border_the_rest_is_the_same(lines: list[bytes], chosen: LogFormat, max_lines: int, max_bytes: int) -> None:
    with bounds(max_lines, max_bytes):
        numbered = list(enumerate(lines))
        whole = some(numbered, chosen)
        for number, event in enumerate(whole):
            assert some(numbered[event.line :], chosen) == whole[number:]
            assert some(numbered[: event.next_line], chosen) == whole[: number + 1]


@QUIET
@given(LINES, CHOSEN, st.lists(st.integers(0, 8), max_size=10), st.integers(1, 10))
def test_a_log_that_grows_gives_the_same_events(lines: list[bytes], chosen: LogFormat, steps: list[int], max_lines: int) -> None:
    with bounds(max_lines, 1000):
        numbered = list(enumerate(lines))
        position, end = 0, 0
        found: list[LineEvent] = []
        for step in steps:
            end += step
            found += some(numbered[position:end], chosen, final=False)
            position = found[-1].next_line if found else 0
        found += some(numbered[position:], chosen)
        assert found == some(numbered, chosen)


@QUIET
@given(LINES, CHOSEN, st.integers(0, 30), st.integers(1, 10), st.integers(1, 100))
@example([HEADER.encode(), *TRACE.encode().split(b"\n"), b"hello", b"world"], PLAIN, 4, 10, 1000)
@example([b"Config:", b"{", b" x", b"}", b"a", b"b"], PLAIN, 1, 10, 1000)
def test_reader_in_the_middle_skips_continuation_lines(
    lines: list[bytes], chosen: LogFormat, cut: int, max_lines: int, max_bytes: int
) -> None:
    with bounds(max_lines, max_bytes):
        cut = min(cut, len(lines))
        numbered = list(enumerate(lines))
        border = cut + count_continuation_lines(lines[cut:], chosen, CLOCK)
        left, right = some(numbered[:border], chosen), some(numbered[border:], chosen)
        assert left + right == some(numbered, chosen)


@QUIET
@given(st.binary() | LINES.map(b"\n".join), st.lists(st.integers(0, 200)), st.integers(0, 10**12))
@example(b"a\nb", [1, 1], 5)
@example(b"\n", [0, 0, 1], 0)
@example(b"", [], 0)
def test_a_log_in_pieces_of_any_size_has_the_same_lines(log: bytes, cuts: list[int], first: int) -> None:
    ends = sorted(cuts)
    chunks = [log[begin:end] for begin, end in pairwise([0, *ends, len(log)])]
    found = list(number_lines(chunks, first))
    assert [number for number, _ in found] == list(range(first, first + len(found)))
    assert len(found) == log.count(b"\n") + (not log.endswith(b"\n") and log != b"")
    assert b"\n".join(line for _, line in found) + (b"\n" if log.endswith(b"\n") else b"") == log


def test_a_long_line_in_small_pieces_is_put_together_once() -> None:
    ((number, line),) = number_lines([b"x" * 100] * 200_000)
    assert (number, len(line)) == (0, 20_000_000)


@QUIET
@given(st.lists(st.lists(LINE, min_size=1, max_size=6), max_size=6), CHOSEN)
def test_any_partition_of_a_log_gives_the_same_events(segments: list[list[bytes]], chosen: LogFormat) -> None:
    """Like readers of partitions: each skips its continuation lines, and reads until the next reader's first event."""
    lines = [line for segment in segments for line in segment]
    starts = [sum(len(segment) for segment in segments[:number]) for number in range(len(segments))]
    borders = [0 if start == 0 else start + count_continuation_lines(lines[start:], chosen, CLOCK) for start in starts] + [
        len(lines)
    ]
    numbered = list(enumerate(lines))
    found = [event for first, last in pairwise(borders) for event in some(numbered[first:last], chosen)]
    assert found == some(numbered, chosen)


def test_most_lines_are_no_continuation() -> None:
    log = [HEADER.encode(), b"hello", b"world", OTHER_HEADER.encode()]
    assert [count_continuation_lines(log[start:], detect_format(log)) for start in range(4)] == [0, 1, 1, 0]
    assert count_continuation_lines([], PLAIN) == 0


def test_count_of_continuation_lines_reads_one_line_more() -> None:
    lines = iter([b"  x", b"  y", HEADER.encode(), b"next"])
    assert count_continuation_lines(lines) == 2
    assert next(lines) == b"next"
