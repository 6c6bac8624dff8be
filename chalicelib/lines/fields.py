"""Lines that name their fields: JSON objects and logfmt. Each program has its own names; the usual ones are here, in order of trust.

Where a line has more than one of them, the first that makes sense counts.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from json import JSONDecoder
from typing import Any

from chalicelib.lines.clock import Clock
from chalicelib.lines.layout import Parse
from chalicelib.lines.levels import LEVELS, level_of_number, level_of_python, level_of_word
from chalicelib.lines.parsed import Parsed, parsed_of

MAX_JSON_CHARS = 1_048_576
"""A longer line is not looked into: objects take many times the memory of their text."""
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
"""Half the price of ``json.loads``. Control characters in a text are let pass."""

Shape = tuple[tuple[str, ...], tuple[str, ...], tuple[str, ...], tuple[str, ...]]
"""Which names of a line are those of its time, level, logger and message, in order of trust."""


class _Shapes(dict[tuple[str, ...], Shape]):
    """The lines of a log have the same few sets of names: each is looked at once. Forgets everything when full."""

    def __missing__(self, names: tuple[str, ...]) -> Shape:
        if len(self) >= _MAX_SHAPES:
            self.clear()
        time, level, logger, message = (
            tuple(name for name in known if name in names) for known in (_TIMES, _LEVELS, _LOGGERS, _MESSAGES)
        )
        self[names] = shape = (time, level, logger, message)
        return shape


def parse_json_with(clock: Clock) -> Parse:
    """Objects on a line of their own. One without time, level and message is data, no line of a log."""
    shapes = _Shapes()

    def parse(text: str) -> Parsed | None:
        if text[:1] != "{" or len(text) > MAX_JSON_CHARS:
            return None
        try:
            found, end = _decode(text)
        except (ValueError, RecursionError):
            return None
        if end != len(text) and text[end:].strip():
            return None
        if not found.keys().isdisjoint(_PARTS):
            found = _unfolded(found)
        times, levels, loggers, messages = shapes[tuple(found)]
        timestamp = _first_time(found, times, clock)
        level = _first_level(found, levels)
        message = _first_text(found, messages)
        if timestamp is None and level is None and message is None:
            return None
        logger = _first_text(found, loggers) or None
        if message is None:
            message = text
        if "\\" in text:
            logger, message = logger and _sound(logger), _sound(message.removesuffix("\n"))
        return parsed_of((timestamp, level, _without_place(logger), message))

    return parse


def _unfolded(found: dict[str, Any]) -> dict[str, Any]:
    """An object with what its usual parts hold: ``log`` of the Elastic common schema, ``record`` of loguru, MongoDB's short names."""
    for name in ("log", "record"):
        if isinstance(part := found.get(name), dict):
            found = {**found, **part}
    if isinstance(found.get("t"), dict):
        found = {**found, "level": found.get("s"), "logger": found.get("c")}
    return found


def _first_text(found: Mapping[str, Any], names: tuple[str, ...]) -> str | None:
    for name in names:
        if isinstance(value := found[name], str):
            return value
    return None


def _first_time(found: Mapping[str, Any], names: tuple[str, ...], clock: Clock) -> int | None:
    for name in names:
        value = found[name]
        if (us := clock.of_text(value) if isinstance(value, str) else _time(value, clock)) is not None:
            return us
    return None


def _first_level(found: Mapping[str, Any], names: tuple[str, ...]) -> str | None:
    for name in names:
        value = found[name]
        if (level := LEVELS.get(value) if isinstance(value, str) else None) or (level := _level(name, value)):
            return level
    return None


def _sound(text: str) -> str:
    """JSON can escape halves of characters, which nothing can store."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return text


def _without_place(logger: str | None) -> str | None:
    """A caller is its file, without the line."""
    return _PLACE.sub("", logger) if logger and ":" in logger else logger


def _time(value: Any, clock: Clock) -> int | None:
    if isinstance(value, bool):
        return None
    if isinstance(value, int | float):
        return clock.of_number(value)
    return _nested_time(value, clock) if isinstance(value, dict) else None


def _nested_time(value: Mapping[str, Any], clock: Clock) -> int | None:
    """MongoDB's ``$date``, loguru's ``timestamp``, and seconds with nanoseconds as log4j and Google Cloud write them."""
    for name in ("$date", "timestamp"):
        if isinstance(value.get(name), str | int | float):
            return _first_time(value, (name,), clock)
    for seconds_name, nanos_name in (("epochSecond", "nanoOfSecond"), ("seconds", "nanos")):
        seconds, nanos = value.get(seconds_name), value.get(nanos_name, 0)
        if type(seconds) is int and type(nanos) is int and 0 <= nanos < 1_000_000_000:
            us = clock.of_number(seconds)
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


def parse_logfmt_with(clock: Clock) -> Parse:
    """``key=value key="longer value"``. It has a level or a time, else it is some assignment."""
    shapes = _Shapes()

    def parse(text: str) -> Parsed | None:
        if _STARTS.match(text) is None:
            return None
        found = dict(_PAIRS.findall(text, 0, MAX_LOGFMT_CHARS))
        times, levels, loggers, messages = shape = shapes[tuple(found)]
        if '"' in text:
            for names in shape:
                for name in names:
                    if found[name][:1] == '"':
                        found[name] = _unquoted(found[name])
        timestamp, level = _first_time(found, times, clock), _first_level(found, levels)
        if timestamp is None and level is None:
            return None
        message = _first_text(found, messages) if len(text) <= MAX_LOGFMT_CHARS else None
        logger = _without_place(_first_text(found, loggers) or None)
        return parsed_of((timestamp, level, logger, text if message is None else message))

    return parse


def _unquoted(value: str) -> str:
    value = value[1:-1]
    return _ESCAPE.sub(lambda escape: _ESCAPED.get(escape[1], escape[1]), value) if "\\" in value else value
