"""Parses timestamps of log lines into microseconds since the epoch, UTC.

A timestamp has three parts: the second (cached, since adjacent lines share it), the fraction and the zone. Invalid dates give None and
never raise.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta, tzinfo
from functools import cached_property
from typing import TypeVar

from chalicelib.lines.levels import LEVELS
from chalicelib.lines.notations import MONTH_NAMES, compiled_once, iso_notation, may_begin_with_time
from chalicelib.lines.zones import MOST_HOURS, ZONE_NAME, is_zone_name, zone_in_text

FIRST_US, LAST_US = -62_135_596_800_000_000, 253_402_300_799_999_999
"""The years 1 to 9999."""
SECOND_US = 1_000_000
DAY_US = 86_400 * SECOND_US
_EARLIEST_MS, _MAX_AHEAD_MS = 946_684_800_000, 24 * 3_600_000
"""The year 2000, and the maximum that a timestamp may be ahead of the line's arrival: clocks differ, and lines from other zones may
omit the zone."""
_NEAR_YEAR_US, _NEAR_DAY_US = 182 * DAY_US, DAY_US * 11 // 24
"""A candidate within this distance is the nearest one, so other years, or days, are not tried."""
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_ONE_US = timedelta(microseconds=1)
_SCALE = (0, 100_000, 10_000, 1000, 100, 10, 1)
_MAX_CACHED, _MAX_ZONES = 10_000, 10
_HEAD_CHARS = 256
_MONTHS = {name: number for number, name in enumerate(MONTH_NAMES, start=1)}

K = TypeVar("K")
V = TypeVar("V")
DateFields = tuple[int | None, int | None, int | None, int, int, int]
"""Year, month, day, hour, minute, second; None for fields that the timestamp omits."""
_NO_FIELDS: DateFields = (None, 0, 0, 0, 0, 61)
ReadTimestamp = Callable[[str, str | None, str | None], int | None]
"""(second, digits of the fraction, zone) to microseconds since the epoch."""


Places = tuple[tuple[int, int], tuple[int, int], tuple[int, int], tuple[int, int], tuple[int, int], tuple[int, int]]
"""Where the digits of year, month, day, hour, minute and second are in a text of fixed length: [first, end) of each."""


@dataclass(frozen=True, slots=True)
class TimestampFormat:
    """A notation for seconds: its pattern, and a function that splits a match into fields. ``placed``: the patterns of those of its forms
    that consist of digits (or a blank instead of a zero) in fixed places, with these; a year of two digits is as in POSIX. ``sized``: patterns
    of forms with a fixed length, which match at least these."""

    pattern: str
    fields: Callable[[str], DateFields]
    placed: tuple[tuple[str, Places], ...] = ()
    sized: tuple[str, ...] = ()


def _placed(pattern: str, places: Places) -> TimestampFormat:
    (year, year_), (month, month_), (day, day_), (hour, hour_), (minute, minute_), (second, second_) = places
    year_of = _year if year_ - year == 2 else int

    def fields(text: str) -> DateFields:
        date = year_of(text[year:year_]), int(text[month:month_]), int(text[day:day_])
        return *date, int(text[hour:hour_]), int(text[minute:minute_]), int(text[second:second_])

    return TimestampFormat(pattern, fields, ((pattern, places),))


def _iso(text: str) -> DateFields:
    return int(text[:4]), int(text[5:7]), int(text[8:10]), int(text[-8:-6]), int(text[-5:-3]), int(text[-2:])


def _year(digits: str) -> int:
    """Two-digit years as in POSIX: 69 to 99 are of the 20th century."""
    year = int(digits)
    return year + (1900 if year >= 69 else 2000)


def _month(text: str) -> DateFields:
    return None, _MONTHS.get(text[:3], 0), int(text[4:-9]), int(text[-8:-6]), int(text[-5:-3]), int(text[-2:])


def _month_and_year(text: str) -> DateFields:
    if text[:1].isdigit():
        return int(text[:4]), *_month(text[5:])[1:]
    return int(text[-13:-9]), *_month(text[:-14] + text[-9:])[1:]


def _day_first(text: str) -> DateFields:
    year = int(text[7:11]) if text[7:11].isdigit() else None
    return year, _MONTHS.get(text[3:6], 0), int(text[:2]), int(text[-8:-6]), int(text[-5:-3]), int(text[-2:])


def _java(text: str) -> DateFields:
    date, clock, half = text[:12], text[13:-3], text[-2]
    hour, minute, second = map(int, clock.split(":"))
    return int(date[8:]), _MONTHS.get(date[:3], 0), int(date[4:6]), hour % 12 + (12 if half == "P" else 0), minute, second


def _klog(text: str) -> DateFields:
    date, time = text.split()
    year = int(date[:-4]) if len(date) > 4 else None
    return year, int(date[-4:-2]), int(date[-2:]), int(time[:2]), int(time[3:5]), int(time[6:8])


def _apache(text: str) -> DateFields:
    return int(text[-4:]), _MONTHS.get(text[:3], 0), int(text[4:6]), int(text[7:9]), int(text[10:12]), int(text[13:15])


def _access(text: str) -> DateFields:
    return int(text[7:11]), _MONTHS.get(text[3:6], 0), int(text[:2]), int(text[12:14]), int(text[15:17]), int(text[18:20])


def _time(text: str) -> DateFields:
    return None, None, None, int(text[:2]), int(text[3:5]), int(text[6:8])


_CLOCK = "[0-9]{2}:[0-9]{2}:[0-9]{2}"
_ANY_MONTH = f"(?:{'|'.join(MONTH_NAMES)})"
_DATE, _DATED_CLOCK = "[0-9]{4}[-/.][0-9]{2}[-/.][ 0-9][0-9]", "[ 0-9][0-9]:[0-9]{2}:[0-9]{2}"
_SEPARATOR = "[Tt _.,:-]"
ISO = TimestampFormat(
    f"{_DATE}(?:{_SEPARATOR}|, ){_DATED_CLOCK}",
    _iso,
    (
        (f"{_DATE}{_SEPARATOR}{_DATED_CLOCK}", ((0, 4), (5, 7), (8, 10), (11, 13), (14, 16), (17, 19))),
        (f"{_DATE}, {_DATED_CLOCK}", ((0, 4), (5, 7), (8, 10), (12, 14), (15, 17), (18, 20))),
    ),
)
"""Other notations with a date and a year are rewritten into this one (``notations``)."""
SHORT = _placed(f"[0-9]{{2}}/[0-9]{{2}}/[0-9]{{2}} {_CLOCK}", ((0, 2), (3, 5), (6, 8), (9, 11), (12, 14), (15, 17)))
COMPACT = _placed("[0-9]{6} [0-9]{6}", ((0, 2), (2, 4), (4, 6), (7, 9), (9, 11), (11, 13)))
MONTH = TimestampFormat(
    f"{_ANY_MONTH} {{1,2}}[0-9]{{1,2}} {_CLOCK}",
    _month,
    sized=(f"[A-Z][a-z]{{2}} [ 0-9][0-9] {_CLOCK}", f"[A-Z][a-z]{{2}} [0-9] {_CLOCK}"),
)
MONTH_YEAR = TimestampFormat(
    f"(?:[0-9]{{4}} {_ANY_MONTH} {{1,2}}[0-9]{{1,2}}|{_ANY_MONTH} {{1,2}}[0-9]{{1,2}} [0-9]{{4}}) {_CLOCK}", _month_and_year
)
DAY_FIRST = TimestampFormat(f"[0-9]{{2}} {_ANY_MONTH}(?: [0-9]{{4}})? {_CLOCK}", _day_first)
JAVA = TimestampFormat(f"{_ANY_MONTH} [0-9]{{2}}, [0-9]{{4}} [0-9]{{1,2}}:[0-9]{{2}}:[0-9]{{2}} [AP]M", _java)
KLOG = TimestampFormat(f"(?:[0-9]{{4}})?[0-9]{{4}} {_CLOCK}", _klog)
ACCESS = TimestampFormat(f"[0-9]{{2}}/{_ANY_MONTH}/[0-9]{{4}}:{_CLOCK}", _access)
APACHE = TimestampFormat(rf"{_ANY_MONTH} [ 0-9][0-9] {_CLOCK}(?:\.(?P<fraction>[0-9]{{1,9}}))? [0-9]{{4}}", _apache)
"""The year follows the fraction."""
TIME = TimestampFormat(_CLOCK, _time, sized=(_CLOCK,))

FRACTION = "(?:[.,:](?P<fraction>[0-9]{1,9}))?"
_MARK = "\x1f"
ZONE = f"(?P<zone>[Zz]|[+-][0-9]{{2}}(?::?[0-9]{{2}})?| [+-][0-9]{{2}}:?[0-9]{{2}}| UTC| GMT|{_MARK}[^{_MARK}]*{_MARK})?"
"""Other zones, and halves of the day, are between marks (``rewritten``), which keeps patterns small."""
_ABBREVIATION = "[A-Z][A-Zh]{1,3}[A-DKTZ]"
_NO_LEVEL = f"(?!{'|'.join(word for word in LEVELS if re.fullmatch(_ABBREVIATION, word))})"
_LOOKS_LIKE_ZONE = (
    rf" (?=[A-Z(+ap-])(?:{_NO_LEVEL}{_ABBREVIATION}(?![a-z])|[A-Z][A-Za-z]+/[A-Z]|\([A-Z]|[AaPp][Mm](?!\w)"
    r"|[+-][0-9]{2}(?::?[0-9]{2})?(?!:?\w)|Z(?!\w))"
)
NO_ZONE = f"(?:(?!{_LOOKS_LIKE_ZONE})|(?<={_MARK}))"
"""For layouts in which any word may follow a time: what looks like a zone is looked at first."""
_RARE = rf"(?:[Zz]|[+-][0-9]{{2}}(?::?[0-9]{{2}})?| [+-][0-9]{{2}}:?[0-9]{{2}})?+(?:{_LOOKS_LIKE_ZONE}|\[[A-Z]|[ \u00a0\u202f]?[AaPp][Mm])"
_BEGINNING = (
    rf"(?:<[0-9]{{1,3}}>(?:1 )?|< ?)?(?:\[?[A-Z]{{3,9}}\]?:? +(?:\[[^\[\]]*\] +)?)?\[?"
    rf"(?:{'|'.join(stamp.pattern for stamp in (ISO, COMPACT, MONTH, TIME))}|(?<!\[){SHORT.pattern})(?:[.,:][0-9]{{1,9}})?"
    rf"(?:(?={_RARE})(?P<rare>))?"
)
_STATED = (
    r"(?P<half>[ \u00a0\u202f]?[AaPp][Mm](?!\w))?(?P<offset>[Zz]|[+-][0-9]{2}(?::?[0-9]{2})?| (?:Z(?!\w)|[+-][0-9]{2}(?::?[0-9]{2})?(?!:?\w)))?"
    rf"(?P<name> ?(?:{ZONE_NAME}|\({ZONE_NAME}\))(?![\w.$/@-])|\[{ZONE_NAME}\])?"
)
_MERIDIEM = re.compile("[ \u00a0\u202f]?([AaPp])[Mm](?!\\w)", re.ASCII)
_WITHOUT_YEAR = re.compile(MONTH.pattern)
_WHOLE_SECOND = re.compile(ISO.placed[0][0])
_FRACTION = re.compile(FRACTION)
_ISO_CHARS = 19
_MAX_TEXT_CHARS = 80
_NUMBER = re.compile(r"-?[0-9]{1,19}(?:\.[0-9]{0,9})?")
_LEAST_SECONDS, _MOST_SECONDS = 100_000_000, 100_000_000_000
"""Smaller numbers are durations or counters (before 1973); from the second bound on the unit is milliseconds, and so on."""


class TimestampParser:
    """Parses the timestamps of one log. ``zone`` applies to timestamps without a zone. ``reference_us``, the time of the run or segment,
    completes those without a year or day with the nearest match, so that December's lines read in January belong to last year. Without a
    reference they give None.

    Caches at most 10,000 seconds for each format and each of 10 zones.
    """

    def __init__(self, zone: tzinfo = UTC, reference_us: int | None = None) -> None:
        self.zone = zone
        self.reference_us = reference_us
        self._iso = self._by_zone(lambda second: ISO.fields(second) if _WHOLE_SECOND.fullmatch(second) else _NO_FIELDS)
        self._rests: _Cache[str, tuple[int, str | None] | None] = _Cache(_fraction_and_zone)

    def reader(self, stamp: TimestampFormat) -> ReadTimestamp:
        """The function that parses timestamps of one format."""
        by_zone = self._by_zone(stamp.fields)

        def read(second: str, fraction: str | None, zone: str | None) -> int | None:
            us = by_zone[zone][second]
            if us is None or not fraction:
                return us
            return us + (int(fraction) * _SCALE[len(fraction)] if len(fraction) < 7 else int(fraction[:6]))

        return read

    @cached_property
    def _month(self) -> ReadTimestamp:
        return self.reader(MONTH)

    def parse_text(self, text: str) -> int | None:
        """Parses a field's text: a date and time in any notation of text lines, or a number since the epoch."""
        if len(text) > _MAX_TEXT_CHARS:
            return None
        rest = self._rests[text[_ISO_CHARS:]]
        if rest is not None and (us := self._iso[rest[1]][text[:_ISO_CHARS]]) is not None:
            return us + rest[0]
        if text[-1:] == " ":  # .NET's formats of times end with one
            return self.parse_text(text.rstrip())
        if _NUMBER.fullmatch(text):
            return self.parse_number(float(text) if "." in text else int(text))
        if (iso := iso_notation(text)) is not None:
            return self.parse_text(iso)
        found = _WITHOUT_YEAR.match(text)
        rest = found and self._rests[text[found.end() :]]
        us = self._month(found[0], None, rest[1]) if found and rest else None
        return us + rest[0] if us is not None and rest else None

    def parse_number(self, number: float) -> int | None:
        """Seconds, milliseconds, microseconds or nanoseconds since the epoch; the magnitude gives the unit."""
        if isinstance(number, float) and not math.isfinite(number):
            return None
        for unit_us in (SECOND_US, 1000, 1):
            if _LEAST_SECONDS * SECOND_US <= number * unit_us < _MOST_SECONDS * SECOND_US:
                return round(number * unit_us)
        us = int(number) // 1000
        return us if _LEAST_SECONDS * SECOND_US <= us < _MOST_SECONDS * SECOND_US else None

    def _by_zone(self, fields: Callable[[str], DateFields]) -> _Cache[str | None, _Cache[str, int | None]]:
        """A cache from zone (None: no zone) and second to microseconds."""
        return _Cache(lambda zone: _Cache(lambda second: self._zoned_us(fields(second), zone)), _MAX_ZONES)

    def _zoned_us(self, fields: DateFields, zone: str | None) -> int | None:
        zone = zone and zone.strip(_MARK)
        if zone and (half := _MERIDIEM.match(zone)):
            hour = fields[3] % 12 if fields[3] == 12 else fields[3]
            fields = *fields[:3], hour + 12 if half[1] in "Pp" and hour < 12 else hour, *fields[4:]
            zone = zone[half.end() :]
        stated = zone_in_text(zone, self.zone) if zone else self.zone
        return None if stated is None else self._second_us(fields, stated)

    def _second_us(self, fields: DateFields, zone: tzinfo) -> int | None:
        reference_us = self.reference_us
        if fields[0] is not None:
            return _us(fields, zone)
        if reference_us is None or not FIRST_US <= reference_us <= LAST_US:
            return None
        nearest: int | None = None
        for candidate in _completed(fields, reference_us):
            us = _us(candidate, zone)
            if us is not None and (nearest is None or abs(us - reference_us) < abs(nearest - reference_us)):
                nearest = us
            if nearest is not None and abs(nearest - reference_us) < (_NEAR_DAY_US if fields[1] is None else _NEAR_YEAR_US):
                break
        return nearest


def rewritten(text: str) -> str | None:
    """A line with its time in ISO's notation, and with marks around a zone that layouts do not read; None if that is how it is."""
    if not may_begin_with_time(text):
        return None
    beginning = compiled_once(_BEGINNING).match(text, 0, _HEAD_CHARS)
    if beginning is not None and not text[:1].isalpha():
        return None if beginning["rare"] is None else _with_marks(text, beginning.end())
    if (iso := iso_notation(text)) is not None:
        text, beginning = iso, compiled_once(_BEGINNING).match(iso, 0, _HEAD_CHARS)
    return _with_marks(text, beginning.end()) or iso if beginning and beginning["rare"] is not None else iso


def _with_marks(text: str, at: int) -> str | None:
    """A line with marks around the zone behind its time."""
    stated = compiled_once(_STATED).match(text, at)
    if stated is None:
        return None
    end, (offset, name) = stated.end(), stated.group("offset", "name")
    if name and not is_zone_name(name.strip(" ()[]")):
        end = stated.start("name")
    if offset and offset[:1] == " " and offset[2:].isdigit() and len(offset) == 4 and int(offset[2:]) > MOST_HOURS:
        end = stated.start("offset")
    return f"{text[:at]}{_MARK}{text[at:end]}{_MARK}{text[end:]}"


def is_plausible(time_ms: int, appended_ms: int) -> bool:
    """Whether a line that was stored at ``appended_ms`` can be from ``time_ms``: since 2000, and at most a day after ``appended_ms``."""
    return _EARLIEST_MS <= time_ms <= appended_ms + _MAX_AHEAD_MS


def _completed(fields: DateFields, reference_us: int) -> Iterator[DateFields]:
    """Candidates for a timestamp without a year or day: the years, or days, around the reference."""
    _, month, day, hour, minute, second = fields
    reference = _EPOCH + reference_us * _ONE_US
    if month is not None:
        yield from ((reference.year + shift, month, day, hour, minute, second) for shift in (0, -1, 1))
        return
    for shift_us in (0, -DAY_US, DAY_US):
        if FIRST_US <= reference_us + shift_us <= LAST_US:
            date = reference + shift_us * _ONE_US
            yield date.year, date.month, date.day, hour, minute, second


class _Cache(dict[K, V]):
    """Caches the results of a function; a hit calls no Python code. Cleared when full."""

    __slots__ = ("_compute", "_max_size")

    def __init__(self, compute: Callable[[K], V], max_size: int = _MAX_CACHED) -> None:
        super().__init__()
        self._compute, self._max_size = compute, max_size

    def __missing__(self, key: K) -> V:
        if len(self) >= self._max_size:
            self.clear()
        self[key] = value = self._compute(key)
        return value


def _us(fields: DateFields, zone: tzinfo) -> int | None:
    """A leap second counts as the first second of the next minute."""
    year, month, day, hour, minute, second = fields
    if year is None or month is None or day is None or second > 60:
        return None
    try:
        us = (datetime(year, month, day, hour, minute, min(second, 59), tzinfo=zone) - _EPOCH) // _ONE_US
    except (ValueError, OverflowError):
        return None
    us += SECOND_US if second == 60 else 0
    return us if FIRST_US <= us <= LAST_US else None


def _fraction_and_zone(rest: str) -> tuple[int, str | None] | None:
    """Parses the text after the seconds: (microseconds, zone)."""
    fraction = _FRACTION.match(rest)
    stated = fraction and compiled_once(_STATED).fullmatch(rest, fraction.end())
    if not fraction or not stated or (stated["name"] and not is_zone_name(stated["name"].strip(" ()[]"))):
        return None
    return int((fraction["fraction"] or "0").ljust(6, "0")[:6]), stated[0] or None
