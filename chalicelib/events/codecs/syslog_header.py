"""Headers of syslog: RFC 5424, RFC 3164, and what senders make of them.

A header that cannot be read never costs the text: what precedes the unreadable part is in the fields, the rest is the message, and
``unread`` names the part. Every expression is anchored and bounded, so a line of any length takes a few passes over its head.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, tzinfo
from typing import Any

from chalicelib.lines.notations import MONTH_NAMES
from chalicelib.lines.timestamps import ISO, MONTH, TimestampParser

NIL = "-"
HEADER, SD, TIME, VERSION, ZONE = "header", "sd", "time", "version", "zone"
"""Names of unread parts."""
_NAMES, _ABSENT = ("host", "program", "pid", "msgid"), (NIL, "")
_BOM = "\ufeff"
_MAX_SD_CHARS = 32 * 1024
"""An event's data is limited: longer elements stay in the message."""
_US_OF_MS = 1000
_MONTH = f"(?i:{'|'.join(MONTH_NAMES)})"
_YEAR, _DAY = "(?:19|20)[0-9]{2}", "[0-9]{1,2}"
_END = "(?= |:(?: |$)|$)"
_WEEKDAY = "(?:(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun),? +)?"

_STRICT_5424 = re.compile(r"1 (\S{1,64}) (\S{1,255}) (\S{1,255}) (\S{1,128}) (\S{1,128}) ", re.ASCII)
_VERSION = re.compile(r" *([1-9][0-9]{0,2}) +", re.ASCII)
_TOKEN = re.compile(r"\S{1,64}(?= |$)", re.ASCII)
_FIELDS = re.compile(r" +(\S{1,1024}) +(\S{1,1024}) +(\S{1,1024}) +(\S{1,1024})(?: +|$)", re.ASCII)
_EMPTY_FIELDS = re.compile(r" (\S{0,1024}) (\S{0,1024}) (\S{0,1024}) (\S{0,1024})(?: |$)", re.ASCII)
_ID = re.compile(r"[A-Z0-9_.:-]+", re.ASCII)
_ELEMENT = re.compile(r'\[([^\s="\]]{1,64})((?: [^\s="\]]{1,64}="[^"\\\]]*+(?:\\.[^"\\\]]*+)*+")*+)\]')
_PARAMETER = re.compile(r' ([^\s="\]]{1,64})="((?:[^"\\\]]|\\.)*)"')
_ESCAPED = re.compile(r'\\(["\\\]])')

_STAMP = re.compile(
    rf"(?:(?P<y>{_YEAR})[-/.](?P<m>{_DAY})[-/.](?P<d>{_DAY})(?:[Tt]| {{1,2}})"
    rf"|{_WEEKDAY}(?:(?P<y1>{_YEAR}) +)?(?P<month>{_MONTH})[ -]{{1,2}}(?P<d1>{_DAY}),?(?:[ -]{{1,2}}(?P<y2>{_YEAR}),?)? {{1,2}}"
    rf"|{_WEEKDAY}(?P<d3>{_DAY})[ /-](?P<month3>{_MONTH})(?:[ /-](?P<y3>{_YEAR}))?[ :])"
    r"(?P<clock>[0-9]{1,2}:[0-9]{2}:[0-9]{2})(?:[.,](?P<fraction>[0-9]{1,9}))?(?![0-9]|:[0-9])"
    r"(?P<offset>[Zz](?![A-Za-z])| ?[+-][0-9]{2}(?::?[0-9]{2})?(?![0-9]|:[0-9]))?"
    rf"(?: (?P<y4>{_YEAR}){_END})?",
    re.ASCII,
)
_ZONE = re.compile(rf" \(?([A-Z]{{2,5}}|[A-Z][A-Za-z]+(?:/[A-Za-z_+-]+){{1,2}})\)?{_END}(?: ({_YEAR}){_END})?", re.ASCII)
_ORIGIN = re.compile(r" *:? *((?:\S{1,255}: +){0,3})(?:(?:(\S{1,255}) +)?([0-9A-Z]+(?:/[0-9A-Z]+)+):)?[*.]?", re.ASCII)
"""In front of Cisco's times: sequence number and host, each with a colon, or host and node; a mark of a clock that is not synchronized."""
_HOST = re.compile(
    r" +(?:Message forwarded from ([^\s:]{1,255}):"
    r"|((?=[^\s:]*:[^\s:]*:)[0-9A-Fa-f:.]+(?:%\w+)?|\[[0-9A-Fa-f:.]+(?:%\w+)?\](?::[0-9]{1,5})?|[^\s:\[\]]{1,255}(?::[0-9]{1,5})?)"
    r"(?: :(?= ))?)(?= +\S)",
    re.ASCII,
)
_TAG = re.compile(r' *((?!%|[0-9]+:)[^\s\[:"{]{1,128})(?:\[([^\]]{1,128})\](?:: ?| |$)|:(?: |$|(?=[A-Za-z])))')
_TAG_WITH_PID = re.compile(r' *([^\s\[:"{]{1,128})\[([^\]\s]{1,128})\]: ?')


@dataclass(slots=True)
class Header:
    """``us``: the time; None if there is none that can be read. ``fields``: host, program, pid, msgid, sd, and unread values as sent.
    ``message`` begins behind the last part that was read. ``has_sd``: whether an RFC 5424 header has structured data, or a dash."""

    us: int | None
    fields: dict[str, Any]
    message: str
    unread: list[str] = field(default_factory=list)
    has_sd: bool = True


class HeaderParser:
    """Parses what follows the priority, in lines of one request. ``now_ms`` supplies the years that times lack, ``zone`` their zone."""

    def __init__(self, now_ms: int, zone: tzinfo = UTC) -> None:
        self._clock = TimestampParser(zone, now_ms * _US_OF_MS)
        self._iso, self._month = self._clock.reader(ISO), self._clock.reader(MONTH)

    def parse(self, rest: str) -> Header:
        """The header of a line without its priority."""
        if strict := _STRICT_5424.match(rest):
            time = strict[1]
            us = None if time == NIL else self._clock.parse_text(time)
            if (us is not None or time == NIL) and (structured := _structured(rest, strict.end())):
                fields = _named(strict.group(2, 3, 4, 5), structured[0])
                if us is not None and us % _US_OF_MS:
                    fields[TIME] = time
                return Header(us, fields, structured[1])
        return self._tolerant_5424(rest) or self._of_3164(rest)

    def _tolerant_5424(self, rest: str) -> Header | None:
        """A header of RFC 5424 with parts that RFC does not allow; None for lines that are none."""
        version = _VERSION.match(rest)
        if version is None:
            return None
        us, time, end, unread = self._time(rest, version.end())
        is_time = us is not None or time == NIL
        if version[1] != "1" and not (us is not None and time[:1].isdigit()):
            return None
        header = _fields_of(rest, end, is_time)
        if header is None:
            return None
        header.us = us
        header.unread[:0] = ([VERSION] if version[1] != "1" else []) + unread + ([] if is_time else [TIME])
        if version[1] != "1":
            header.fields[VERSION] = version[1]
        if not is_time or unread or (us is not None and us % _US_OF_MS):
            header.fields[TIME] = time
        return header

    def _time(self, rest: str, place: int) -> tuple[int | None, str, int, list[str]]:
        """The time at a place, its text and end, and unread parts of it."""
        if stamp := _STAMP.match(rest, place):
            us, end, unread = self._stamped(stamp, rest)
            return us, rest[place:end], end, unread
        token = _TOKEN.match(rest, place)
        text = token[0] if token else ""
        us = self._clock.parse_text(text)
        return us if us is None or us >= 0 else None, text, place + len(text), []

    def _of_3164(self, rest: str) -> Header:
        fields: dict[str, Any] = {}
        begin = len(rest) - len(rest.lstrip(" "))
        stamp = _STAMP.match(rest, begin) or self._behind_origin(rest, fields)
        if stamp is None:
            if tag := _TAG_WITH_PID.match(rest):
                return Header(None, {"program": tag[1], "pid": tag[2]}, rest[tag.end() :])
            return Header(None, {}, rest, [HEADER])
        us, place, unread = self._stamped(stamp, rest)
        if us is None or unread:
            fields[TIME], unread = rest[stamp.start() : place], unread if us is not None else [*unread, TIME]
        if rest.startswith(":", place):
            place, pattern = place + 1, _TAG_WITH_PID
        else:
            place, pattern = place if "host" in fields else _host(rest, place, fields), _TAG
        if tag := pattern.match(rest, place):
            fields |= {name: value for name, value in (("program", tag[1]), ("pid", tag[2])) if value}
            place = tag.end()
        else:
            place += rest.startswith(" ", place)
        return Header(us, fields, rest[place:], unread)

    def _behind_origin(self, rest: str, fields: dict[str, Any]) -> re.Match[str] | None:
        """Cisco's time, whose origin goes into the fields. A single name is a tag, and the time the program's, without a colon behind it."""
        origin = _ORIGIN.match(rest)
        stamp = _STAMP.match(rest, origin.end()) if origin else None
        if origin is None or stamp is None:
            return None
        names = [each[:-1] for each in origin[1].split()]
        hosts = [each for each in (*names, origin[2]) if each and not each.isdecimal()]
        if hosts and len(hosts) == len(names) and not rest.startswith(":", self._stamped(stamp, rest)[1]):
            return None
        fields |= {name: value for name, value in (("host", hosts[-1] if hosts else ""), ("node", origin[3])) if value}
        return stamp

    def _stamped(self, stamp: re.Match[str], rest: str) -> tuple[int | None, int, list[str]]:
        """Microseconds of a time, its end with its zone, and unread parts of it."""
        groups = stamp.groupdict()
        end, zone, unread = stamp.end(), groups["offset"], list[str]()
        year = groups["y"] or groups["y1"] or groups["y2"] or groups["y3"] or groups["y4"]
        us = self._us(groups, year, zone)
        if zone is None and (named := _ZONE.match(rest, end)):
            zoned = self._us(groups, year or named[2], f" {named[1]}")
            if zoned is not None:
                return zoned, named.end(), unread
            if rest.startswith(":", named.end()):
                return us, named.end(), [ZONE]
        return us, end, unread

    def _us(self, groups: dict[str, Any], year: str | None, zone: str | None) -> int | None:
        """The time in the notations that ``TimestampParser`` reads."""
        clock = groups["clock"].rjust(8, "0")
        month, day = groups["month"] or groups["month3"], groups["d"] or groups["d1"] or groups["d3"]
        if year is None:
            us = self._month(f"{month.capitalize()} {day:>2} {clock}", groups["fraction"], zone)
        else:
            number = groups["m"] or str(MONTH_NAMES.index(month.capitalize()) + 1)
            us = self._iso(f"{year}-{number:0>2}-{day:0>2} {clock}", groups["fraction"], zone)
        return us if us is None or us >= 0 else None


def _fields_of(rest: str, place: int, is_time: bool) -> Header | None:
    """The header from its host on; None if neither its time nor its structured data are those of RFC 5424."""
    names = _FIELDS.match(rest, place)
    groups = _structured(rest, names.end()) if names else None
    if groups is None and (empty := _EMPTY_FIELDS.match(rest, place)) and (groups := _structured(rest, empty.end())):
        names = empty
    if names and groups:
        return Header(None, _named(names.groups(), groups[0]), groups[1])
    if not is_time:
        return None
    if names is None:
        return Header(None, {}, rest[place:].lstrip(" "), [HEADER])
    host, program, pid, msgid = names.groups()
    message = rest[names.end() :]
    if message.startswith("["):
        return Header(None, _named((host, program, pid, msgid)), message, [SD])
    if msgid == NIL:
        return Header(None, _named((host, program, pid, msgid)), message, has_sd=False)
    if pid != NIL and not pid.isdecimal():
        return Header(None, _named((host, program)), rest[names.start(3) :], [HEADER])
    if not _ID.fullmatch(msgid):
        return Header(None, _named((host, program, pid)), rest[names.start(4) :], [HEADER])
    return Header(None, _named((host, program, pid, msgid)), message, [SD])


def _named(values: Sequence[str], elements: Mapping[str, Mapping[str, str]] | None = None) -> dict[str, Any]:
    named: dict[str, Any] = {name: value for name, value in zip(_NAMES, values, strict=False) if value not in _ABSENT}
    if elements:
        named[SD] = elements
    return named


def _structured(rest: str, place: int) -> tuple[dict[str, dict[str, str]], str] | None:
    """Elements and message; None if the structured data is missing or malformed. An element without parameters needs an enterprise
    number: programs begin messages with a level in brackets."""
    if rest.startswith(NIL, place):
        return ({}, rest[place + 2 :].removeprefix(_BOM)) if rest[place + 1 : place + 2] in ("", " ") else None
    elements: dict[str, dict[str, str]] = {}
    begun = place
    while found := _ELEMENT.match(rest, place):
        if (not found[2] and "@" not in found[1]) or found.end() - begun > _MAX_SD_CHARS:
            return None
        elements[found[1]] = {name: _ESCAPED.sub(r"\1", value) for name, value in _PARAMETER.findall(found[2])}
        place = found.end()
    if not elements or rest[place : place + 1] not in ("", " "):
        return None
    return elements, rest[place + 1 :].removeprefix(_BOM)


def _host(rest: str, place: int, fields: dict[str, Any]) -> int:
    """Reads the host, if there is one, and returns its end. A word with a colon or a process number is the program."""
    found = _HOST.match(rest, place)
    if found is None:
        return place
    fields["host"] = found[1] or found[2]
    return found.end()
