"""syslog over HTTP, from syslog-ng's ``http()`` and rsyslog's ``omhttp``: lines of RFC 5424 or RFC 3164, or JSON.

A line without a priority continues the message of the line with one before it, such as a stack trace. If no line has a priority,
each line is an event.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from typing import Any

from chalicelib.events.codecs import json_text, plain, records
from chalicelib.events.codecs.items import Decoded, Item, decoded_each
from chalicelib.events.codecs.records import Moment
from chalicelib.events.event import NewEvent
from chalicelib.events.ports import Refused
from chalicelib.events.well_formed import well_formed_text
from chalicelib.lines.levels import INFO, SEVERITIES, SYSLOG_NUMBERS
from chalicelib.lines.timestamps import MONTH, TimestampParser

_NIL = "-"
_BOM = "\ufeff"
_MAX_PRIORITY = 191
_US_OF_MS = 1000
_PRIORITY = re.compile(r"<([0-9]{1,3})>", re.ASCII)
_BEGIN = re.compile(rf"^{_PRIORITY.pattern}", re.ASCII | re.MULTILINE)
_5424 = re.compile(r"1 (\S{1,64}) (\S{1,255}) (\S{1,255}) (\S{1,128}) (\S{1,128}) ", re.ASCII)
_3164 = re.compile(
    rf"({MONTH.pattern}|[0-9]{{4}}-[0-9]{{2}}-[0-9]{{2}}T\S{{8,30}}) (\S{{1,255}}) (?:([^\s\[:]{{1,128}})(?:\[([^\]]{{1,128}})\])?: ?)?"
)
_ELEMENT = re.compile(r'\[([^\s="\]]{1,64})((?: [^\s="\]]{1,64}="[^"\\\]]*+(?:\\.[^"\\\]]*+)*+")*+)\]')
_PARAMETER = re.compile(r' ([^\s="\]]{1,64})="((?:[^"\\\]]|\\.)*)"')
_ESCAPED = re.compile(r'\\(["\\\]])')
_OWN_ELEMENT = re.compile(r"runlake(?:@[0-9.]+)?")
_USER = 1


def decode(body: bytes | str, now_ms: int) -> Iterator[Item]:
    """Detects the format. ``now_ms`` supplies the year, which times of RFC 3164 lack."""
    text = json_text.text_of(body)
    if text.lstrip()[:1] in ("{", "["):
        return decode_json(text)
    if not _BEGIN.search(text):
        return plain.decode(text)
    clock = TimestampParser(UTC, now_ms * _US_OF_MS)
    return decoded_each(_messages(well_formed_text(text)), lambda index, line: _decoded(index, line, clock))


def decode_json(body: bytes | str) -> Iterator[Item]:
    """JSON from ``$(format-json)`` and rsyslog templates."""
    clock = TimestampParser()
    return decoded_each(json_text.values(body), lambda index, value: records.decoded(index, value, clock, {}))


def encode(events: Sequence[NewEvent]) -> bytes:
    """Lines of RFC 5424. ``host``, ``program``, ``pid``, ``msgid``, ``facility`` and ``sd`` in the data become header fields
    again."""
    return "".join(_line_of(event) + "\n" for event in events).encode()


def _messages(text: str) -> Iterator[str | Refused]:
    """Each message with its continuation lines."""
    start = 0
    for begin in _BEGIN.finditer(text, 1):
        yield text[start : begin.start() - 1]
        start = begin.start()
    yield text[start:].removesuffix("\n")


def _decoded(index: int, line: str, clock: TimestampParser) -> Decoded:
    found = _PRIORITY.match(line)
    if found is None:
        return Decoded(index, NewEvent(message=line))
    priority = int(found[1])
    if priority > _MAX_PRIORITY:
        raise ValueError(f"a priority must be at most {_MAX_PRIORITY}")
    facility, severity = divmod(priority, 8)
    rest = line[found.end() :]
    header = _5424.match(rest)
    if header:
        us, fields, message = _of_5424(header, rest[header.end() :], clock)
    else:
        us, fields, message = _of_3164(rest, clock)
    level = SEVERITIES[severity]
    data = {"facility": facility, **({"severity": severity} if SYSLOG_NUMBERS[level] != severity else {}), **fields}
    own: dict[str, str] = next((each for name, each in fields.get("sd", {}).items() if _OWN_ELEMENT.fullmatch(name)), {})
    moment = Moment() if us is None or us < 0 else Moment(us // _US_OF_MS, us % _US_OF_MS != 0)
    if moment.is_fine:
        data["time"] = header[1] if header else ""
    known: dict[str, str] = {name: own[name] for name in ("step", "outcome", "exit_code") if name in own}
    event = records.new_event(message, moment, level, {name: value for name, value in data.items() if value != ""}, known)
    return Decoded(index, event, {"record": {**data, "runlake": own}}, records.writer_of(own), moment.is_fine)


def _of_5424(header: re.Match[str], rest: str, clock: TimestampParser) -> tuple[int | None, dict[str, Any], str]:
    time, host, program, pid, msgid = header.groups()
    us = None if time == _NIL else clock.parse_text(time)
    if us is None and time != _NIL:
        raise ValueError("the time must have the format of RFC 5424")
    elements, message = _structured(rest)
    named = {"host": host, "program": program, "pid": pid, "msgid": msgid}
    fields: dict[str, Any] = {name: value for name, value in named.items() if value != _NIL}
    return us, {**fields, **({"sd": elements} if elements else {})}, message.removeprefix(_BOM)


def _structured(rest: str) -> tuple[dict[str, dict[str, str]], str]:
    if rest[:1] != "[":
        if rest != _NIL and not rest.startswith(_NIL + " "):
            raise ValueError("structured data must be - or elements in brackets")
        return {}, rest[2:]
    elements: dict[str, dict[str, str]] = {}
    place = 0
    while found := _ELEMENT.match(rest, place):
        elements[found[1]] = {name: _ESCAPED.sub(r"\1", value) for name, value in _PARAMETER.findall(found[2])}
        place = found.end()
    if not elements or rest[place : place + 1] not in ("", " "):
        raise ValueError("structured data is malformed")
    return elements, rest[place + 1 :]


def _of_3164(rest: str, clock: TimestampParser) -> tuple[int | None, dict[str, Any], str]:
    found = _3164.match(rest)
    if found is None:
        return None, {}, rest
    us = clock.parse_text(found[1]) if found[1][:1].isdigit() else clock.reader(MONTH)(found[1], None, None)
    named = {"host": found[2], "program": found[3], "pid": found[4]}
    return us, {name: value for name, value in named.items() if value}, rest[found.end() :]


def _line_of(event: NewEvent) -> str:
    data = event.data
    severity = data.get("severity", SYSLOG_NUMBERS.get(event.level or INFO, 6))
    facility = data.get("facility", _USER)
    time = data.get("time") or (_stamp(event.timestamp) if event.timestamp is not None else _NIL)
    names = " ".join(str(data.get(name, _NIL)) for name in ("host", "program", "pid", "msgid"))
    elements = data.get("sd")
    sd = "".join(_element(name, each) for name, each in elements.items()) if isinstance(elements, dict) and elements else _NIL
    number = facility * 8 + severity if isinstance(facility, int) and isinstance(severity, int) else 14
    return f"<{number}>1 {time} {names} {sd} {event.message}"


def _element(name: str, parameters: Any) -> str:
    escaped = {key: re.sub(r'(["\\\]])', r"\\\1", str(value)) for key, value in parameters.items()}
    return f"[{name}" + "".join(f' {key}="{value}"' for key, value in escaped.items()) + "]"


def _stamp(ms: int) -> str:
    return datetime.fromtimestamp(ms / 1000, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
