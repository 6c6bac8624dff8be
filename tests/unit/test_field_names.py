"""The fields of records of many producers: lines, columns, agents' records, counted errors and explanations read them alike."""

from __future__ import annotations

import json
import random
import re
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Any

import numpy as np
import pytest

from chalicelib.events.codecs import records
from chalicelib.explanation.json_lines import text_of_containers, text_of_json
from chalicelib.lines.errors import count_errors
from chalicelib.lines.fields import MIN_CUT_CHARS
from chalicelib.lines.formats import format_named, parse_json_with
from chalicelib.lines.levels import is_error
from chalicelib.lines.parsed import ParsedLine
from chalicelib.lines.timestamps import TimestampParser
from glue_jobs.columnar.parser import ColumnarParser

LEVEL, WORD, LOGGER, TEXT, BYTES, ISO, SPACED, SECONDS, DIGITS, MS, US, NS, WHOLE, NANOS = PLACES = range(-1, -15, -1)
"""Places for the level in the producer's spelling (``WORD``: the second of two), logger, text, and the time in several notations."""
AT_MS = 1_795_230_765_123
AT = "2026-11-21T03:12:45.123Z"


UPPER = {"DEBUG": "DEBUG", "INFO": "INFO", "WARNING": "WARN", "ERROR": "ERROR"}
LOWER = {"DEBUG": "debug", "INFO": "info", "WARNING": "warn", "ERROR": "error", "CRITICAL": "fatal"}
PYTHON = {"DEBUG": "DEBUG", "INFO": "INFO", "WARNING": "WARNING", "ERROR": "ERROR", "CRITICAL": "CRITICAL"}
NET = {"TRACE": "Trace", "DEBUG": "Debug", "INFO": "Information", "WARNING": "Warning", "ERROR": "Error", "CRITICAL": "Critical"}
SERILOG = {"TRACE": "Verbose", "DEBUG": "Debug", "INFO": "Information", "WARNING": "Warning", "ERROR": "Error", "CRITICAL": "Fatal"}
PINO = {"TRACE": 10, "DEBUG": 20, "INFO": 30, "WARNING": 40, "ERROR": 50, "CRITICAL": 60}
LOGGING = {"DEBUG": 10, "INFO": 20, "WARNING": 30, "ERROR": 40, "CRITICAL": 50}
LOGBOOK = {
    "DEBUG": (10, "DEBUG"),
    "INFO": (11, "INFO"),
    "WARNING": (13, "WARNING"),
    "ERROR": (14, "ERROR"),
    "CRITICAL": (15, "CRITICAL"),
}
SYSLOG = {"DEBUG": 7, "INFO": 6, "WARNING": 4, "ERROR": 3, "CRITICAL": 2}
JOURNAL = {level: str(number) for level, number in SYSLOG.items()}
OTEL = {"TRACE": 1, "DEBUG": 5, "INFO": 9, "WARNING": 13, "ERROR": 17, "CRITICAL": 21}
GOOGLE = {"DEBUG": 100, "INFO": 200, "WARNING": 400, "ERROR": 500, "CRITICAL": 600}
WINDOWS = {"CRITICAL": 1, "ERROR": 2, "WARNING": 3, "INFO": 4}
PRODUCERS: dict[str, tuple[Mapping[str, Any], dict[str, Any]]] = {
    "python-json-logger": (PYTHON, {"asctime": SPACED, "levelname": LEVEL, "name": LOGGER, "message": TEXT}),
    "python-json-logger with a number": (LOGGING, {"created": SECONDS, "levelno": LEVEL, "name": LOGGER, "message": TEXT}),
    "a number beside its word": (LOGBOOK, {"timestamp": ISO, "level": LEVEL, "levelname": WORD, "logger": LOGGER, "message": TEXT}),
    "structlog": (LOWER, {"event": TEXT, "level": LEVEL, "logger": LOGGER, "timestamp": ISO}),
    "loguru": (PYTHON,
     {"text": "y", "record": {"level": {"icon": "", "name": LEVEL, "no": 20}, "message": TEXT, "name": LOGGER, "time": {"repr": "",
      "timestamp": SECONDS}}}),
    "dbt": (LOWER,
     {"data": {"log_version": 3, "level": "debug"}, "info": {"code": "A001", "level": LEVEL, "msg": TEXT, "name": "E", "pid": 1, "ts": ISO}}),
    "dbt 1.0": (LOWER, {"code": "A001", "data": {}, "level": LEVEL, "log_version": 1, "msg": TEXT, "pid": 1, "ts": ISO, "type": "log_line"}),
    "dbt before 1.0": (LOGBOOK, {"timestamp": ISO, "message": TEXT, "channel": LOGGER, "level": LEVEL, "levelname": WORD, "extra": {}}),
    "bunyan": (PINO, {"name": LOGGER, "hostname": "h", "pid": 1, "level": LEVEL, "msg": TEXT, "time": ISO, "v": 0}),
    "pino": (PINO, {"level": LEVEL, "time": MS, "pid": 1, "hostname": "h", "name": LOGGER, "msg": TEXT}),
    "pino without a base": (PINO, {"level": LEVEL, "time": MS, "msg": TEXT}),
    "winston": (LOWER, {"level": LEVEL, "message": TEXT, "timestamp": ISO, "service": "s"}),
    "zap": (LOWER, {"level": LEVEL, "ts": SECONDS, "logger": LOGGER, "caller": "a/b.go:12", "msg": TEXT, "stacktrace": "a"}),
    "zerolog": (LOWER, {"level": LEVEL, "time": ISO, "message": TEXT, "error": "e"}),
    "slog": (UPPER, {"time": ISO, "level": LEVEL, "source": {"function": "f", "file": "g.go", "line": 1}, "msg": TEXT}),
    "hclog": (LOWER, {"@level": LEVEL, "@message": TEXT, "@module": LOGGER, "@timestamp": ISO}),
    "Rust's tracing": (UPPER, {"timestamp": ISO, "level": LEVEL, "fields": {"message": TEXT, "rows": 1}, "target": LOGGER}),
    "Log4j2 JsonLayout": (UPPER,
     {"instant": {"epochSecond": WHOLE, "nanoOfSecond": NANOS}, "thread": "main", "level": LEVEL, "loggerName": LOGGER, "message": TEXT,
      "endOfBatch": False}),
    "Log4j2 JsonLayout, older": (UPPER, {"timeMillis": MS, "level": LEVEL, "loggerName": LOGGER, "message": TEXT}),
    "ECS": (UPPER, {"@timestamp": ISO, "ecs.version": "1.2.0", "log.level": LEVEL, "message": TEXT, "log.logger": LOGGER}),
    "ECS, nested": (UPPER, {"@timestamp": ISO, "log": {"level": LEVEL, "logger": LOGGER}, "message": TEXT}),
    "GELF": (SYSLOG,
     {"version": "1.1", "host": "h", "short_message": TEXT, "full_message": "f", "timestamp": SECONDS, "level": LEVEL, "_logger": LOGGER}),
    "Logstash's encoder": (UPPER, {"@timestamp": ISO, "@version": "1", "message": TEXT, "logger_name": LOGGER, "level": LEVEL, "level_value": 20000}),
    "Logback's JsonEncoder": (UPPER,
     {"sequenceNumber": 0, "timestamp": MS, "level": LEVEL, "loggerName": LOGGER, "message": "{} rows", "arguments": [1], "formattedMessage": TEXT}),
    "CLEF": (SERILOG, {"@t": ISO, "@m": TEXT, "@i": "a", "@l": LEVEL, "SourceContext": LOGGER}),
    "Serilog": (SERILOG,
     {"Timestamp": ISO, "Level": LEVEL, "MessageTemplate": "{Text}", "RenderedMessage": TEXT, "Properties": {"SourceContext": LOGGER}}),
    ".NET": (NET, {"Timestamp": ISO, "EventId": 0, "LogLevel": LEVEL, "Category": LOGGER, "Message": TEXT, "State": {"Message": "m"}}),
    "NLog": (NET, {"time": ISO, "level": LEVEL, "logger": LOGGER, "message": TEXT}),
    "names in capitals": (PYTHON, {"TIMESTAMP": ISO, "LEVEL": LEVEL, "LOGGER": LOGGER, "MESSAGE": TEXT}),
    "Google Cloud": (GOOGLE, {"severity": LEVEL, "logName": "l", "insertId": "i", "timestamp": ISO, "textPayload": TEXT}),
    "Google Cloud in words": ({**PYTHON, "INFO": "NOTICE"},
     {"severity": LEVEL, "timestampSeconds": WHOLE, "timestampNanos": NANOS, "jsonPayload": {"message": TEXT, "logger": LOGGER}}),
    "Azure Monitor": (WINDOWS, {"time": ISO, "resourceId": "r", "operationName": "o", "category": LOGGER, "level": LEVEL, "resultDescription": TEXT}),
    "Azure's functions": ({**NET, "INFO": "Informational"},
     {"time": ISO, "resourceId": "r", "category": LOGGER, "level": LEVEL, "properties": {"message": TEXT, "levelId": 9}}),
    "Application Insights": ({"INFO": 1, "WARNING": 2, "ERROR": 3, "CRITICAL": 4}, {"TimeGenerated": ISO, "SeverityLevel": LEVEL, "Message": TEXT}),
    "Lambda": (UPPER, {"timestamp": ISO, "level": LEVEL, "message": TEXT, "logger": LOGGER, "requestId": "r"}),
    "Powertools": (PYTHON, {"level": LEVEL, "location": "f:1", "message": TEXT, "timestamp": SPACED, "service": "s"}),
    "OpenTelemetry": (OTEL, {"timeUnixNano": NS, "severityNumber": LEVEL, "body": {"stringValue": TEXT}}),
    "OpenTelemetry's file exporter": (OTEL,
     {"resourceLogs": [{"resource": {}, "scopeLogs": [{"logRecords": [{"timeUnixNano": NS, "severityNumber": LEVEL,
      "body": {"stringValue": TEXT}}]}]}]}),
    "OpenTelemetry's SDK": (LOWER, {"Timestamp": ISO, "Severity": 9, "SeverityText": LEVEL, "Body": {"Type": "String", "Value": TEXT}}),
    "Spark": (UPPER, {"ts": ISO, "level": LEVEL, "msg": TEXT, "context": {"task_id": "1"}, "logger": LOGGER}),
    "journald": (JOURNAL, {"__REALTIME_TIMESTAMP": US, "PRIORITY": LEVEL, "SYSLOG_IDENTIFIER": LOGGER, "MESSAGE": TEXT}),
    "journald's bytes": (JOURNAL, {"__REALTIME_TIMESTAMP": US, "PRIORITY": LEVEL, "SYSLOG_IDENTIFIER": LOGGER, "MESSAGE": BYTES}),
    "syslog": (SYSLOG, {"timestamp": ISO, "hostname": "h", "facility": 3, "severity": LEVEL, "message": TEXT}),
    "Prefect": (LOGGING, {"name": LOGGER, "level": LEVEL, "message": TEXT, "timestamp": ISO, "flow_run_id": "f"}),
    "Dagster": (LOGGING, {"dagster_event": None, "level": LEVEL, "message": TEXT, "timestamp": SECONDS, "run_id": "r"}),
    "Airbyte": (UPPER, {"type": "LOG", "log": {"level": LEVEL, "message": TEXT}}),
    "Airbyte's errors": ({"ERROR": None}, {"type": "TRACE", "trace": {"type": "ERROR", "emitted_at": MS, "error": {"message": TEXT}}}),
    "ClickHouse": (SERILOG, {"date_time": DIGITS, "thread_id": "1", "level": LEVEL, "logger_name": LOGGER, "message": TEXT}),
    "MongoDB": ({"INFO": "I", "WARNING": "W", "ERROR": "E", "CRITICAL": "F"}, {"t": {"$date": ISO}, "s": LEVEL, "c": LOGGER, "id": 1, "msg": TEXT}),
    "PostgreSQL": ({**PYTHON, "INFO": "LOG", "CRITICAL": "FATAL"},
     {"timestamp": ISO, "pid": 1, "session_id": "s", "error_severity": LEVEL, "message": TEXT}),
    "log15": (LOWER, {"lvl": LEVEL, "msg": TEXT, "t": ISO}),
    "Python's other formatters": (LOGGING, {"time": ISO, "level": LEVEL, "name": LOGGER, "msg": TEXT, "lineno": 7, "funcName": "f"}),
    "a level below": (PYTHON, {"body": {"level": LEVEL, "message": TEXT, "timestamp": ISO}}),
}  # fmt: skip


def row(text: str) -> ParsedLine | None:
    return parse_json_with(TimestampParser())(text)


def filled(value: Any, said: Mapping[int, Any]) -> Any:
    if isinstance(value, dict):
        return {name: filled(each, said) for name, each in value.items()}
    if isinstance(value, list):
        return [filled(each, said) for each in value]
    return said.get(value, value) if type(value) is int else value


def said_by(name: str, level: str, rng: random.Random) -> tuple[ParsedLine, dict[str, Any]]:
    """The columns of a record, and the record with its fields in any order and others of no meaning."""
    spellings, template = PRODUCERS[name]
    spelling = spellings[level] if isinstance(spellings[level], tuple) else (spellings[level], None)
    text, logger, ms = (
        f"{rng.choice(['loaded', 'Größe', 'a: b'])} {rng.randrange(1000)} rows",
        f"a.b{rng.randrange(9)}",
        AT_MS + rng.randrange(10**9),
    )
    iso = datetime.fromtimestamp(ms / 1000, UTC).isoformat(timespec="milliseconds").removesuffix("+00:00")
    spaced = iso.replace("T", " ").replace(".", ",") + "+0000"
    times = (f"{iso}Z", spaced, ms / 1000, f"{ms / 1000:.6f}", ms, str(ms * 1000), str(ms * 10**6), ms // 1000, ms % 1000 * 10**6)
    said = dict(zip(PLACES, (*spelling, logger, text, [*text.encode(), 13], *times), strict=True))
    more = ((f"x{number}", rng.choice([1, "error", None, True, [], {}])) for number in range(rng.randrange(4)))
    fields = [*filled(template, said).items(), *more]
    rng.shuffle(fields)
    places = {int(each) for each in re.findall(r"-[0-9]+", str(template))}
    time = None if places.isdisjoint(PLACES[5:]) else ms * 1000
    return ParsedLine(time, level, logger if LOGGER in places else None, text), dict(fields)


@pytest.mark.parametrize("name", PRODUCERS)
def test_record_of_a_producer_is_read_alike_everywhere(name: str) -> None:
    rng = random.Random(name)
    for level in PRODUCERS[name][0]:
        expected, fields = said_by(name, level, rng)
        line = json.dumps(fields, ensure_ascii=False)
        assert row(line) == expected, line
        assert count_errors(line.encode()) == is_error(level), line
        event = records.decoded(0, fields, TimestampParser(), {}).event
        assert (event.level, event.message) == (level, expected.message)
        assert event.timestamp == (expected.timestamp and expected.timestamp // 1000)
        explained = text_of_json(text_of_containers(line.encode()))
        assert explained is not None and explained.decode().startswith(f"{level} {expected.message}\n")


@pytest.mark.parametrize("name", PRODUCERS)
def test_columns_of_a_producer_equal_rows(name: str) -> None:
    levels = [*PRODUCERS[name][0]]
    lines = [json.dumps(said_by(name, levels[seed % len(levels)], random.Random(seed % 3))[1]) for seed in range(24)]
    format, clock = format_named("json"), TimestampParser()
    columns = ColumnarParser(format, clock).parse("".join(f"{line}\n" for line in lines).encode())
    places = np.arange(len(columns))
    times = columns.timestamps(places).cast("int64").to_pylist()
    texts = (each(places).to_pylist() for each in (columns.levels, columns.loggers, columns.messages))
    assert [*zip(times, *texts, strict=True)] == [row(line) for line in lines]


@pytest.mark.parametrize("name", PRODUCERS)
def test_record_within_that_of_a_container(name: str) -> None:
    """Its time counts, since it states a zone."""
    rng = random.Random(name)
    expected, fields = said_by(name, rng.choice([*PRODUCERS[name][0]]), rng)
    for around in CONTAINERS:
        parsed = reader_of(around)(contained(around, json.dumps(fields)))
        assert parsed == expected._replace(timestamp=expected.timestamp or AT_MS * 1000)


CONTAINERS = ("docker", "docker in another order", "fluent", "cri", "firelens", "telemetry")


def reader_of(around: str) -> Callable[[str], ParsedLine | None]:
    return format_named("cri" if around == "cri" else "json").bind(TimestampParser())


def contained(around: str, text: str) -> str:
    around_text = {
        "docker": {"log": text + "\n", "stream": "stderr", "time": AT},
        "docker in another order": {"stream": "stdout", "time": AT, "attrs": {}, "log": text + "\n"},
        "fluent": {"time": AT, "stream": "stdout", "logtag": "F", "message": text, "kubernetes": {"pod_name": "p"}},
        "firelens": {"date": AT_MS / 1000, "container_id": "c", "container_name": "n", "source": "stdout", "log": text},
        "telemetry": {"time": AT, "type": "function", "record": text + "\n"},
    }
    return f"{AT} stderr F {text}" if around == "cri" else json.dumps(around_text[around])


PRINTED = [
    ("2026-11-21 05:12:44,123 - orders.load - ERROR - no rows", (AT_MS * 1000, "ERROR", "orders.load", "no rows")),
    ("2026-11-21T05:12:44.123+02:00 [WARN] orders: slow", (AT_MS * 1000 - 1_000_000, "WARNING", "orders", "slow")),
    ("2026-11-21 05:12:44.123 CEST [7] LOG:  42 rows", (AT_MS * 1000 - 1_000_000, "INFO", None, "42 rows")),
    ("INFO 42 rows", (AT_MS * 1000, "INFO", None, "42 rows")),
    ("E1121 03:12:45.123456    1234 controller.go:12] no rows", (AT_MS * 1000, "ERROR", "controller.go", "no rows")),
    ("no rows", (AT_MS * 1000, None, None, "no rows")),
    ("", (AT_MS * 1000, None, None, "")),
    (f"{AT} stdout F ERROR no rows", (AT_MS * 1000, None, None, f"{AT} stdout F ERROR no rows")),
]


@pytest.mark.parametrize("around", ["docker", "cri", "firelens"])
@pytest.mark.parametrize(("text", "expected"), PRINTED)
def test_text_within_the_record_of_a_container(around: str, text: str, expected: tuple[Any, ...]) -> None:
    """The container's time counts for a text that states no zone."""
    assert reader_of(around)(contained(around, text)) == ParsedLine(*expected)


def test_field_of_the_record_itself_precedes_one_within() -> None:
    own = {"log.level": "error", "log.logger": "a", "message": "x"}
    for record in (own | {"log": {"level": "info", "logger": "b"}}, {"log": {"level": "info", "logger": "b"}} | own):
        assert row(json.dumps(record)) == ParsedLine(None, "ERROR", "a", "x")


def test_control_sequences_within_records() -> None:
    assert row(contained("docker", "\x1b[31mERROR\x1b[0m: no rows\r")) == ParsedLine(AT_MS * 1000, "ERROR", None, "no rows")
    assert row(json.dumps({"MESSAGE": [*b"\x1b[31mno rows\x1b[0m\r"], "PRIORITY": "3"})) == ParsedLine(
        None, "ERROR", None, "no rows"
    )
    assert row(json.dumps({"level": "warn", "msg": "\x1b[33mslow\x1b[0m"})) == ParsedLine(None, "WARNING", None, "slow")


def test_text_within_a_record_without_a_time() -> None:
    line = json.dumps({"log": "2026-11-21 03:12:45,123 - orders.load - ERROR - no rows", "stream": "stderr"})
    assert row(line) == ParsedLine(AT_MS * 1000, "ERROR", "orders.load", "no rows")


@pytest.mark.parametrize(
    "written", ['{"MESSAGE":null,"PRIORITY":"3"}', '{"MESSAGE":[300],"PRIORITY":"3"}', '{"MESSAGE":[[1]],"PRIORITY":"3"}']
)
def test_message_of_the_journal_that_is_none(written: str) -> None:
    assert row(written) == ParsedLine(None, "ERROR", None, written)


def test_several_messages_of_the_journal() -> None:
    assert row('{"MESSAGE":["a","b"],"PRIORITY":"3"}') == ParsedLine(None, "ERROR", None, "a\nb")


def test_event_of_clef_without_a_level_is_information() -> None:
    assert row(f'{{"@t":"{AT}","@mt":"{{Rows}} rows","Rows":42}}') == ParsedLine(AT_MS * 1000, "INFO", None, "{Rows} rows")


DATA: list[tuple[dict[str, Any], str]] = [
    ({"level": "E", "grade": "a"}, "level"), ({"level": "C", "floor": "x", "message": "x"}, "level"), ({"levelno": 40, "name": "x"}, "level"),
    ({"severityLevel": 3, "message": "storm"}, "level"), ({"LogLevel": 3, "Category": "books"}, "level"),
    ({"t": AT_MS, "body": "parcel", "level": 2}, "time level"), ({"level": 3, "floor": "x"}, "level"), ({"level": 42.5, "river": "Po"}, "level"),
    ({"level": 30, "player": "a", "message": "x"}, "level"), ({"level": 20, "time": 12.5, "msg": "x"}, "time level"),
    ({"level": 5, "time": AT, "msg": "x"}, "level"), ({"time": 12.5, "msg": "x"}, "time"), ({"time": "00:12", "msg": "x"}, "time"),
    ({"date": "2026", "msg": "x"}, "time"), ({"date": "2026-11-21", "msg": "x"}, "time"), ({"created": 1, "msg": "x"}, "time"),
    ({"created": AT_MS // 1000, "object": "list", "message": "x"}, "time"), ({"ts": 5, "msg": "x"}, "time"), ({"t": 20, "c": "red"}, "time level"),
    ({"t": 20, "s": "E", "c": "red"}, "time level"), ({"s": "E", "c": "W", "msg": "x"}, "level"), ({"t": AT_MS, "value": 3}, "time"),
    ({"severity": "2", "message": "x"}, "level"), ({"severity": 2, "message": "x"}, "level"), ({"severity": 500, "message": "x"}, "level"),
    ({"severity": "high", "message": "x"}, "level"), ({"priority": "high", "message": "x"}, "level"), ({"priority": "critical", "task": 1}, "level"),
    ({"priority": 1, "message": "x"}, "level"), ({"PRIORITY": "3", "task": 1}, "level"), ({"PRIORITY": 3}, "level"),
    ({"status": "error", "message": "x"}, "level"), ({"status": "error_rate"}, "level"), ({"level": "floor", "msg": "x"}, "level"),
    ({"level": "2", "msg": "x"}, "level"), ({"level": "30", "message": "x"}, "level"), ({"level": True, "msg": "x"}, "level"),
    ({"level": ["error"], "msg": "x"}, "level"), ({"level": {"error": 1}, "msg": "x"}, "level"), ({"level": None, "msg": "x"}, "level"),
    ({"level": "", "msg": "x"}, "level"), ({"level": -3, "time": AT_MS, "msg": "x"}, "level"), ({"level": 300, "time": AT_MS, "msg": "x"}, "level"),
    ({"level": 3e1, "time": AT_MS, "msg": "x"}, "level"), ({"level": 10**30, "time": AT_MS, "msg": "x"}, "level"),
    ({"message": {"level": "error", "time": AT}}, "time level"), ({"data": {"level": "error", "time": AT}, "msg": "x"}, "time level"),
    ({"context": {"level": "error", "timestamp": AT}, "msg": "x"}, "time level"), ({"fields": {"level": "error"}, "msg": "x"}, "level"),
    ({"info": {"info": {"level": "error", "ts": AT}}, "msg": "x"}, "time level"), ({"info": "error", "msg": "x"}, "level"),
    ({"type": "RECORD", "stream": "a", "record": {"level": "error", "time": AT, "message": "x"}}, "time level"),
    ({"type": "RECORD", "record": {"stream": "a", "data": {"level": "error"}, "emitted_at": AT_MS}}, "time level"),
    ({"order": 1, "date": AT, "name": "x"}, "time"), ({"id": 1, "datetime": AT}, "time"), ({"levelno": 40}, "level"),
    ({"levelno": 40, "game": "x"}, "level"), ({"severityNumber": 17}, "level"), ({"SeverityLevel": 3, "name": "x"}, "level"),
    ({"severity_number": 17, "flood": "x"}, "level"), ({"LogLevel": 4, "msg": "x"}, "level"), ({"version": "1.1", "level": 3, "host": "x"}, "level"),
    ({"name": "a", "level": 40, "v": 2, "msg": "x"}, "level"), ({"facility": "gym", "severity": 2, "message": "x"}, "level"),
    ({"pri": 3, "message": "x"}, "level"), ({"lvl": 60, "msg": "x"}, "level"), ({"log_level": 2, "message": "x"}, "level"),
    ({"levels": "error", "msg": "x"}, "level"), ({"error": "fatal", "msg": "x"}, "level"), ({"timestamp": {"value": 3}, "msg": "x"}, "time"),
    ({"timestamp": True, "msg": "x"}, "time"), ({"time": "2026-13-45T99:00:00Z", "msg": "x"}, "time"), ({"times": AT, "msg": "x"}, "time"),
    ({"@t": AT, "value": 1}, "time level"), ({"record": {"time": 12.5, "level": 3, "message": "x"}}, "time level"),
]  # fmt: skip


@pytest.mark.parametrize(("fields", "none"), DATA, ids=[json.dumps(fields)[:60] for fields, _ in DATA])
def test_data_is_neither_level_nor_time(fields: dict[str, Any], none: str) -> None:
    parsed = row(json.dumps(fields)) or ParsedLine(None, None, None, "")
    event = records.decoded(0, fields, TimestampParser(), {}).event
    for column in none.split():
        assert (parsed.timestamp if column == "time" else parsed.level) is None
        assert (event.timestamp if column == "time" else event.level) is None


@pytest.mark.parametrize(
    "name", [name for name in PRODUCERS if name not in {"journald's bytes", "Airbyte's errors", "OpenTelemetry's file exporter"}]
)
def test_record_that_was_cut_has_what_is_before_the_cut(name: str) -> None:
    rng = random.Random(name)
    expected, fields = said_by(name, rng.choice([*PRODUCERS[name][0]]), rng)
    size = rng.choice([8192, 16_384])
    for filling in ('a "b" \\ é \n' * (size // 8), [{"a": 1}] * (size // 8), {"b": {"c": "d" * size}}):
        raw = json.dumps({**fields, "zz": filling}, ensure_ascii=False).encode()[:size]
        assert row(raw.decode(errors="ignore")) == expected
    text, time = raw.decode(errors="ignore"), expected.timestamp or AT_MS * 1000
    assert reader_of("docker")(contained("docker", text)) == expected._replace(timestamp=time)


@pytest.mark.parametrize("end", range(1, 40))
def test_message_that_was_cut_anywhere(end: int) -> None:
    text = '"\\\n\u1234 é' * 300
    parsed = row(json.dumps({"level": "error", "msg": text})[: -1000 - end])
    assert parsed is not None and parsed.level == "ERROR" and len(parsed.message) > 500
    assert text.startswith(parsed.message)


@pytest.mark.parametrize(
    "text",
    ['{"level":"error","msg":"x"', '{"level":"error","msg":"' + "x" * (MIN_CUT_CHARS - 25), '{"level":"error","msg":"a "b" c"' + "x" * 9999,
     '{"level":"error","n":nonsense' + "x" * 9999, "{'level': 'error', 'msg': '" + "x" * 9999, '{"level":"error"} ' + "x" * 9999],
)  # fmt: skip
def test_broken_objects_are_not_cut_ones(text: str) -> None:
    assert row(text) is None


EXCEPTIONS: list[tuple[dict[str, Any], str]] = [
    ({"exception.type": "E", "exception.message": "no rows"}, "E: no rows"),
    ({"error.type": "E", "error.message": "no rows", "error.stack_trace": "E: no rows\n\tat a.B.c(B.java:1)"}, "E: no rows\n\tat"),
    ({"errorType": "E", "errorMessage": "no rows", "stackTrace": ["File x"]}, "E: no rows"),
    ({"exception_name": "E", "exception": "no rows"}, "E: no rows"),
    ({"exception_type": "E", "exception_message": "no rows", "exception_stacktrace": None}, "E: no rows"),
    ({"exceptionClass": "a.E", "exceptionMessage": "no rows"}, "a.E: no rows"),
    ({"exception.type": "E", "exception.stacktrace": "E: no rows\n  at f"}, "E: no rows\n  at f"),
    ({"error.kind": "E", "error.message": "no rows", "error.stack": "one line"}, "E: no rows"),
    ({"error_info": {"cls_name": "E", "message": "no rows", "stack": []}}, "E: no rows"),
    ({"exception": {"class": "a.E", "msg": "no rows", "stacktrace": [{"class": "a.B", "method": "c"}]}}, "a.E: no rows"),
    ({"exception": {"exception_class": "a.E", "exception_message": "no rows"}}, "a.E: no rows"),
    ({"thrown": {"name": "a.E", "message": "top", "cause": {"name": "b.F", "localizedMessage": "no rows"}}}, "a.E: top\nCaused by: b.F: no rows"),
    ({"throwable": {"className": "a.E", "message": "no rows", "stepArray": []}}, "a.E: no rows"),
    ({"exception": {"exceptionType": "a.E", "message": "no rows", "frames": []}}, "a.E: no rows"),
    ({"error_detail": [{"exc_type": "E", "exc_value": "no rows", "frames": []}]}, "E: no rows"),
    ({"err": {"type": "E", "message": "no rows", "stack": "E: no rows\n    at a (b.js:1:2)"}}, "E: no rows\n    at"),
    ({"exc_info": "Traceback (most recent call last):\nE: no rows"}, "Traceback (most recent call last):\nE: no rows"),
    ({"@x": "System.E: no rows"}, "System.E: no rows"),
    ({"attributes": {"exception.type": "E", "exception.message": "no rows"}}, "E: no rows"),
    ({"record": {"exception": {"type": "E", "value": "no rows", "traceback": True}}}, "E: no rows"),
]  # fmt: skip


@pytest.mark.parametrize(("fields", "text"), EXCEPTIONS, ids=range(len(EXCEPTIONS)))
def test_exception_in_the_fields_of_a_record(fields: dict[str, Any], text: str) -> None:
    explained = text_of_json(json.dumps({"level": "error", "msg": "failed", **fields}).encode())
    assert explained is not None and explained.decode().startswith(f"ERROR failed\n{text}")


@pytest.mark.parametrize("lines", [[{"level": 30}, {"level": 50}], [{"level": 50}], [{"lvl": "info"}, {"lvl": "eror"}]])
def test_numbers_of_errors_count_within_containers(lines: list[dict[str, Any]]) -> None:
    said = [json.dumps({**each, "time": AT_MS, "pid": 1, "msg": "x"}, separators=(",", ":")) for each in lines]
    for around in ("docker", "cri", "telemetry"):
        assert count_errors("".join(contained(around, each) + "\n" for each in said).encode()) == 1
