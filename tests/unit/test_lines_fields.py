"""Lines with named fields, JSON and logfmt, and levels from words and numbers."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from chalicelib.lines.fields import MAX_JSON_CHARS, MAX_LOGFMT_CHARS
from chalicelib.lines.formats import format_named
from chalicelib.lines.levels import level_of_python, level_of_word
from chalicelib.lines.parsed import ParsedLine
from chalicelib.lines.timestamps import TimestampParser

QUIET = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
TIME = "2026-11-21T03:12:45.123Z"
TIME_US = (datetime(2026, 11, 21, 3, 12, 45, 123_000, tzinfo=UTC) - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(microseconds=1)
SECOND_US = TIME_US - 123_000


def read(name: str, line: str) -> ParsedLine | None:
    return format_named(name).bind(TimestampParser())(line)


# JSON of common programs and libraries.

OBJECTS: list[tuple[str, dict[str, Any], tuple[int | None, str | None, str | None, str]]] = [
    (
        "structlog",
        {"event": "42 rows", "level": "info", "logger": "orders", "timestamp": TIME},
        (TIME_US, "INFO", "orders", "42 rows"),
    ),
    (
        "python-json-logger",
        {"asctime": "2026-11-21 03:12:45,123", "levelname": "WARNING", "name": "orders", "message": "x"},
        (TIME_US, "WARNING", "orders", "x"),
    ),
    (
        "logstash",
        {"@timestamp": TIME, "level": "ERROR", "logger_name": "c.e.A", "message": "x", "level_value": 40000},
        (TIME_US, "ERROR", "c.e.A", "x"),
    ),
    ("ecs", {"@timestamp": TIME, "log.level": "error", "log.logger": "c.e.A", "message": "x"}, (TIME_US, "ERROR", "c.e.A", "x")),
    (
        "ecs nested",
        {"@timestamp": TIME, "log": {"level": "error", "logger": "c.e.A"}, "message": "x"},
        (TIME_US, "ERROR", "c.e.A", "x"),
    ),
    (
        ".NET",
        {"Timestamp": "2026-11-21 03:12:45.123 ", "EventId": 0, "LogLevel": "Critical", "Category": "C", "Message": "x"},
        (TIME_US, "CRITICAL", "C", "x"),
    ),
    ("pino", {"level": 30, "time": TIME_US // 1000, "pid": 1, "hostname": "a", "msg": "x"}, (TIME_US, "INFO", None, "x")),
    ("bunyan", {"name": "app", "level": 50, "msg": "x", "time": TIME, "v": 0}, (TIME_US, "ERROR", "app", "x")),
    (
        "zap",
        {"level": "dpanic", "ts": TIME_US / 1e6, "logger": "setup", "caller": "a/b.go:12", "msg": "x"},
        (TIME_US, "CRITICAL", "setup", "x"),
    ),
    (
        "zap without a logger",
        {"level": "warn", "ts": TIME_US / 1e6, "caller": "a/b.go:12", "msg": "x"},
        (TIME_US, "WARNING", "a/b.go", "x"),
    ),
    ("slog", {"time": "2026-11-21T04:12:45.123+01:00", "level": "DEBUG", "msg": "x"}, (TIME_US, "DEBUG", None, "x")),
    (
        "log4j2",
        {
            "instant": {"epochSecond": SECOND_US // 10**6, "nanoOfSecond": 123_000_999},
            "level": "FATAL",
            "loggerName": "A",
            "message": "x",
        },
        (TIME_US, "CRITICAL", "A", "x"),
    ),
    (
        "log4j2, older",
        {"timeMillis": TIME_US // 1000, "level": "TRACE", "loggerName": "A", "message": "x"},
        (TIME_US, "TRACE", "A", "x"),
    ),
    (
        "google cloud",
        {"timestamp": {"seconds": SECOND_US // 10**6, "nanos": 123_000_000}, "severity": "NOTICE", "message": "x"},
        (TIME_US, "INFO", None, "x"),
    ),
    (
        "mongodb",
        {"t": {"$date": "2026-11-21T03:12:45.123+00:00"}, "s": "W", "c": "NETWORK", "id": 1, "msg": "x"},
        (TIME_US, "WARNING", "NETWORK", "x"),
    ),
    (
        "loguru",
        {
            "text": "y",
            "record": {
                "level": {"name": "SUCCESS", "no": 25},
                "message": "x",
                "name": "orders",
                "time": {"repr": "?", "timestamp": TIME_US / 1e6},
            },
        },
        (TIME_US, "INFO", "orders", "x"),
    ),
    (
        "monolog",
        {"message": "x", "level": 400, "level_name": "ERROR", "channel": "app", "datetime": "2026-11-21T03:12:45.123+00:00"},
        (TIME_US, "ERROR", "app", "x"),
    ),
    (
        "gelf",
        {"version": "1.1", "host": "a", "short_message": "x", "timestamp": TIME_US / 1e6, "level": 3},
        (TIME_US, "ERROR", None, "x"),
    ),
    ("docker", {"log": "x\n", "stream": "stdout", "time": "2026-11-21T03:12:45.123000001Z"}, (TIME_US, None, None, "x")),
    (
        "journald",
        {"__REALTIME_TIMESTAMP": str(TIME_US), "PRIORITY": "4", "SYSLOG_IDENTIFIER": "sshd", "MESSAGE": "x"},
        (TIME_US, "WARNING", "sshd", "x"),
    ),
    ("otlp", {"timeUnixNano": str(TIME_US * 1000), "severityText": "Warn", "body": "x"}, (TIME_US, "WARNING", None, "x")),
    ("levelno", {"levelno": 30, "created": TIME_US / 1e6, "msg": "x"}, (TIME_US, "WARNING", None, "x")),
    ("a message alone", {"message": "x"}, (None, None, None, "x")),
    ("an empty message", {"level": "info", "msg": ""}, (None, "INFO", None, "")),
    ("no message", {"level": "info", "rows": 42}, (None, "INFO", None, '{"level": "info", "rows": 42}')),
    (
        "a message that is none",
        {"level": "info", "message": {"a": 1}},
        (None, "INFO", None, '{"level": "info", "message": {"a": 1}}'),
    ),
    ("a time that is none", {"time": 0.25, "timestamp": "now", "ts": TIME, "msg": "x"}, (TIME_US, None, None, "x")),
    ("a date that is none", {"timestamp": "2026-02-30T03:12:45Z", "msg": "x"}, (None, None, None, "x")),
    ("values of any type", {"timestamp": True, "level": [1], "logger": 3, "message": None, "msg": "x"}, (None, None, None, "x")),
    ("a level that is none", {"level": "loud", "severity": "error", "msg": "x"}, (None, "ERROR", None, "x")),
    ("half a character", {"level": "info", "logger": "\ud800", "msg": "a\udc00b \u00e9"}, (None, "INFO", "�", "a�b é")),
    ("two halves", {"msg": "\U0001f600"}, (None, None, None, "😀")),
]


@pytest.mark.parametrize(("program", "written", "expected"), OBJECTS, ids=[program for program, _, _ in OBJECTS])
def test_an_object(program: str, written: dict[str, Any], expected: tuple[Any, ...]) -> None:
    assert read("json", json.dumps(written)) == ParsedLine(*expected)


NOT_OBJECTS = [
    *("{", "}", "{}", "[]", '["a"]', '{"a": 1}', '{"msg": 1}', '{"msg": "x"', '{"msg": "x"} y', '{"msg": "x"}{"msg": "y"}', "{'msg': 'x'}", "null"),
    *('{"level": "loud"}', '{"timestamp": "yesterday"}', '{"msg": nonsense}', "{" * 100_000, '{"a":' * 100_000, '{"msg":' + "[" * 100_000),
    *('{"level":' + "1" * 10_000 + "}", '{"time": NaN}', '{"time": -Infinity}', '{"time": 1e999}', '{"level": 1e400}', '{"msg": "\\ud8"}'),
]  # fmt: skip


@pytest.mark.parametrize("number", range(len(NOT_OBJECTS)))
def test_objects_that_are_no_log_lines(number: int) -> None:
    assert read("json", NOT_OBJECTS[number]) is None


@pytest.mark.parametrize("depth", [10, 1000, 100_000])
def test_object_that_is_nested_deeply_has_what_is_before(depth: int) -> None:
    line = f'{{"level": "error", "msg": "x", "data": {"[" * depth}{"]" * depth}}}'
    assert read("json", line) == ParsedLine(None, "ERROR", None, "x")


def test_object_that_is_too_long_is_not_parsed() -> None:
    line = json.dumps({"msg": "x" * MAX_JSON_CHARS})
    assert read("json", line) is None
    assert read("json", line.replace("x" * 100, "", 1)) is not None


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=5,
)
KEYS = st.sampled_from(
    [
        *(
            "timestamp",
            "time",
            "t",
            "instant",
            "level",
            "severity",
            "levelno",
            "s",
            "log",
            "record",
            "logger",
            "msg",
            "message",
            "stream",
        ),
        *("MESSAGE", "PRIORITY", "trace", "body", "info", "timestampSeconds", "timestampNanos", "data"),
    ]
)


@QUIET
@given(
    st.dictionaries(
        KEYS,
        JSON
        | st.sampled_from([TIME, "info", 30, "stderr", {"$date": TIME}, {"epochSecond": 10**9, "nanoOfSecond": 1}, [104, 105]]),
    )
)
@example({"instant": {"epochSecond": 10**9, "nanoOfSecond": 10**30}})
@example({"t": {"$date": {"$date": {}}}})
@example({"log": {"log": {"log": {}}}})
@example({f"x{number}": number for number in range(10_000)} | {"log": {f"level{number}": "error" for number in range(10_000)}})
def test_no_object_raises(written: dict[str, Any]) -> None:
    parsed = read("json", json.dumps(written))
    assert parsed is None or (parsed.message.encode() is not None and (parsed.logger or "").encode() is not None)


# logfmt

PAIRS = [
    ('time="2026-11-21T03:12:45.123Z" level=info msg="42 rows" table=orders', (TIME_US, "INFO", None, "42 rows")),
    ("ts=2026-11-21T03:12:45.123Z caller=main.go:12 level=warn component=tsdb msg=slow", (TIME_US, "WARNING", "tsdb", "slow")),
    (
        "level=error ts=2026-11-21T03:12:45.123Z caller=db.go:12 err=x",
        (TIME_US, "ERROR", "db.go", "level=error ts=2026-11-21T03:12:45.123Z caller=db.go:12 err=x"),
    ),
    (
        'logger=settings t=2026-11-21T04:12:45.123+0100 level=debug msg="a \\"b\\"\\n\\\\ c=d" x=""',
        (TIME_US, "DEBUG", "settings", 'a "b"\n\\ c=d'),
    ),
    (f"ts={TIME_US / 1e6:.3f} lvl=crit msg=x", (TIME_US, "CRITICAL", None, "x")),
    ('msg="level=error ts=1" level=info', (None, "INFO", None, "level=error ts=1")),
    ("level=info", (None, "INFO", None, "level=info")),
    ("at=info level=info a==b c=d=e =f msg=x", (None, "INFO", None, "x")),
    ("t=12ms time=2026-11-21T03:12:45.123Z", (TIME_US, None, None, "t=12ms time=2026-11-21T03:12:45.123Z")),
    ('level=info msg="never closed', (None, "INFO", None, 'level=info msg="never closed')),
    ("level=info msg=é logger=\u2028", (None, "INFO", None, "é")),
]


@pytest.mark.parametrize(("line", "expected"), PAIRS, ids=range(len(PAIRS)))
def test_pairs(line: str, expected: tuple[Any, ...]) -> None:
    assert read("logfmt", line) == ParsedLine(*expected)


@pytest.mark.parametrize(
    "line", ["", "a=b", "a=b c=d", "x level=info", ' level="info"', "level=loud", "ts=5", "level", "level:info", '"level"=info']
)
def test_text_that_is_no_logfmt(line: str) -> None:
    assert read("logfmt", line) is None


def test_only_the_first_of_many_pairs_are_read() -> None:
    line = f"level=info msg=x {'a=b ' * MAX_LOGFMT_CHARS}"
    assert read("logfmt", line) == ParsedLine(None, "INFO", None, line), "a message could go on behind them"
    assert read("logfmt", f"{'a=b ' * MAX_LOGFMT_CHARS} level=info") is None


# Levels

WORDS = {
    "TRACE": "TRACE trace Trace FINEST FINER VERBOSE vrb T Finest TRACE4",
    "DEBUG": "DEBUG debug Debug DEBUG5 dbg FINE CONFIG D Fine Config DEBUG-4",
    "INFO": "INFO info Info Information NOTICE notice SUCCESS audit inf I",
    "WARNING": "WARNING WARN warn Warning wrn W WARN4 WARN+1",
    "ERROR": "ERROR error err ERR SEVERE fail E Severe ERROR2 ERROR+4",
    "CRITICAL": "CRITICAL critical crit FATAL fatal Fatal emerg alert PANIC dpanic ftl F C",
}


@pytest.mark.parametrize("level", WORDS)
def test_words(level: str) -> None:
    assert {level_of_word(word) for word in WORDS[level].split()} == {level}
    assert level_of_word(f" {level.title()} ") == level


@pytest.mark.parametrize("word", ["", " ", "loud", "NOTSET", "none", "ok", "x", "fine", "config", "INFOS", "ınfo", "ＩＮＦＯ"])
def test_words_that_name_none(word: str) -> None:
    assert level_of_word(word) is None


def test_numbers_of_python() -> None:
    python = {5: "TRACE", 10: "DEBUG", 20: "INFO", 25: "INFO", 30: "WARNING", 40: "ERROR", 50: "CRITICAL", 99: "CRITICAL"}
    assert {number: level_of_python(number) for number in python} == python
    assert [level_of_python(number) for number in (-1, 0, 100)] == [None] * 3


LEVEL_LINES = {
    "openmetadata": "[2026-11-21 03:12:45] {}  {{a:b:1}} - x",
    "airflow": "[2026-11-21 03:12:45,123] {{a.py:1}} {} - x",
    "python": "2026-11-21 03:12:45,123 - a - {} - x",
    "python-default": "{}:a:x",
    "log4j": "2026-11-21 03:12:45,123 {} [main] a.B: x",
    "spark": "26/11/21 03:12:45 {} A: x",
    "level": "2026-11-21 03:12:45 {} x",
    "logfmt": "level={} msg=x",
    "json": '{{"level": "{}", "msg": "x"}}',
}


@pytest.mark.parametrize("name", LEVEL_LINES)
@pytest.mark.parametrize(
    ("word", "level"),
    [("TRACE", "TRACE"), ("DEBUG", "DEBUG"), ("INFO", "INFO"), ("WARN", "WARNING"), ("WARNING", "WARNING"), ("ERROR", "ERROR"),
     ("SEVERE", "ERROR"), ("CRITICAL", "CRITICAL"), ("FATAL", "CRITICAL")],
)  # fmt: skip
def test_every_level_in_every_layout(name: str, word: str, level: str) -> None:
    parsed = read(name, LEVEL_LINES[name].format(word))
    assert parsed is not None and (parsed.level, parsed.message) == (level, "x")


def test_levels_of_priorities_statuses_and_letters() -> None:
    for severity, level in enumerate(["CRITICAL"] * 3 + ["ERROR", "WARNING", "INFO", "INFO", "DEBUG"]):
        for facility in (0, 1, 23):
            parsed = read("syslog", f"<{facility * 8 + severity}>Nov 21 03:12:45 host a: x")
            assert parsed is not None and parsed.level == level
    assert read("syslog", "<192>Nov 21 03:12:45 host a: x") is None
    for status, level in {
        200: "INFO",
        301: "INFO",
        101: "INFO",
        404: "WARNING",
        499: "WARNING",
        500: "ERROR",
        599: "ERROR",
    }.items():
        parsed = read("access", f'::1 - - [21/Nov/2026:03:12:45 +0000] "GET /" {status} 1')
        assert parsed is not None and parsed.level == level
    assert read("access", '::1 - - [21/Nov/2026:03:12:45 +0000] "GET /" 600 1') is None
    for letter, level in {"I": "INFO", "W": "WARNING", "E": "ERROR", "F": "CRITICAL"}.items():
        parsed = read("klog", f"{letter}1121 03:12:45.123456 1 a.go:1] x")
        assert parsed is not None and parsed.level == level
