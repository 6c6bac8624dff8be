"""The columnar parser has the events of the row parser, in every column, for any text cut into any blocks of lines."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Sequence
from datetime import UTC, timedelta, timezone, tzinfo
from itertools import pairwise, product
from unittest.mock import patch
from zoneinfo import ZoneInfo

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from chalicelib.lines.events import MAX_EVENT_BYTES, MAX_EVENT_LINES, events
from chalicelib.lines.formats import FORMATS, PLAIN, LogFormat, format_named
from chalicelib.lines.layout import HEAD_CHARS
from chalicelib.lines.text import number_lines
from chalicelib.lines.timestamps import TimestampParser
from glue_jobs.columnar import json_lines, printed
from glue_jobs.columnar.columns import EventColumns
from glue_jobs.columnar.matchers import matcher_of
from glue_jobs.columnar.outlines import OutlineParser
from glue_jobs.columnar.parser import ColumnarParser
from glue_jobs.columnar.patterns import UntranslatableError, translated
from tests.sampling import examples

Columns = tuple[int, int, int | None, str | None, str | None, str, bytes]
"""First line, line behind the last, time, level, logger, message, bytes with newlines."""
BY_ROWS = {"logfmt", "kafka", "access", "java-util-logging", "squid"}
"""Formats without a matcher. A pattern that leaves the others makes reads of its logs many times slower."""
ERROR = b"2026-11-21 03:12:45,123 - orders.load - ERROR - failed"
INFO = b"2026-11-21 03:12:45 - orders - INFO - 42 rows"
TRACE = b'Traceback (most recent call last):\n  File "a.py", line 1\n    foo()\nValueError: x'


def rows_of(body: bytes, format: LogFormat, clock: TimestampParser) -> list[Columns]:
    lines = list(number_lines([body]))
    unfinished = len(lines) if body.endswith(b"\n") else len(lines) - 1
    return [
        (event.line, event.next_line, *event.parsed, event.raw + b"\n" * (event.next_line <= unfinished))
        for event in events(lines, format, clock)
    ]


def columns_of(columns: EventColumns, first_line: int = 0, places: Sequence[int] | None = None) -> list[Columns]:
    chosen = np.arange(len(columns)) if places is None else np.array(places, np.int64)
    texts = (columns.levels(chosen), columns.loggers(chosen), columns.messages(chosen), columns.raws(chosen))
    for array in texts:
        array.validate(full=True)
    times = columns.timestamps(chosen).cast("int64").to_pylist()
    numbers = ((each[chosen] + first_line).tolist() for each in (columns.line, columns.end_line))
    return list(zip(*numbers, times, *(array.to_pylist() for array in texts), strict=True))


def parsed(blocks: Iterable[bytes], format: LogFormat, clock: TimestampParser, least_bytes: int = 0) -> list[Columns]:
    line, rows = 0, []
    for columns in ColumnarParser(format, clock).parse_blocks(blocks, least_bytes):
        rows += columns_of(columns, line)
        line += columns.line_count
    return rows


def outlined(
    blocks: Iterable[bytes], format: LogFormat, clock: TimestampParser, least_bytes: int = 0
) -> list[tuple[int, int, bytes]]:
    line, rows = 0, []
    for columns in OutlineParser(lambda: format, clock).parse_blocks(blocks, least_bytes):
        raws = columns.raws(np.arange(len(columns))).to_pylist()
        rows += list(zip((columns.line + line).tolist(), (columns.end_line + line).tolist(), raws, strict=True))
        line += columns.line_count
    return rows


SECONDS = [
    *("2026-11-21 03:12:45", "2026/11/21T03:12:45", "0000-01-01 00:00:00", "0001-01-01 00:00:00", "9999-12-31 23:59:59", "9999-12-31 23:59:60"),
    *("2024-02-29 12:00:00", "2026-02-29 12:00:00", "2026-00-10 00:00:00", "2026-13-01 00:00:00", "2026-04-31 24:00:00", "2026-01-01 00:60:00"),
    *("2026-06-30 23:59:60", "2026-06-30 23:59:61", "2026-03-29 02:30:00", "2026-10-25 02:30:00", "2026-04-05 01:45:00", "1890-04-01 00:00:00"),
    *("2026-10-04 02:15:00", "2026-10-04 02:45:00", "2026-10-25 02:59:60", "2026-04-05 01:59:60"),
    *("26/11/21 03:12:45", "69/01/01 00:00:00", "68/12/31 23:59:59", "00/02/29 00:00:00", "261121 031245", "2026-11-21 3:12:45", "2026-11-21"),
    *("Nov 21 03:12:45", "Dec  1 23:59:60", "Feb 29 12:00:00", "Nov 21 25:00:00", "03:12:45", "23:59:59", "24:00:00", "1121 03:12:45"),
    *("20261121 03:12:45", "Nov 21 03:12:45.123456 2026", "Nov 21 03:12:45 0000"),
    *("2026.11.21 03:12:45", "2026-11-21  3:12:45", "2026-11-21, 03:12:45", "2026-11-21,  3:12:45", "2026-11- 7_03:12:45", "2026-02-30, 03:12:45"),
    *("2026-1-7 3:12:45", "Nov 7 03:12:45", "Nov 21 2026 03:12:45", "21/Nov/2026:03:12:45", "2026-10-25, 02:30:00", "11/21/2026 3:12:45"),
]  # fmt: skip
FRACTIONS = ["", ",123", ".1", ".123456", ",123456789", ".1234567890", ".", ",x", ":123", ":"]
ZONES = [
    "",
    "Z",
    "+01",
    "-0130",
    "+05:45",
    "+24:00",
    "-00:60",
    " +0100",
    " -01:00",
    " +01",
    " UTC",
    " GMT",
    " EST",
    "+1",
    " + ",
    "Z+01",
    *("z", " Z", " +03", " -12", " +15", "+01[", "Z[UTC]", "+02:00[Europe/Berlin]", " +0100 (CET)", " +0000 UTC", " -0500 XST"),
    *(
        " CEST",
        " CET",
        " IST",
        " ACDT",
        " LHDT",
        " WITA",
        " XST",
        " ALERT",
        " ESTA",
        " CET-x",
        " CETx",
        " (UTC)",
        " (x)",
        " GMT+2",
        " UTC-0330",
    ),
    *(" Europe/Berlin", " America/New_York", " Europe/Nowhere", " AM", " PM", "pm", " am CET", " PM +0100", " AMx", " Input a/b"),
]
TAILS = [each.example for each in FORMATS] + [
    "2026-11-21 03:12:45,123 - MainThread - orders.load - INFO - 42 rows",
    " INFO x",
    "INFO",
    " - INFO - ",
    "]",
    " ",
    "",
]
_TIME = re.compile(
    r"(?:[0-9]{2,4}[-/]?[0-9]{2}[-/]?[0-9]{2}[T ][0-9:]{6,8}|(?:Nov 21 |1121 )?03:12:45)(?:[.,][0-9]+)?(?:Z|[+-][0-9:]+| UTC| 2026)?"
)
SPOILS = [
    b"",
    b"",
    b"",
    b"\r",
    b"\x00",
    b"\xff",
    "é ☃".encode(),
    b"\x1b[31m",
    b"\xc3",
    b"\v",
    b"\t",
    b" ",
    b"\r\r",
    b"x" * HEAD_CHARS,
]
OTHERS = [
    *TRACE.split(b"\n"),
    *(b"", b" ", b"\t", b"\r", b" indented", b"\tat a.b.C.d(C.java:12)", b"\t... 3 more", b"Caused by: a.b.Error: x", b"a.b.Error: x"),
    *(b"{", b"}", b"Config:", b"[", b"[SQL: x", b"(", b'{"a"', b"Driver stacktrace:", b"Thematic", b"Exception in thread x", b"x" * 40 + b".Error:"),
    *(b"Nov 21, 2026 3:12:45 AM a.B load", b"SEVERE: x", b"INFO: x", b"Nov 21, 2026 12:12:45 PM a.B", b"2026-1-7 3:12:45 PM CET INFO x"),
    *(b'  "a": 1,', b"  + Exception Group Traceback (most recent call last):", b"  + x", b"Traceback (most recent call last):\r", b"(x", b'"""'),
    *(b" Traceback (most recent call last):", b"During handling of the above exception, another exception occurred:", b"\xef\xbb\xbfx", b"\xff\xfe"),
    *(b'{"level":"error","message":"a\\ud800","logger":"x"}', b"level=info msg=x", b"ERROR: x", b"\x1b[0m" + ERROR, b"\xef\xbb\xbf" + INFO),
    *(b"  50%|#  | 1/2\r" + ERROR, b"\r" + INFO),
]  # fmt: skip

MISLEADING = [
    *(INFO.replace(b"INFO", b"NONE"), INFO.replace(b"orders", b"items"), INFO + b"\x1b[0m", INFO + b"\xff", b"\xef\xbb\xbf" + INFO),
    *(INFO + b"\r", b"  x"),
    *(INFO, b"  x\r", b"  y", b"\x1b[0m" + INFO, b"  + Exception Group Traceback (most recent call last):", b"  | x"),
    *(ERROR, b"[SQL: x", b"[parameters: x", b"(x:", b"{\v", b"x" * 40 + b".Error:", b"Driver stacktrace:", b"Wrapped by: x", b"Caused by: x"),
    *(b"During handling of the above exception, another exception occurred:", b"Exception in thread x", INFO, b"Exception in thread x"),
    *(ERROR, b"The above exception was the direct cause of the following exception:"),
    *(b'"""', b"Traceback (most recent call last):\r", b"  y", b"ValueError: x", b"z"),
]  # fmt: skip
"""Each of these, or a few in a row, is nearly another line."""


FORMAT = st.sampled_from([*(each for each in FORMATS if each.name not in BY_ROWS)] * 3 + [*FORMATS, PLAIN])
ZONE: st.SearchStrategy[tzinfo] = st.sampled_from(
    [UTC, UTC, timezone(timedelta(hours=5, minutes=30)), *map(ZoneInfo, ("Europe/Berlin", "Australia/Lord_Howe", "Etc/UTC"))]
)


@st.composite
def dated(draw: st.DrawFn, texts: Sequence[str]) -> bytes:
    """A line of a format, with another time and level."""
    text = draw(st.sampled_from(texts)).replace("INFO", draw(st.sampled_from(["INFO", "INFO", "ERROR", "WARN", "NONE"])))
    if draw(st.booleans()):
        time = draw(st.sampled_from(SECONDS)) + draw(st.sampled_from(FRACTIONS)) + draw(st.sampled_from(ZONES))
        text = _TIME.sub(lambda old: time, text, count=1)
    return text.encode()


@st.composite
def spoiled(draw: st.DrawFn, texts: Sequence[str]) -> bytes:
    """A line that was changed or cut anywhere."""
    raw = draw(st.one_of(st.sampled_from(OTHERS), st.sampled_from([ERROR, INFO]), dated(texts), st.binary(max_size=12)))
    spoil, at = draw(st.sampled_from(SPOILS)), draw(st.integers(0, len(raw)))
    end = draw(st.sampled_from([len(raw), at]))
    return (raw[:at] + spoil + raw[at:end]).replace(b"\n", b" ")


@st.composite
def logs(draw: st.DrawFn) -> tuple[LogFormat, list[bytes]]:
    """Most lines are of the format; records of several lines, lines of other formats, damaged lines."""
    format = draw(FORMAT)
    own, other = dated([format.example]), st.sampled_from(OTHERS)
    return format, draw(
        st.lists(st.one_of(own, own, own, other, other, dated(TAILS), spoiled([format.example, *TAILS])), max_size=25)
    )


@given(
    logs(),
    st.sampled_from([b"\n", b"\n", b"\r\n"]),
    st.booleans(),
    ZONE,
    st.lists(st.integers(0, 25), max_size=5),
    st.sampled_from([0, 100]),
)
@example((format_named("python"), [ERROR, *TRACE.split(b"\n"), INFO, *TRACE.split(b"\n")]), b"\n", True, UTC, [], 0)
@example((format_named("python"), [ERROR, b"", b" x", b"", b"", INFO, b"", INFO]), b"\n", False, UTC, [1, 2, 3], 0)
@example(
    (
        format_named("python"),
        [ERROR, b"Config:", b"x", ERROR, b"  x", b"(x", ERROR, b"Traceback (most recent call last):", b"(x", b"(y"],
    ),
    b"\n",
    True,
    UTC,
    [],
    0,
)
@example((format_named("python"), [ERROR, b"a.b.Error: x", INFO]), b"\n", True, UTC, [], 0)
@example((format_named("python"), MISLEADING), b"\n", True, UTC, [], 0)
@example((format_named("iso"), [b"2026-11-21 03:12:45,123 x", b"2026-11-21 03:12:45,5    x", INFO]), b"\n", True, UTC, [], 0)
@example((PLAIN, MISLEADING), b"\n", True, UTC, [], 0)
@example((format_named("apache-error"), [b"[Sat Nov 21 03:12:45.1 2026] [:error] x"]), b"\n", True, UTC, [], 0)
@example((format_named("level"), [b"2026-11-21 03:12:45 INFO"]), b"\r\n", True, UTC, [], 0)
@settings(max_examples=examples(600, 5000), suppress_health_check=[HealthCheck.too_slow])
def test_columns_equal_rows(
    log: tuple[LogFormat, list[bytes]], newline: bytes, is_ended: bool, zone: tzinfo, cuts: list[int], least_bytes: int
) -> None:
    format, lines = log
    body = newline.join(lines) + (newline if is_ended else b"")
    clock = TimestampParser(zone, 1_795_000_000_000_000)
    split = re.findall(rb"[^\n]*\n|[^\n]+\Z", body)
    borders = [0, *sorted(cuts), len(body)]
    blocks = [b"".join(split[first:end]) for first, end in pairwise(borders)]
    rows = rows_of(body, format, clock)
    with patch.object(json_lines, "_FEW_LINES", 1):
        assert parsed(blocks, format, clock, least_bytes) == rows
    assert outlined(blocks, format, clock, least_bytes) == [(first, end, raw) for first, end, *_, raw in rows]


@st.composite
def records_of_containers(draw: st.DrawFn) -> tuple[LogFormat, list[bytes]]:
    """Texts of a few formats, and others, in the lines of a runtime."""
    examples_ = draw(st.lists(st.sampled_from([*(each.example for each in FORMATS), *PRINTED]), min_size=1, max_size=3))
    texts = draw(st.lists(st.one_of(dated(examples_), dated(examples_), dated(TAILS), spoiled([*examples_, *TAILS])), max_size=25))
    if draw(st.booleans()):
        return format_named("cri"), [b"2026-11-21T03:12:45.123456789Z stdout F " + text for text in texts]
    records = (
        {"log": f"{text.decode(errors='replace')}\n", "stream": "stderr", "time": "2026-11-21T03:12:45.1Z"} for text in texts
    )
    return format_named("json"), [json.dumps(each, ensure_ascii=False).encode() for each in records]


PRINTED = [
    "INFO x",
    "INFO: x",
    "42 rows",
    "rows",
    "",
    "{",
    "a=b",
    "ETL begins",
    "2026-11-21 x",
    "3:12:45 PM x",
    "x 03:12:45",
    "[x] y",
    "2026-11-21 03:12:45 UTC INFO x",
]


@given(records_of_containers(), ZONE)
@settings(max_examples=examples(400, 5000), suppress_health_check=[HealthCheck.too_slow])
def test_columns_of_texts_in_records_of_containers_equal_rows(log: tuple[LogFormat, list[bytes]], zone: tzinfo) -> None:
    format, lines = log
    body = b"".join(line + b"\n" for line in lines)
    clock = TimestampParser(zone, 1_795_000_000_000_000)
    with patch.object(json_lines, "_FEW_LINES", 1), patch.object(printed, "_FEW_LINES", 1):
        assert parsed([body], format, clock) == rows_of(body, format, clock)


@pytest.mark.parametrize(
    "text",
    [
        *("rows of %d", "Starting %d", "INFO %d rows", "INFO:orders:%d rows", '{"level":"info","n":%d}'),
        *("2026-11-21 03:12:45,123 - orders.load - INFO - %d", "2026-11-21 03:12:45,123 INFO [main] org.example.Orders: %d"),
    ],
)
def test_common_texts_in_records_of_containers_need_no_row_parser(text: str) -> None:
    body = "".join(f"2026-11-21T03:12:45.123456789Z stdout F {text % number}\n" for number in range(20)).encode()
    parser, clock = ColumnarParser(format_named("cri"), TimestampParser()), TimestampParser()
    assert columns_of(parser.parse(body)) == rows_of(body, format_named("cri"), clock)
    assert (parser.lines, parser.row_lines) == (20, 0)


@pytest.mark.parametrize(
    "zone", [UTC, timezone(timedelta(hours=5, minutes=30)), ZoneInfo("Europe/Berlin"), ZoneInfo("Australia/Lord_Howe")], ids=str
)
@pytest.mark.parametrize(
    ("name", "before", "rest"),
    [
        *(("airflow", "[", "] {a.py:1} INFO - y"), ("python-logger-first", "", " x INFO y"), ("level-time", "INFO ", " y")),
        *(("python", "", " - x - INFO - y"), ("iso", "", " y"), ("spark", "", " INFO x: y"), ("hdfs", "", " 1 INFO x: y")),
        *(
            ("syslog", "<38>", " web1 x: y"),
            ("klog", "I", " 1 a.go:1] y"),
            ("time", "", " y"),
            ("oslo-collected", "a.log ", " 1 INFO x y"),
        ),
        ("apache-error", "[Sat ", "] [core:error] y"),
    ],
)
def test_every_time_equals_that_of_the_row_parser(name: str, before: str, rest: str, zone: tzinfo) -> None:
    parts = (*product(SECONDS, FRACTIONS, ZONES[:3]), *product(SECONDS, FRACTIONS[:2], ZONES))
    times = map("".join, parts)
    body = "".join(f"{before}{time}{rest}\n" for time in times).encode()
    clock = TimestampParser(zone, 1_795_000_000_000_000)
    assert columns_of(ColumnarParser(format_named(name), clock).parse(body)) == rows_of(body, format_named(name), clock)


@pytest.mark.parametrize("name", [each.name for each in FORMATS if each.name not in {*BY_ROWS, "json", "cri"}])
def test_common_lines_need_no_row_parser(name: str) -> None:
    text = format_named(name).example.encode()
    body = b"".join(text + b" %d\n    more\n\n" % number for number in range(20))
    parser = ColumnarParser(format_named(name), TimestampParser())
    assert len(parser.parse(body)) == 20
    assert (parser.lines, parser.row_lines) == (60, 0)


NAMES = st.sampled_from(
    [
        "timestamp",
        "time",
        "ts",
        "level",
        "levelno",
        "severity",
        "logger",
        "name",
        "message",
        "msg",
        "log",
        "t",
        "x",
        "é",
        'a"b',
        "a\nb",
        "\ud800",
    ]
)
VALUES = st.one_of(
    st.sampled_from(["2026-11-21T03:12:45.123Z", "2026-11-21 03:12:45,1 +0100", "0000-01-01T00:00:00", "1795230000", 1795230000.5, 1795230000123]),
    st.sampled_from(["info", "ERROR", "err", "30", "", "a.go:12", 'say "x"', "a\\b", "\u2603", "\ud800", "a\tb"]),
    st.sampled_from([None, True, False, 10, 3, 50, -0.0, 1e22]),
    st.sampled_from([{}, {"level": "info"}, {"$date": "2026-11-21T03:12:45Z"}, [], [1], float("inf")]),
)  # fmt: skip


@st.composite
def json_logs(draw: st.DrawFn) -> bytes:
    """Objects of a few shapes, with a second line here and there, and damaged ones."""
    shapes = draw(st.lists(st.lists(st.tuples(NAMES, VALUES), min_size=1, max_size=6), min_size=1, max_size=4))
    lines = []
    for shape in draw(st.lists(st.sampled_from(shapes), max_size=20)):
        pairs = ((name, draw(st.sampled_from([value, value, draw(VALUES)]))) for name, value in shape)
        space, is_ascii = draw(st.sampled_from(["", " ", "\t"])), draw(st.booleans())
        text = f",{space}".join(
            f"{json.dumps(name, ensure_ascii=is_ascii)}:{space}{json.dumps(value, ensure_ascii=is_ascii)}" for name, value in pairs
        )
        end = draw(st.sampled_from(["", "", "", " ", "x", "\r", "\n  more", "\n\n", "\n{", "\n}"]))
        lines.append(f"{{{text}}}{end}".encode(errors="surrogatepass"))
    return b"".join(line + b"\n" for line in lines)


@given(json_logs())
@example(b'{"level":"info","a\\"b":"x"}\n{"level":"info","a"b":"x"}\n')
@example(b'{"a\\nb":"x","level":"info"}\n{"a\nb":"x","level":"info"}\n')
@example(
    b'{"level":"info","msg":"x"}\n  more\n{"level":"info","msg":"a\\tb"}\n{"level":"info","msg":"y"}\n{"level":"info","msg":"x"}x\n'
)
@example(b'{"levelno":10,"logger":"","msg":"x"}\n{"levelno":10,"logger":"a.go:12","msg":"x"}\n')
@example(b'{"level":"info","x":' + b"[" * 5000 + b"\n")
@example(b'{"level":"info","\\ud800":1,"\\ud83d\\ude00":2}\n')
@example(b'{"timestamp":"2026-11-21T03:12:45Z","time":"2027-01-01T00:00:00Z","level":"info","severity":"error"}\n')
@example(b'{"level":"info","n":1}\n{"level":"info","n":1' + b"0" * 5000 + b"}\n")
@settings(max_examples=examples(400, 4000), suppress_health_check=[HealthCheck.too_slow])
def test_columns_of_json_lines_equal_rows(body: bytes) -> None:
    format, clock = format_named("json"), TimestampParser()
    parser = ColumnarParser(format, clock)
    with patch.object(json_lines, "_FEW_LINES", 1):
        assert columns_of(parser.parse(body)) == rows_of(body, format, clock)


def test_json_lines_of_few_shapes_need_no_row_parser() -> None:
    shapes = [
        b'{"timestamp": "2026-11-21T03:12:%02d.5Z", "level": "info", "logger": "a.go:12", "message": "x", "n": [1]}',
        b'{"ts":1795230000.%02d,"severity":"ERROR","msg":"\xe2\x98\x83","n":null}',
        b'{"level":30,"time":1795230000%02d0,"pid":1,"msg":"x"}',
        b'{"level":30,"time":1795230000%02d1,' + b",".join(b'"x%d":1' % name for name in range(100)) + b"}",
    ]
    body = b"".join(shape % number + b"\n" for number in range(60) for shape in shapes)
    format, clock = format_named("json"), TimestampParser()
    parser = ColumnarParser(format, clock)
    assert columns_of(parser.parse(body)) == rows_of(body, format, clock)
    assert (parser.lines, parser.row_lines) == (240, 120), "the shapes with a nested value, and with many names"


def test_only_the_exception_of_a_python_trace_is_read_by_the_row_parser() -> None:
    parser = ColumnarParser(format_named("python"), TimestampParser())
    body = (ERROR + b"\n" + TRACE + b"\n") * 10
    assert columns_of(parser.parse(body)) == rows_of(body, format_named("python"), TimestampParser())
    assert (parser.lines, parser.row_lines) == (50, 10)


def test_rest_of_a_format_leaves_the_lines_of_others() -> None:
    lines = [
        "03:12:45  1 of 3 START sql table",
        "03:12:45  thinking",
        "03:12:45  ",
        '03:12:45 x [21/Nov/2026:03:12:45 +0000] "GET /" 200 1',
    ]
    body = "".join(line + "\n" for line in lines).encode()
    parser, clock = ColumnarParser(format_named("dbt-console"), TimestampParser()), TimestampParser()
    assert columns_of(parser.parse(body)) == rows_of(body, format_named("dbt-console"), clock)
    assert parser.row_lines == 1


def test_formats_without_a_matcher() -> None:
    assert {each.name for each in (*FORMATS, PLAIN) if matcher_of(each) is None} == BY_ROWS | {"plain"}


@pytest.mark.parametrize(
    ("count", "text"),
    [
        (MAX_EVENT_LINES - 1, b" x"),
        (MAX_EVENT_LINES, b" x"),
        (2 * MAX_EVENT_LINES + 1, b""),
        (MAX_EVENT_BYTES // 1000, b" " * 999),
        (MAX_EVENT_BYTES // 10_000 + 1, b" " * 9999),
        (1, b" " * 9 * 1024 * 1024),
        (2, b"\xff" * HEAD_CHARS),
    ],
)
def test_limits_of_an_event(count: int, text: bytes) -> None:
    body = b"".join((INFO + b"\n", *[text + b"\n"] * count, ERROR))
    format, clock = format_named("python"), TimestampParser()
    rows = rows_of(body, format, clock)
    assert columns_of(ColumnarParser(format, clock).parse(body)) == rows
    assert outlined([body], format, clock) == [(first, end, raw) for first, end, *_, raw in rows]


@given(logs(), st.data())
@settings(max_examples=examples(200), suppress_health_check=[HealthCheck.too_slow])
def test_chosen_events_have_the_columns_of_all(log: tuple[LogFormat, list[bytes]], data: st.DataObject) -> None:
    format, lines = log
    columns = ColumnarParser(format, TimestampParser()).parse(b"\n".join(lines))
    places = sorted(data.draw(st.sets(st.integers(0, max(len(columns) - 1, 0)), max_size=len(columns))))
    everything = columns_of(columns)
    assert columns_of(columns, places=places) == [everything[place] for place in places]


@pytest.mark.parametrize(
    ("pattern", "text"),
    [
        ("a*+b", "^(?P<head>(?:[\\x61]){0,}[\\x62])"),
        ("a*+(?:b|$)?", "^(?P<head>(?:[\\x61]){0,}(?:(?:[\\x62]|(?m:$))){0,1})"),
        (r"\S+?$", "^(?P<head>(?:[^\\n\\x09\\x0b\\x0c\\x0d\\x20]){1,}?(?m:$))"),
        ("(?:ab)??c", ("^(?P<head>[\\x63])", "^(?P<head>[\\x61][\\x62][\\x63])")),
        ("(?:(?P<logger>a)b)??c", "^(?P<head>(?:(?P<logger>[\\x61])[\\x62]){0,1}?[\\x63])"),
        ("a*+a", None),
        ("(?:ba*+)*ac", None),
        ("(?:ab)*+c", None),
        (r"(?:a++){2}", None),
        ("(?!a)b", None),
        ("(?=a)", None),
        ("(a)\\1", None),
        ("(?:a*)*", None),
        ("é", "^(?P<head>\\x{e9})"),
        ("[aé]", None),
        (r"(?:a++|ab)*c", None),
        (r"(?:a++|b)*+c", None),
        (r"a++\b", None),
        ("(?i:a)", None),
    ],
)
def test_translation_of_patterns(pattern: str, text: str | tuple[str, ...] | None) -> None:
    if text is None:
        with pytest.raises(UntranslatableError):
            translated(pattern)
    else:
        assert translated(pattern).patterns == (text if isinstance(text, tuple) else (text,))


@pytest.mark.parametrize(
    ("pattern", "count"),
    [
        ("(?:ab)?c", 1),
        ("(?:ab)??c", 2),
        ("(?:(?:(?P<logger>a)x|b)c)??d", 1),
        ("(?:(?:(?P<logger>a)x){2}c)??d", 1),
        ("a*(?:bc|d)", 1),
        ("(?:a++|b)*c", 1),
        ("(?:b++)*(?:c++|ab*)*d", 1),
        (r"a*b?\b", 1),
        ("a*(?:b*c|bd)", 2),
        ("a*(?:b*c|d|bd)", 2),
        ("a*(?:b*c|(?P<logger>bd))", 1),
        ("a*?(?:b*c|)", 1),
        ("a*(?:ab*c|abd)", 1),
        ("a?a(?:b*c|bd)", 1),
        ("(?:ab)*?(?:b*c|ab*)", 1),
        ("(?:a(?:b|bc)|d)(?:c*e|cd)", 1),
        ("(?:a(?:b|c)|d)(?:c*e|cd)", 2),
        ("a{2}(?:a*b|ac)", 2),
        ("(?:ab?a?)*(?:c*d|ce)", 1),
        ("d(?:ab?a?)?(?:c*d|ce)", 2),
        ("(?P<logger>a*)(?:b*c|bd)", 2),
        ("(?P<logger>a*)(?:ab*c|abd)", 1),
    ],
)
def test_translated_patterns_match_the_same_texts(pattern: str, count: int) -> None:
    texts = ["".join(characters) for size in range(6) for characters in product("abcd", repeat=size)]
    expected = re.compile(pattern, re.ASCII)
    patterns = translated(pattern).patterns
    assert len(patterns) == count
    found: list[tuple[str, str] | None] = [None] * len(texts)
    for each in patterns:
        for place, groups in enumerate(pc.extract_regex(pa.array(texts), pattern=each).to_pylist()):
            if groups is not None and found[place] is None:
                found[place] = groups["head"], groups.get("logger", "")
    matches = map(expected.match, texts)
    assert found == [match and (match[0], match.groupdict().get("logger") or "") for match in matches]
