"""Lines with named fields: JSON objects and logfmt. ``field_names`` states which names count; of several, the first valid value does."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from json import JSONDecoder
from typing import Any

from chalicelib.lines.field_names import NAMES_OF_STREAMS, NANOS_OF_GOOGLE, READINGS, Reading, lift
from chalicelib.lines.layout import LineParser
from chalicelib.lines.levels import LEVELS, level_of_word
from chalicelib.lines.parsed import ParsedLine, new_parsed_line
from chalicelib.lines.text import without_escapes
from chalicelib.lines.timestamps import TimestampParser

MAX_JSON_CHARS = 1_048_576
"""Longer lines are not parsed: objects take many times the memory of their text."""
MAX_LOGFMT_CHARS = 65_536
MIN_CUT_CHARS = 2048
"""A shorter line that is no complete object is not one that was cut: 8 KiB of UTF-8 have at least so many characters."""
_MAX_CUT_NAMES = 1000
_PLACE = re.compile(r":[0-9]+$", re.ASCII)
_NAME = re.compile(r'[\s,]{0,9}+"((?:[^"\\]|\\.){0,200}+)"\s{0,9}+:\s{0,9}+', re.DOTALL)
_CUT_NAME = re.compile(r'[\s,]{0,9}+(?:"(?:[^"\\]|\\.?){0,200}+"?\s{0,9}+:?)?\s{0,9}+', re.DOTALL)
_NESTS, _LITERAL_CHARS = ('"', "{", "[", ""), len("false")
_PARTIAL_ESCAPE, _ESCAPE_CHARS = re.compile(r"\\(?:u[0-9a-fA-F]{0,3})?\Z"), len(r"\u123")
_decode = JSONDecoder(strict=False).raw_decode
"""Half the cost of ``json.loads``. Accepts control characters in strings."""


PrintedParser = Callable[[str, int | None], ParsedLine | None]
"""Parses the text that a program printed, in the record of a container's runtime with this time."""


def parse_objects_with(time_parser: TimestampParser, parse_printed: PrintedParser | None = None) -> LineParser:
    """Parses one JSON object per line. Objects without time, level and message are data, not log lines. Records of a container's runtime have
    the columns of the text in them; None: that text is the message."""

    def parse(text: str) -> ParsedLine | None:
        if text[:1] != "{" or len(text) > MAX_JSON_CHARS:
            return None
        try:
            fields, end = _decode(text)
        except ValueError:
            fields, end = cut_object(text), len(text)
        except RecursionError:
            fields, end = _cut_object(text, 0, 1), len(text)
        if end != len(text) and text[end:].strip():
            return None
        reading = READINGS[tuple(fields)]
        if reading.parts:
            reading = lift(fields, reading)
        timestamp = first_time(fields, reading, time_parser)
        level = first_level(fields, reading, timestamp is not None)
        message = first_text(fields, reading.messages)
        if timestamp is None and level is None and message is None:
            return None
        logger = first_text(fields, reading.loggers) or None
        if reading.printed and level is None and (printed := printed_text(fields, reading)) is not None:
            message, logger = printed, None
            if parse_printed is not None and (line := parse_printed(message, timestamp)) is not None:
                timestamp, level, logger, message = line
        elif message is None:
            message = text
        if "\\" in text:
            logger, message = logger and _sound(logger), _sound(message.removesuffix("\n"))
        return new_parsed_line((timestamp, level, without_place(logger), message))

    return parse


def cut_object(text: str) -> dict[str, Any]:
    """The fields of an object whose end is missing, up to there; the last text may be incomplete. Empty if it is too short to have been cut. Reads
    each character a few times."""
    return _cut_object(text, 0, 1) if len(text) >= MIN_CUT_CHARS else {}


def _cut_object(text: str, start: int, depth: int) -> dict[str, Any]:
    fields: dict[str, Any] = {}
    at = start + 1
    while len(fields) < _MAX_CUT_NAMES and (name := _NAME.match(text, at)) is not None:
        at = name.end()
        try:
            fields[name[1]], at = _decode(text, at)
        except (ValueError, RecursionError):
            begun = text[at : at + 1]
            if begun == '"':
                fields[name[1]] = _cut_text(text[at + 1 :])
            elif begun == "{" and depth:
                fields[name[1]] = _cut_object(text, at, depth - 1)
            return fields if begun in _NESTS or len(text) - at < _LITERAL_CHARS else {}
    return fields if len(fields) == _MAX_CUT_NAMES or _CUT_NAME.fullmatch(text, at) else {}


def _cut_text(text: str) -> str | None:
    """A text without its end, nor the escape sequence that was cut."""
    if (escape := _PARTIAL_ESCAPE.search(text, max(len(text) - _ESCAPE_CHARS, 0))) is not None:
        before = text[: escape.start() + 1]
        if (len(before) - len(before.rstrip("\\"))) % 2:
            text = before[:-1]
    try:
        return str(_decode(f'"{text}"')[0])
    except ValueError:
        return None


def first_text(fields: Mapping[str, Any], names: tuple[str, ...]) -> str | None:
    """The first text of some fields."""
    for name in names:
        if isinstance(value := fields[name], str):
            return value
        if type(value) is list and name == "MESSAGE" and (text := journal_text(value)) is not None:
            return text
    return None


def printed_text(fields: Mapping[str, Any], reading: Reading) -> str | None:
    """The text that a program printed, in the record of a container's runtime."""
    for text, stream in reading.printed:
        printed = fields[text]
        if isinstance(printed, str) and isinstance(fields[stream], str) and fields[stream] in NAMES_OF_STREAMS:
            printed = printed.removesuffix("\n").removesuffix("\r")
            return without_escapes(printed) if "\x1b" in printed else printed
    return None


def journal_text(value: list[Any]) -> str | None:
    """A text that the journal shows as its bytes, since it has control characters; or several texts of one name."""
    if value and all(isinstance(each, str) for each in value):
        return "\n".join(value)
    try:
        return without_escapes(bytes(value).decode(errors="replace").rstrip("\r\n"))
    except (ValueError, TypeError):
        return None


def first_time(fields: Mapping[str, Any], reading: Reading, time_parser: TimestampParser) -> int | None:
    """The first valid time of a record, in microseconds since the epoch."""
    for name in reading.times:
        value = fields[name]
        if (us := time_parser.parse_text(value) if isinstance(value, str) else time_of(value, time_parser)) is not None:
            return us + nanos_of(fields) // 1000 if reading.has_nanos else us
    return None


def nanos_of(fields: Mapping[str, Any]) -> int:
    """The fraction of a second that Google Cloud states in a field of its own."""
    nanos = fields[NANOS_OF_GOOGLE]
    return nanos if type(nanos) is int and 0 <= nanos < 1_000_000_000 else 0


def first_level(fields: Mapping[str, Any], reading: Reading, has_time: bool) -> str | None:
    """The level of a record: of the first word that is one, else of the first number, else the producer's for records that state none."""
    for name in reading.words:
        value = fields[name]
        if level := (LEVELS.get(value) if isinstance(value, str) else None) or word_level(value, has_letters=bool(reading.times)):
            return level
    return number_level(fields, reading, has_time) if reading.numbers else reading.level


def number_level(fields: Mapping[str, Any], reading: Reading, has_time: bool) -> str | None:
    """The level of a record in which no word is one."""
    for name, scale in reading.numbers:
        if (has_time or not scale.is_timed) and (level := scale.level(fields[name])) is not None:
            return level
    return reading.level


def word_level(value: Any, *, has_letters: bool) -> str | None:
    """The level that a value names; loguru's is an object with a name. ``has_letters``: a single letter names one, too: it is data in a record
    without a time."""
    if isinstance(value, str):
        return level_of_word(value) if has_letters or len(value.strip()) > 1 else None
    return word_level(value.get("name"), has_letters=has_letters) if isinstance(value, dict) else None


def _sound(text: str) -> str:
    """Without what JSON can escape and a line cannot have: control sequences, and lone surrogates, which UTF-8 cannot encode."""
    if "\x1b" in text:
        text = without_escapes(text)
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return text


def without_place(logger: str | None) -> str | None:
    """Removes the line number from a caller, which leaves its file."""
    return _PLACE.sub("", logger) if logger and ":" in logger else logger


def time_of(value: Any, time_parser: TimestampParser) -> int | None:
    """The time of a value, in microseconds since the epoch."""
    kind = type(value)
    if kind is str:
        return time_parser.parse_text(value)
    if kind is int or kind is float:
        return time_parser.parse_number(value)
    return _nested_time(value, time_parser) if kind is dict else None


def _nested_time(value: Mapping[str, Any], time_parser: TimestampParser) -> int | None:
    """MongoDB's ``$date``, loguru's ``timestamp``, and seconds with nanoseconds as in log4j and Google Cloud."""
    for name in ("$date", "timestamp"):
        if isinstance(value.get(name), str | int | float):
            return time_of(value[name], time_parser)
    for seconds_name, nanos_name in (("epochSecond", "nanoOfSecond"), ("seconds", "nanos")):
        seconds, nanos = value.get(seconds_name), value.get(nanos_name, 0)
        if type(seconds) is int and type(nanos) is int and 0 <= nanos < 1_000_000_000:
            us = time_parser.parse_number(seconds)
            return None if us is None else us + nanos // 1000
    return None


LOGFMT_LOOK = r"[A-Za-z_@][\w.@/-]*+="
_STARTS = re.compile(LOGFMT_LOOK, re.ASCII)
_PAIRS = re.compile(r"(?<!\S)([^\s=\"]++)=(\"[^\"\\]*+(?:\\.[^\"\\]*+)*\"|[^\s\"]*+)(?!\S)")
_ESCAPE = re.compile(r"\\(.)")
_ESCAPED = {"n": "\n", "t": "\t", "r": "\r"}


def parse_logfmt_with(time_parser: TimestampParser) -> LineParser:
    """Parses ``key=value key="longer value"``. A line without level and time is some other assignment."""

    def parse(text: str) -> ParsedLine | None:
        if _STARTS.match(text) is None:
            return None
        fields = dict(_PAIRS.findall(text, 0, MAX_LOGFMT_CHARS))
        reading = READINGS[tuple(fields)]
        if '"' in text:
            for names in (reading.times, reading.words, reading.loggers, reading.messages):
                for name in names:
                    if fields[name][:1] == '"':
                        fields[name] = _unquoted(fields[name])
        timestamp = first_time(fields, reading, time_parser)
        level = first_level(fields, reading, timestamp is not None)
        if timestamp is None and level is None:
            return None
        message = first_text(fields, reading.messages) if len(text) <= MAX_LOGFMT_CHARS else None
        logger = without_place(first_text(fields, reading.loggers) or None)
        return new_parsed_line((timestamp, level, logger, text if message is None else message))

    return parse


def _unquoted(value: str) -> str:
    value = value[1:-1]
    return _ESCAPE.sub(lambda escape: _ESCAPED.get(escape[1], escape[1]), value) if "\\" in value else value
