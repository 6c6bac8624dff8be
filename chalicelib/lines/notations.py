"""Rewrites times with a date that are written in other ways than ISO 8601, such as ``Sat, 21 Nov 2026``, ``11/21/2026 3:12:45 AM`` and
seconds since the epoch, so that every layout with an ISO time parses them. Fractions, halves of the day and zones stay as they are.

They are looked for only in lines that nothing else parses with a time.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from functools import cache

from chalicelib.lines.zones import ZONE_NAME

MONTH_NAMES = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")
_MONTHS = tuple(map(str.lower, MONTH_NAMES))
_WEEKDAYS = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")
_MONTH = (
    "(?P<month>(?i:jan(?:uary)?|feb(?:ruary)?|mar(?:ch)?|apr(?:il)?|may|june?|july?|aug(?:ust)?|sept?(?:ember)?"
    "|oct(?:ober)?|nov(?:ember)?|dec(?:ember)?))"
)
_DAY = "(?P<day>[0-9]{1,2})"
_BEFORE = rf"(?:\[?[A-Z]{{3,9}}\]?:? +(?=\[?\w))?\[?(?P<date>(?:(?i:{'|'.join(_WEEKDAYS)})[a-z]{{0,6}}[,.]? +)?)"
"""What layouts have before a time: a level, a bracket. And the day of the week, which is left out."""
_COMPACT = "(?P<year>(?:19|20)[0-9]{2})(?P<number>[0-9]{2})(?P<day>[0-9]{2})"
_DATES = (
    rf"(?P<year>[0-9]{{4}})(?P<mark>[-/. ])(?:(?P<number>[0-9]{{1,2}})|{_MONTH})(?P=mark) ?{_DAY}",
    rf"{_DAY}(?P<mark>[-/. ]){_MONTH}\.?(?P=mark)(?P<year>[0-9]{{4}}|[0-9]{{2}})",
    r"(?P<number>[0-9]{1,2})(?P<mark>[-/.])(?P<day>[0-9]{1,2})(?P=mark)"
    r"(?P<year>[0-9]{4}|[0-9]{2}(?= [0-9]{1,2}:[0-9]{2}:[0-9]{2}:[0-9])|(?<=\[../../)[0-9]{2}(?= ))",
    rf"{_MONTH}\.? {{1,2}}{_DAY}(?:,? (?P<year>[0-9]{{4}}))?",
    _COMPACT,
    "(?P<year>[0-9]{2})(?P<number>[0-9]{2})(?P<day>[0-9]{2})(?= [ 0-9]?[0-9]:)",
)
_CLOCK = (
    "(?P<hour>[ 0-9]?[0-9])(?P<mark>[:.])(?P<minute>[0-9]{2})(?P=mark)(?P<second>[0-9]{2})(?![0-9])(?P<fraction>[.,:][0-9]{1,9})?"
    r"(?:[ \u00a0\u202f]?(?P<half>[AaPp])(?:\.[Mm]\.|[Mm])(?![A-Za-z]))?"
)
_TIME = "(?:[Tt_:.-]|,? {1,2}(?:at )?)" + _CLOCK
_COMPACT_TIME = (
    "[T-](?P<hour>[0-9]{2})(?P<minute>[0-9]{2})(?P<second>[0-9]{2})(?![0-9])(?P<fraction>[.,][0-9]{1,9})?(?P<half>(?!))?"
)
_TIME_ALONE = rf"\[?(?P<time>){_CLOCK}"
_YEAR_BEHIND = rf"(?P<zone> (?:{ZONE_NAME}|[+-][0-9]{{4}}))? (?P<year>[0-9]{{4}})(?![\w.,/-]|:\S)"
_EPOCH = r"(?P<seconds>[12][0-9]{9})(?P<ms>[0-9]{3})?(?P<us>[0-9]{3})?(?P<ns>[0-9]{3})?(?:\.(?P<fraction>[0-9]{1,9}))?"
_NUMBERS = (
    rf"\[{_EPOCH}(?=\](?: |$))",
    rf"{_EPOCH}(?=\t|(?: - \S+)?(?: - | \| | ) *(?:\[[A-Za-z]{{3,13}} *\]|[A-Z]{{3,9}}(?:[ :]|$))| +[0-9]+ \S+ [A-Z_]+/[0-9]{{3}} )",
)
"""A number alone is no time: it is in brackets, or before a tab, a level or the fields of an access log."""
_CAPITALS = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
_SIGNS = frozenset("0123456789[<")
_WORDS = frozenset(word for each in (*_WEEKDAYS, *_MONTHS) for word in (each.capitalize(), each))
_PAIRS = frozenset(first + second for first in _CAPITALS for second in _CAPITALS)
BEGINS_TIME = _SIGNS | {word[0] for word in (*_WORDS, *_PAIRS)}
"""The first characters of texts that may begin with a time."""
_HEAD_CHARS = 128
_MONTHS_A_YEAR = 12
_START = datetime(1970, 1, 1, tzinfo=UTC)


def may_begin_with_time(text: str) -> bool:
    """Whether a text begins with a number, a bracket, a month, a day of the week or capitals."""
    return text[:1] in _SIGNS or text[:3] in _WORDS or text[:2] in _PAIRS


def iso_notation(text: str) -> str | None:
    """A text that begins with a time in another notation, with it in ISO's notation; None if it does not."""
    if not may_begin_with_time(text):
        return None
    head = text[:_HEAD_CHARS]
    iso = _of_date(head) or _of_time(head) or _of_number(head)
    return None if iso is None or iso == head else iso + text[_HEAD_CHARS:]


@cache
def compiled_once(pattern: str) -> re.Pattern[str]:
    """A pattern that is compiled on first use: few logs need all."""
    return re.compile(pattern, re.ASCII)


def _of_date(head: str) -> str | None:
    before = compiled_once(_BEFORE).match(head)
    if before is None:
        return None
    for pattern in _DATES:
        date = compiled_once(pattern).match(head, before.end())
        if date is None:
            continue
        time = compiled_once(_TIME).match(head, date.end())
        if time is None and pattern is _COMPACT:
            time = compiled_once(_COMPACT_TIME).match(head, date.end())
        if time is None:
            continue
        end, zone, year = time.end(), "", date["year"]
        if year is None and (behind := compiled_once(_YEAR_BEHIND).match(head, end)):
            end, zone, year = behind.end(), behind["zone"] or "", behind["year"]
        if year is not None:
            return f"{head[: before.start('date')]}{_iso_date(date, year)} {_iso_time(time)}{zone}{head[end:]}"
    return None


def _iso_date(date: re.Match[str], year: str) -> str:
    """Numbers only, with slashes: the month first, otherwise the day first, unless that number is no month."""
    day, fields = int(date["day"]), date.groupdict()
    if fields.get("number") is None:
        month = _MONTHS.index(date["month"][:3].lower()) + 1
    else:
        month = int(date["number"])
        is_year_first = date.start("year") < date.start("number")
        if not is_year_first and (month > _MONTHS_A_YEAR if date["mark"] == "/" else day <= _MONTHS_A_YEAR):
            month, day = day, month
    century = "" if len(year) > 2 else "19" if year >= "69" else "20"
    return f"{century}{year}-{month:02}-{day:02}"


def _iso_time(time: re.Match[str]) -> str:
    half = f" {time['half'].upper()}M" if time["half"] else ""
    return f"{int(time['hour']):02}:{time['minute']}:{time['second']}{time['fraction'] or ''}{half}"


def _of_time(head: str) -> str | None:
    """A time alone, of a 12-hour clock."""
    time = compiled_once(_TIME_ALONE).match(head)
    return f"{head[: time.start('time')]}{_iso_time(time)}{head[time.end() :]}" if time and time["half"] else None


def _of_number(head: str) -> str | None:
    """Seconds, milliseconds, microseconds or nanoseconds since the epoch."""
    found = next((found for pattern in _NUMBERS if (found := compiled_once(pattern).match(head))), None)
    if found is None:
        return None
    fraction = "".join(digits or "" for digits in found.group("ms", "us", "ns", "fraction"))[:9]
    second = (_START + timedelta(seconds=int(found["seconds"]))).strftime("%Y-%m-%dT%H:%M:%S")
    return f"{head[: found.start('seconds')]}{second}{'.' if fraction else ''}{fraction}Z{head[found.end() :]}"
