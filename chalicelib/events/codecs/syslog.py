"""syslog over HTTP, from syslog-ng's ``http()``, rsyslog's ``omhttp`` and others: messages of RFC 5424 or RFC 3164, or JSON.

The framing is that of the content: octet counting if all counts fit, to the last byte; NUL if a priority follows one, and the body ends with
one or has no priority behind a newline; else newlines.
There, a line without a priority continues the message of the line with one before it, such as a stack trace. If no line has a
priority, each line is an event. No message is refused for its header (``syslog_header``).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, tzinfo
from itertools import chain
from typing import Any

from chalicelib.events.codecs import json_text, plain, records
from chalicelib.events.codecs.items import UNREAD, Decoded, Item, decoded_each
from chalicelib.events.codecs.parts import joined
from chalicelib.events.codecs.records import Moment
from chalicelib.events.codecs.syslog_header import NIL, SD, TIME, HeaderParser
from chalicelib.events.event import NewEvent
from chalicelib.events.well_formed import well_formed_text
from chalicelib.lines.levels import INFO, SEVERITIES, SYSLOG_NUMBERS
from chalicelib.lines.timestamps import TimestampParser

PRIORITY = "priority"
_MAX_PRIORITY = 191
_LOGPLEX_PRIORITY = 40
"""Heroku's Logplex sends it, an emergency of syslog itself, with any message, and no structured data."""
_US_OF_MS = 1000
_PRIORITY = re.compile(r"<(-?[0-9]{1,10})>", re.ASCII)
_BEGIN = re.compile(rf"^{_PRIORITY.pattern}", re.ASCII | re.MULTILINE)
_AFTER_NUL = re.compile(rf"\0(?={_PRIORITY.pattern})", re.ASCII)
_COUNTED = re.compile(r"[1-9][0-9]{0,8} <[0-9]", re.ASCII)
_COUNT = re.compile(rb"([1-9][0-9]{0,8}) ")
_OWN_ELEMENT = re.compile(r"runlake(?:@[0-9.]+)?")
_USER = 1


def decode(body: bytes | str, now_ms: int, zone: tzinfo = UTC) -> Iterator[Item]:
    """Detects the format. ``now_ms`` supplies the year, which times of RFC 3164 lack, ``zone`` their zone."""
    text = json_text.text_of(body)
    if text.lstrip()[:1] in ("{", "["):
        values = json_text.values(text)
        first: Any = next(values, {})
        if isinstance(first, dict):  # else a line that begins with a bracket
            return _decoded_json(chain([first] if first else [], values), zone)
    if _COUNTED.match(text) and _counts_fit(raw := body if isinstance(body, bytes) else text.encode(errors="replace")):
        return _decoded_messages(map(_unterminated, _counted(raw)), HeaderParser(now_ms, zone))
    if _BEGIN.search(text) is None:
        return plain.decode(text)
    text = well_formed_text(text)
    if _AFTER_NUL.search(text) and (text.rstrip("\n").endswith("\0") or _BEGIN.search(text, 1) is None):
        return _decoded_messages(map(_unterminated, _split(text, _AFTER_NUL)), HeaderParser(now_ms, zone))
    return _decoded_messages(
        (each.removesuffix("\0").removesuffix("\r") for each in _split(text.removesuffix("\n"), _BEGIN)), HeaderParser(now_ms, zone)
    )


def decode_json(body: bytes | str, zone: tzinfo = UTC) -> Iterator[Item]:
    """JSON from ``$(format-json)`` and rsyslog templates. ``zone``: of times without one."""
    return _decoded_json(json_text.values(body), zone)


def encode(events: Sequence[NewEvent]) -> bytes:
    """Lines of RFC 5424. ``host``, ``program``, ``pid``, ``msgid``, ``facility`` and ``sd`` in the data become header fields
    again."""
    return "".join(_line_of(event) + "\n" for event in events).encode()


def _decoded_json(values: Iterator[Any], zone: tzinfo) -> Iterator[Item]:
    clock = TimestampParser(zone)
    return joined(decoded_each(values, lambda index, value: records.decoded(index, value, clock, {})))


def _decoded_messages(messages: Iterator[str], parser: HeaderParser) -> Iterator[Item]:
    return decoded_each(messages, lambda index, message: _decoded(index, message, parser))


def _counts_fit(raw: bytes) -> bool:
    """Whether octet counting divides the body exactly; each frame may be followed by a newline."""
    place = 0
    while place < len(raw):
        count = _COUNT.match(raw, place)
        if count is None:
            return False
        place = count.end() + int(count[1])
        if place > len(raw):
            return False
        place += raw.startswith(b"\n", place)
    return True


def _counted(raw: bytes) -> Iterator[str]:
    """The messages of a body whose counts fit."""
    place = 0
    while count := _COUNT.match(raw, place):
        place = count.end() + int(count[1])
        yield raw[count.end() : place].decode(errors="replace")
        place += raw.startswith(b"\n", place)


def _split(text: str, boundary: re.Pattern[str]) -> Iterator[str]:
    """The parts of a text between boundaries, each of which is behind one character that belongs to no part."""
    start = 0
    for begin in boundary.finditer(text, 1):
        place = begin.start() if boundary is _AFTER_NUL else begin.start() - 1
        yield text[start:place]
        start = place + 1
    yield text[start:]


def _unterminated(message: str) -> str:
    return message.removesuffix("\n").removesuffix("\0").removesuffix("\n").removesuffix("\r")


def _decoded(index: int, line: str, parser: HeaderParser) -> Decoded:
    found = _PRIORITY.match(line)
    if found is None:
        return Decoded(index, NewEvent(message=line))
    header = parser.parse(line[found.end() :])
    number = int(found[1])
    level, data = None, header.fields
    if 0 <= number <= _MAX_PRIORITY:
        facility, severity = divmod(number, 8)
        level = INFO if number == _LOGPLEX_PRIORITY and not header.has_sd else SEVERITIES[severity]
        data = {"facility": facility, **({"severity": severity} if SYSLOG_NUMBERS[level] != severity else {}), **data}
    else:
        header.unread.insert(0, PRIORITY)
        data = {PRIORITY: found[1], **data}
    elements = data.get(SD, {})
    own: dict[str, str] = next((elements[name] for name in elements if _OWN_ELEMENT.fullmatch(name)), {}) if elements else {}
    moment = Moment() if header.us is None else Moment(header.us // _US_OF_MS, header.us % _US_OF_MS != 0)
    stored = {**data, UNREAD: header.unread} if header.unread else data
    known: dict[str, str] = {name: own[name] for name in ("step", "outcome", "exit_code") if name in own} if own else {}
    message = header.message or (line if header.unread else "")
    event = records.new_event(message, moment, level, stored, known)
    return Decoded(index, event, {"record": {**data, "runlake": own}}, records.writer_of(own), moment.is_fine)


def _line_of(event: NewEvent) -> str:
    data = event.data
    severity = data.get("severity", SYSLOG_NUMBERS.get(event.level or INFO, 6))
    facility = data.get("facility", _USER)
    time = data.get(TIME) or (_stamp(event.timestamp) if event.timestamp is not None else NIL)
    names = " ".join(str(data.get(name, NIL)) for name in ("host", "program", "pid", "msgid"))
    elements = data.get(SD)
    sd = "".join(_element(name, each) for name, each in elements.items()) if isinstance(elements, dict) and elements else NIL
    number = facility * 8 + severity if isinstance(facility, int) and isinstance(severity, int) else 14
    return f"<{number}>1 {time} {names} {sd} {event.message}"


def _element(name: str, parameters: Any) -> str:
    escaped = {key: re.sub(r'(["\\\]])', r"\\\1", str(value)) for key, value in parameters.items()}
    return f"[{name}" + "".join(f' {key}="{value}"' for key, value in escaped.items()) + "]"


def _stamp(ms: int) -> str:
    return datetime.fromtimestamp(ms / 1000, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
