"""The only table of the names that fields of log records have: which of them hold time, level, logger, message and error.

Used for lines and columns of JSON and logfmt, for agents' records, and to explain failures. In order of precedence:

1. the names of the producers whose other fields the record has (``PRODUCERS``);
2. names in use by many (``_GENERIC``), those of the record itself before those one level down (``info.msg``: ``msg`` in ``info``, or a
   field of that name).

Of several levels a word counts before a number, and a number only if a producer of the record states what its numbers mean: otherwise it
is data. Names that mostly hold data (``date``) are times only in a record with a level or a message.

Generic names are written in lower case with underscores, and match in any case, without underscores or with dashes in their place. Others, and
those of producers, match exactly.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Any, NamedTuple, TypeVar

from chalicelib.lines.levels import (
    CRITICAL,
    DEBUG,
    ERROR,
    INFO,
    ORDER,
    SEVERITIES,
    TRACE,
    WARNING,
    is_error,
    level_of_otlp,
    level_of_python,
)

_MAX_SHAPES, _MAX_CHARS = 1000, 16_384
"""Sets of names that are remembered, and the most characters of one."""
_MAX_NAMES = 200
"""Of a nested object, more are not read."""
T = TypeVar("T")
_MAX_DIGITS = 3


class Scale(NamedTuple):
    """What a producer's numbers mean. ``error_digits``: those with which a number of an error begins. ``is_timed``: the numbers count only in
    a record with a valid time."""

    levels: Mapping[int, str]
    error_digits: tuple[str, ...]
    is_timed: bool

    @classmethod
    def of(cls, levels: Mapping[int, str], is_timed: bool = False) -> Scale:
        """The scale of some numbers."""
        return cls(levels, tuple(sorted({str(number)[0] for number, level in levels.items() if is_error(level)})), is_timed)

    def level(self, value: Any) -> str | None:
        """The level of a number, or of a text of digits."""
        if type(value) is int:
            return self.levels.get(value)
        is_number = isinstance(value, str) and len(value) <= _MAX_DIGITS and value.isascii() and value.isdigit()
        return self.levels.get(int(value)) if is_number else None


_PINO = {number: ORDER[number // 10 - 1] for number in range(10, 70)}
PINO, PINO_UNTIMED = Scale.of(_PINO, is_timed=True), Scale.of(_PINO)
SYSLOG = Scale.of(dict(enumerate(SEVERITIES)))
PRIORITY = Scale.of({number: SEVERITIES[number % 8] for number in range(192)})
PYTHON = Scale.of({number: level for number in range(100) if (level := level_of_python(number))})
OTEL = Scale.of({number: level for number in range(25) if (level := level_of_otlp(number))})
GOOGLE = Scale.of({100: DEBUG, 200: INFO, 300: INFO, 400: WARNING, 500: ERROR, 600: CRITICAL, 700: CRITICAL, 800: CRITICAL})
WINDOWS = Scale.of({1: CRITICAL, 2: ERROR, 3: WARNING, 4: INFO, 5: TRACE})
INSIGHTS = Scale.of(dict(enumerate((TRACE, INFO, WARNING, ERROR, CRITICAL))))
DOTNET = Scale.of(dict(enumerate(ORDER)))


class Producer(NamedTuple):
    """A program or library. A record with the fields ``has`` and one of ``any_of`` is its own; the other fields are the names that count first,
    and ``numbers`` the scales of those that hold numbers. ``level``: of its records without one. ``is_data``: its records are no log lines."""

    has: frozenset[str]
    any_of: frozenset[str] = frozenset()
    times: tuple[str, ...] = ()
    levels: tuple[str, ...] = ()
    loggers: tuple[str, ...] = ()
    messages: tuple[str, ...] = ()
    numbers: tuple[tuple[str, Scale], ...] = ()
    level: str | None = None
    is_data: bool = False

    def wrote(self, names: frozenset[str]) -> bool:
        """Whether a record with these names is the producer's."""
        return self.has <= names and (not self.any_of or not self.any_of.isdisjoint(names))


def _producer(
    has: str,
    any_of: str = "",
    *,
    times: str = "",
    levels: str = "",
    loggers: str = "",
    messages: str = "",
    numbers: tuple[tuple[str, Scale], ...] = (),
    level: str | None = None,
    is_data: bool = False,
) -> Producer:
    names = [tuple(each.split()) for each in (times, levels, loggers, messages)]
    return Producer(
        frozenset(has.split()), frozenset(any_of.split()), names[0], names[1], names[2], names[3], numbers, level, is_data
    )


_PINO_FIELDS = "pid hostname msg v err req res reqId"
_OTEL_FIELDS = (
    "body Body body.stringValue body.Value timeUnixNano observedTimeUnixNano severityText SeverityText severity_text Timestamp timestamp"
    " traceId TraceId attributes Attributes"
)
_PYTHON_FIELDS = "msg message created levelname asctime msecs funcName lineno pathname process threadName"
_SYSLOG_FIELDS = (
    "host hostname tag program app_name appname app-name ident pid procid proc_id process priority timereported syslogtag"
)
_SYSLOG_LOGGERS = "app_name appname app-name program ident tag"
_GOOGLE_FIELDS = (
    "logName insertId textPayload jsonPayload protoPayload receiveTimestamp timestampSeconds"
    " logging.googleapis.com/sourceLocation logging.googleapis.com/labels logging.googleapis.com/insertId logging.googleapis.com/trace"
    " logging.googleapis.com/spanId logging.googleapis.com/operation"
)
_INSIGHTS_FIELDS = "itemType TimeGenerated timestamp operation_Id OperationId"

_OTEL_FILE = "resourceLogs.scopeLogs.logRecords"
"""Where the first record is in a line of the collector's file exporter."""

PRODUCERS: Mapping[str, Producer] = {
    "Singer's records": _producer("record stream", is_data=True),
    "Airbyte's records": _producer("type record.stream", is_data=True),
    "Airbyte's errors": _producer("trace.error.message", times="trace.emitted_at", messages="trace.error.message", level=ERROR),
    "MongoDB": _producer("t.$date s c", times="t.$date", levels="s", loggers="c", messages="msg"),
    "CLEF": _producer("@t", "@m @mt @i @l @x", times="@t", levels="@l", loggers="SourceContext", messages="@m @mt", level=INFO),
    "Serilog": _producer("MessageTemplate Level", messages="RenderedMessage MessageTemplate", loggers="Properties.SourceContext"),
    ".NET": _producer("LogLevel", "EventId State", loggers="Category", numbers=(("LogLevel", DOTNET),)),
    "loguru": _producer("text record.level", times="record.time", levels="record.level", loggers="record.name", messages="record.message"),
    "Rust's tracing": _producer("level target", "fields.message span spans", loggers="target"),
    "journald": _producer(
        "PRIORITY",
        "__REALTIME_TIMESTAMP _SOURCE_REALTIME_TIMESTAMP MESSAGE SYSLOG_IDENTIFIER _HOSTNAME",
        times="__REALTIME_TIMESTAMP _SOURCE_REALTIME_TIMESTAMP",
        loggers="SYSLOG_IDENTIFIER _COMM _SYSTEMD_UNIT",
        messages="MESSAGE",
        numbers=(("PRIORITY", SYSLOG),),
    ),
    "GELF": _producer("short_message", "version host", messages="short_message", loggers="_logger _log_logger", numbers=(("level", SYSLOG),)),
    "syslog": _producer("severity facility", _SYSLOG_FIELDS, loggers=_SYSLOG_LOGGERS, numbers=(("severity", SYSLOG),)),
    "rsyslog": _producer("syslogseverity", _SYSLOG_FIELDS, loggers=_SYSLOG_LOGGERS, numbers=(("syslogseverity", SYSLOG),)),
    "Fluent Bit's syslog": _producer("pri", "ident host", loggers="ident", numbers=(("pri", PRIORITY),)),
    "Python's logging, level": _producer("level", "funcName pathname lineno processName relativeCreated", numbers=(("level", PYTHON),)),
    "pino and bunyan": _producer("level time", _PINO_FIELDS, numbers=(("level", PINO),)),
    "pino without a time": _producer("level pid hostname", numbers=(("level", PINO_UNTIMED),)),
    "Python's logging": _producer("levelno", _PYTHON_FIELDS, times="created", numbers=(("levelno", PYTHON),)),
    "Python's formatters": _producer("created", "levelname levelno msecs funcName", times="created"),
    "Prefect and Dagster": _producer(
        "level message timestamp", "flow_run_id task_run_id dagster_event", loggers="name", numbers=(("level", PYTHON),)
    ),
    "OpenTelemetry": _producer("severityNumber", _OTEL_FIELDS, numbers=(("severityNumber", OTEL),)),
    "OpenTelemetry's file exporter": _producer(f"{_OTEL_FILE}.severityNumber", numbers=((f"{_OTEL_FILE}.severityNumber", OTEL),)),
    "OpenTelemetry's SDKs": _producer("SeverityNumber", _OTEL_FIELDS, numbers=(("SeverityNumber", OTEL),)),
    "OpenTelemetry in Python": _producer("severity_number", _OTEL_FIELDS, numbers=(("severity_number", OTEL),)),
    "OpenTelemetry in Go": _producer("Severity SeverityText", _OTEL_FIELDS, numbers=(("Severity", OTEL),)),
    "Google Cloud": _producer("severity", _GOOGLE_FIELDS, numbers=(("severity", GOOGLE),)),
    "Azure Monitor": _producer(
        "time category", "resourceId operationName", loggers="category", messages="resultDescription properties.message properties.log",
        numbers=(("level", WINDOWS), ("Level", WINDOWS)),
    ),
    "Application Insights": _producer("severityLevel", _INSIGHTS_FIELDS, numbers=(("severityLevel", INSIGHTS),)),
    "Application Insights' tables": _producer("SeverityLevel", _INSIGHTS_FIELDS, numbers=(("SeverityLevel", INSIGHTS),)),
    "Application Insights' envelopes": _producer(
        "data.baseData.severityLevel", numbers=(("data.baseData.severityLevel", INSIGHTS),)
    ),
    "Datadog": _producer("status message", "ddsource ddtags dd.trace_id dd.service", levels="status"),
    "log15 and Grafana": _producer("t msg", "lvl level", times="t"),
    "PostgreSQL": _producer("error_severity session_id", level=INFO),
    "Istio": _producer("level time scope msg", loggers="scope"),
}  # fmt: skip
"""Signatures are the names that the producer always writes, or nearly."""


_WITHIN = ("info", "log", "record", "body", "json_payload", "@fields")
"""Objects within which a record may have its fields."""


def _with_those_within(own: str, names: str, others: str = "") -> Sequence[str]:
    """The names of a record itself, then those one level down."""
    return (*own.split(), *(f"{part}.{name}" for name in names.split() for part in _WITHIN), *others.split())


_TIMES = _with_those_within(
    "@timestamp timestamp time ts asctime event_time time_millis instant timestampSeconds time_unix_nano __REALTIME_TIMESTAMP"
    " timereported iso_date",
    "timestamp @timestamp time ts",
    f"{_OTEL_FILE.lower()}.time_unix_nano observed_time_unix_nano {_OTEL_FILE.lower()}.observed_time_unix_nano",
)
_WEAK_TIMES = ("date_time", "date", "time_generated", "time_iso8601", "event_timestamp", "log_time", "log_timestamp")
_LEVELS = _with_those_within(
    "level level_name severity log.level lvl log_level severity_text severity_level severity_label level_str level_text @level _level_name"
    " error_severity PRIORITY syslogseverity-text",
    "level level_name severity severity_text",
    f"properties.level {_OTEL_FILE.lower()}.severity_text",
)
_LOGGERS = _with_those_within(
    "logger logger_name log.logger name component channel module @module _logger source_context caller SYSLOG_IDENTIFIER PROGRAM",
    "logger logger_name",
    "record.name @fields.name",
)
_MESSAGES = _with_those_within(
    "formatted_message message msg event short_message body @message text_payload log_message result_description",
    "message msg event",
    f"body.string_value body.value body.text fields.message properties.message data.base_data.message {_OTEL_FILE.lower()}.body.string_value"
    " text log error_message",
)
_TIME, _WEAK_TIME, _LEVEL, _LOGGER, _MESSAGE = range(5)
_PRINTED = (("log", "stream"), ("message", "stream"), ("log", "source"), ("record", "type"))
"""Where a container's runtime, a collector or Lambda puts the text that a program printed, and the field that names its stream."""
NAMES_OF_STREAMS = frozenset({"stdout", "stderr", "function", "extension"})
_LISTED = "resourceLogs"
"""Begins the names of lists, of which the first record is read."""
_SECONDS_OF_GOOGLE, NANOS_OF_GOOGLE = "timestampSeconds", "timestampNanos"


class Reading(NamedTuple):
    """How to read records with certain names; each tuple in order of precedence.

    ``words``: names of levels that are words; ``numbers``: those that are numbers, with their scale; ``level``: of a record that states none.
    ``printed``: names of a text that a program printed and of its stream. ``parts``: names that may hold objects with further names.
    ``has_nanos``: the seconds of its time have their fraction in another field. ``texts``: names of messages, a printed text first.
    """

    times: tuple[str, ...] = ()
    words: tuple[str, ...] = ()
    numbers: tuple[tuple[str, Scale], ...] = ()
    loggers: tuple[str, ...] = ()
    messages: tuple[str, ...] = ()
    level: str | None = None
    printed: tuple[tuple[str, str], ...] = ()
    parts: tuple[str, ...] = ()
    has_nanos: bool = False
    texts: tuple[str, ...] = ()


def _spellings(name: str) -> Iterator[str]:
    yield name
    if name == name.lower():
        yield name.replace("_", "")
        yield name.replace("_", "-")


def _ranked() -> Mapping[str, tuple[tuple[int, int], ...]]:
    """By name: its kinds, with its rank in each."""
    ranked: dict[str, dict[int, int]] = {}
    for kind, names in enumerate((_TIMES, _WEAK_TIMES, _LEVELS, _LOGGERS, _MESSAGES)):
        for rank, name in enumerate(names):
            for spelling in _spellings(name):
                ranked.setdefault(spelling, {}).setdefault(kind, rank)
    return {name: tuple(kinds.items()) for name, kinds in ranked.items()}


_KINDS = _ranked()
_OF_PRODUCERS = frozenset(
    name for each in PRODUCERS.values() for name in (*each.has, *each.any_of, *each.times, *each.loggers, *each.messages)
)
_PARTS = frozenset(name[:at] for name in (*_KINDS, *_OF_PRODUCERS) for at, sign in enumerate(name) if sign == ".")


def _kinds(name: str) -> tuple[tuple[int, int], ...]:
    return _KINDS.get(name) or _KINDS.get(name.lower(), ())


def reading_of(names: Sequence[str]) -> Reading:
    """How to read a record with these names."""
    present = frozenset(names)
    wrote = [each for each in PRODUCERS.values() if each.wrote(present)]
    if any(each.is_data for each in wrote):
        return Reading()
    ranked: tuple[list[tuple[int, int]], ...] = ([], [], [], [], [])
    for place, name in enumerate(names):
        for kind, rank in _kinds(name):
            ranked[kind].append((rank, place))
    times, weak_times, words, loggers, messages = ([names[place] for _, place in sorted(each)] for each in ranked)
    if words or messages or wrote:
        times += weak_times

    def first(own: str, others: Sequence[str]) -> tuple[str, ...]:
        stated = [name for each in wrote for name in getattr(each, own) if name in present]
        return tuple(dict.fromkeys((*stated, *others)))

    named, printed = first("messages", messages), tuple(pair for pair in _PRINTED if present.issuperset(pair))
    return Reading(
        first("times", times),
        first("levels", words),
        tuple((name, scale) for each in wrote for name, scale in each.numbers if name in present),
        first("loggers", loggers),
        named,
        next((each.level for each in wrote if each.level), None),
        printed,
        tuple(name for name in names if name in _PARTS or name.lower() in _PARTS),
        _SECONDS_OF_GOOGLE in present and NANOS_OF_GOOGLE in present,
        (*dict(printed), *named),
    )


class _Remembered(dict[tuple[str, ...], T]):
    """The results of a function: the lines of a log have few distinct sets of names. Cleared when full; long names are not remembered."""

    def __init__(self, compute: Callable[[tuple[str, ...]], T]) -> None:
        super().__init__()
        self._compute = compute

    def __missing__(self, names: tuple[str, ...]) -> T:
        result = self._compute(names)
        if sum(map(len, names)) <= _MAX_CHARS:
            if len(self) >= _MAX_SHAPES:
                self.clear()
            self[names] = result
        return result


READINGS: Mapping[tuple[str, ...], Reading] = _Remembered(reading_of)
"""``reading_of`` for the names of a record in order, remembered for the process."""


def _leaves_of(part_and_names: Sequence[str]) -> Sequence[tuple[str, str]]:
    """The known names of an object, and their paths."""
    part, *names = part_and_names
    paths = ((name, f"{part}.{name}") for name in names)
    return tuple((name, path) for name, path in paths if _kinds(path) or path in _OF_PRODUCERS or path.lower() in _PARTS)


_LEAVES: Mapping[tuple[str, ...], Sequence[tuple[str, str]]] = _Remembered(_leaves_of)


def lift(fields: dict[str, Any], reading: Reading) -> Reading:
    """Adds the fields of nested objects that have a known name, as ``info.msg``, and returns the reading of all. A field of the record itself
    precedes one that is lifted to the same name."""
    done = 0
    while done < len(reading.parts):
        parts, before = reading.parts[done:], len(fields)
        for part in parts:
            within = fields[part]
            if type(within) is list and within and part.startswith(_LISTED):
                within = within[0]
            if isinstance(within, dict):
                names = within if len(within) <= _MAX_NAMES else islice(within, _MAX_NAMES)
                for name, path in _LEAVES[part, *names]:
                    fields.setdefault(path, within[name])
        if len(fields) == before:
            break
        done += len(parts)
        reading = READINGS[tuple(fields)]
    return reading
