"""Lines with named fields: JSON objects and logfmt. Known names of each column are listed in order of precedence; the first valid
value counts."""

from __future__ import annotations

import re
from collections.abc import Mapping
from json import JSONDecoder
from typing import Any

from chalicelib.lines.layout import LineParser
from chalicelib.lines.levels import LEVELS, level_of_number, level_of_python, level_of_word
from chalicelib.lines.parsed import ParsedLine, new_parsed_line
from chalicelib.lines.timestamps import TimestampParser

MAX_JSON_CHARS = 1_048_576
"""Longer lines are not parsed: objects take many times the memory of their text."""
MAX_LOGFMT_CHARS = 65_536

_TIMES = (
    "timestamp",
    "@timestamp",
    "time",
    "ts",
    "t",
    "asctime",
    "datetime",
    "date",
    "timeMillis",
    "instant",
    "eventTime",
    "timeUnixNano",
    "created",
    "__REALTIME_TIMESTAMP",
)
_LEVELS = (
    "level",
    "levelname",
    "severity",
    "log.level",
    "lvl",
    "loglevel",
    "log_level",
    "logLevel",
    "level_name",
    "severityText",
    "severity_text",
    "PRIORITY",
    "levelno",
)
_LOGGERS = (
    "logger",
    "logger_name",
    "loggerName",
    "log.logger",
    "name",
    "component",
    "channel",
    "module",
    "caller",
    "SYSLOG_IDENTIFIER",
)
_MESSAGES = ("message", "msg", "event", "short_message", "body", "text", "log", "@message", "MESSAGE")
_PARTS = frozenset({"log", "record", "t"})
_PLACE = re.compile(r":[0-9]+$", re.ASCII)
_MAX_SHAPES = 1000
_decode = JSONDecoder(strict=False).raw_decode
"""Half the cost of ``json.loads``. Accepts control characters in strings."""

FieldNames = tuple[tuple[str, ...], tuple[str, ...], tuple[str, ...], tuple[str, ...]]
"""The names in a line that hold its time, level, logger and message, in order of precedence."""


class FieldNamesCache(dict[tuple[str, ...], FieldNames]):
    """The lines of a log have few distinct sets of names: each is resolved once. Cleared when full."""

    def __missing__(self, names: tuple[str, ...]) -> FieldNames:
        if len(self) >= _MAX_SHAPES:
            self.clear()
        time, level, logger, message = (
            tuple(name for name in known if name in names) for known in (_TIMES, _LEVELS, _LOGGERS, _MESSAGES)
        )
        self[names] = shape = (time, level, logger, message)
        return shape


def parse_json_with(time_parser: TimestampParser) -> LineParser:
    """Parses one JSON object per line. Objects without time, level and message are data, not log lines."""
    names_cache = FieldNamesCache()

    def parse(text: str) -> ParsedLine | None:
        if text[:1] != "{" or len(text) > MAX_JSON_CHARS:
            return None
        try:
            fields, end = _decode(text)
        except (ValueError, RecursionError):
            return None
        if end != len(text) and text[end:].strip():
            return None
        if not fields.keys().isdisjoint(_PARTS):
            fields = _unfolded(fields)
        times, levels, loggers, messages = names_cache[tuple(fields)]
        timestamp = first_time(fields, times, time_parser)
        level = first_level(fields, levels)
        message = _first_text(fields, messages)
        if timestamp is None and level is None and message is None:
            return None
        logger = _first_text(fields, loggers) or None
        if message is None:
            message = text
        if "\\" in text:
            logger, message = logger and _sound(logger), _sound(message.removesuffix("\n"))
        return new_parsed_line((timestamp, level, without_place(logger), message))

    return parse


def _unfolded(fields: dict[str, Any]) -> dict[str, Any]:
    """The object with nested fields lifted: ``log`` of the Elastic Common Schema, ``record`` of loguru, MongoDB's short names."""
    for name in ("log", "record"):
        if isinstance(part := fields.get(name), dict):
            fields = {**fields, **part}
    if isinstance(fields.get("t"), dict):
        fields = {**fields, "level": fields.get("s"), "logger": fields.get("c")}
    return fields


def _first_text(fields: Mapping[str, Any], names: tuple[str, ...]) -> str | None:
    for name in names:
        if isinstance(value := fields[name], str):
            return value
    return None


def first_time(fields: Mapping[str, Any], names: tuple[str, ...], time_parser: TimestampParser) -> int | None:
    """The first valid time of some fields, in microseconds since the epoch."""
    for name in names:
        value = fields[name]
        if (us := time_parser.parse_text(value) if isinstance(value, str) else _time(value, time_parser)) is not None:
            return us
    return None


def first_level(fields: Mapping[str, Any], names: tuple[str, ...]) -> str | None:
    """The first valid level of some fields."""
    for name in names:
        value = fields[name]
        if (level := LEVELS.get(value) if isinstance(value, str) else None) or (level := _level(name, value)):
            return level
    return None


def _sound(text: str) -> str:
    """Replaces lone surrogates, which JSON can escape and UTF-8 cannot encode."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return text


def without_place(logger: str | None) -> str | None:
    """Removes the line number from a caller, which leaves its file."""
    return _PLACE.sub("", logger) if logger and ":" in logger else logger


def _time(value: Any, time_parser: TimestampParser) -> int | None:
    if isinstance(value, bool):
        return None
    if isinstance(value, int | float):
        return time_parser.parse_number(value)
    return _nested_time(value, time_parser) if isinstance(value, dict) else None


def _nested_time(value: Mapping[str, Any], time_parser: TimestampParser) -> int | None:
    """MongoDB's ``$date``, loguru's ``timestamp``, and seconds with nanoseconds as in log4j and Google Cloud."""
    for name in ("$date", "timestamp"):
        if isinstance(value.get(name), str | int | float):
            return first_time(value, (name,), time_parser)
    for seconds_name, nanos_name in (("epochSecond", "nanoOfSecond"), ("seconds", "nanos")):
        seconds, nanos = value.get(seconds_name), value.get(nanos_name, 0)
        if type(seconds) is int and type(nanos) is int and 0 <= nanos < 1_000_000_000:
            us = time_parser.parse_number(seconds)
            return None if us is None else us + nanos // 1000
    return None


def _level(name: str, value: Any) -> str | None:
    if isinstance(value, str):
        return level_of_number(int(value)) if value.isascii() and value.isdigit() and len(value) < 3 else level_of_word(value)
    if isinstance(value, dict):
        return _level(name, value.get("name"))
    if type(value) is not int:
        return None
    return level_of_python(value) if name == "levelno" else level_of_number(value)


_STARTS = re.compile(r"[A-Za-z_@][\w.@/-]*+=", re.ASCII)
_PAIRS = re.compile(r"(?<!\S)([^\s=\"]++)=(\"[^\"\\]*+(?:\\.[^\"\\]*+)*\"|[^\s\"]*+)(?!\S)")
_ESCAPE = re.compile(r"\\(.)")
_ESCAPED = {"n": "\n", "t": "\t", "r": "\r"}


def parse_logfmt_with(time_parser: TimestampParser) -> LineParser:
    """Parses ``key=value key="longer value"``. A line without level and time is some other assignment."""
    names_cache = FieldNamesCache()

    def parse(text: str) -> ParsedLine | None:
        if _STARTS.match(text) is None:
            return None
        fields = dict(_PAIRS.findall(text, 0, MAX_LOGFMT_CHARS))
        times, levels, loggers, messages = shape = names_cache[tuple(fields)]
        if '"' in text:
            for names in shape:
                for name in names:
                    if fields[name][:1] == '"':
                        fields[name] = _unquoted(fields[name])
        timestamp, level = first_time(fields, times, time_parser), first_level(fields, levels)
        if timestamp is None and level is None:
            return None
        message = _first_text(fields, messages) if len(text) <= MAX_LOGFMT_CHARS else None
        logger = without_place(_first_text(fields, loggers) or None)
        return new_parsed_line((timestamp, level, logger, text if message is None else message))

    return parse


def _unquoted(value: str) -> str:
    value = value[1:-1]
    return _ESCAPE.sub(lambda escape: _ESCAPED.get(escape[1], escape[1]), value) if "\\" in value else value
