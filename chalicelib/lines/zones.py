"""Zones by name: IANA names, offsets and abbreviations, with the same result in functions and Spark.

Rules of IANA zones come from the pinned package ``tzdata``, whatever the system has; a copy of this module without that package uses the
system's.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta, timezone, tzinfo
from functools import cache, lru_cache

ABBREVIATIONS: Mapping[str, int] = {
    "UTC": 0, "GMT": 0, "UCT": 0,
    # North America and the Pacific
    "NST": -210, "NDT": -150, "AST": -240, "ADT": -180, "EST": -300, "EDT": -240, "CST": -360, "CDT": -300, "MST": -420, "MDT": -360,
    "PST": -480, "PDT": -420, "AKST": -540, "AKDT": -480, "HST": -600, "HDT": -540, "SST": -660, "ChST": 600,
    # South America
    "BRT": -180, "BRST": -120, "CLT": -240, "CLST": -180, "UYT": -180,
    # Europe
    "WET": 0, "WEST": 60, "BST": 60, "CET": 60, "CEST": 120, "MET": 60, "MEST": 120, "MEZ": 60, "MESZ": 120, "EET": 120, "EEST": 180,
    "MSK": 180, "MSD": 240, "TRT": 180,
    # Africa
    "WAT": 60, "CAT": 120, "SAST": 120, "EAT": 180,
    # Asia
    "IDT": 180, "GST": 240, "PKT": 300, "UZT": 300, "IST": 330, "NPT": 345, "ICT": 420, "WIB": 420, "HKT": 480, "MYT": 480, "PHT": 480,
    "SGT": 480, "WITA": 480, "JST": 540, "KST": 540, "WIT": 540,
    # Australia and New Zealand
    "AWST": 480, "ACST": 570, "ACDT": 630, "AEST": 600, "AEDT": 660, "NZST": 720, "NZDT": 780,
}  # fmt: skip
"""Minutes east of UTC: the abbreviations that ``tzdata`` has today, and those of Java and of earlier ``tzdata`` that have one meaning. Of
several meanings, as in PostgreSQL's set ``Default``, except for ``IST``: ``CST`` and ``CDT`` are America's (not China's or Cuba's), ``PST``
America's (not the Philippines'), ``BST`` is British summer, ``IST`` India (not Ireland or Israel), ``AST`` the Atlantic, ``SST`` Samoa."""

MOST_HOURS = 14
"""A larger number of hours behind a space, without minutes, is no offset."""
_BY_NAME = "UTC", "GMT"
"""These may have an offset: ``GMT+2``."""
REGIONS = (
    *("Africa", "America", "Antarctica", "Arctic", "Asia", "Atlantic", "Australia", "Canada", "Etc", "Europe", "Indian", "Pacific"),
    "US",
)
"""The first parts of IANA names; others are too much like other words."""
ZONE_NAME = rf"(?:[A-Z][A-Zh]{{1,3}}[A-DKTZ](?:[+-][0-9]{{1,2}}(?::?[0-9]{{2}})?)?|(?:{'|'.join(REGIONS)})/[\w/+-]+)"
"""What looks like the name of a zone (``is_zone_name``)."""
_OFFSET = re.compile(r"([+-])([0-9]{1,2})(?::?([0-9]{2}))?", re.ASCII)
_FULL_OFFSET = re.compile("[+-][0-9]{2}(?::?[0-9]{2})?")
_NAME = re.compile(r"[A-Za-z][\w+-]*(?:/[A-Za-z][\w+-]*){0,2}", re.ASCII)
_MAX_ZONES = 1000


def zone_of(text: str) -> tzinfo:
    """A zone by its IANA name or offset: ``Europe/Berlin``, ``+01``, ``+0100``, ``+01:00``, ``UTC``, ``Z``. Raises ValueError."""
    if text.upper() in ("UTC", "Z"):
        return UTC
    zone = _fixed(text) if _FULL_OFFSET.fullmatch(text) else _named(text)
    if zone is None:
        raise ValueError("must be a zone such as Europe/Berlin or +01:00")
    return zone


def is_zone_name(text: str) -> bool:
    """Whether a word behind a time names a zone: an abbreviation, one with an offset, or an IANA name with a region."""
    return _of_name(text, UTC) is not None


def zone_in_text(text: str, own: tzinfo) -> tzinfo | None:
    """The zone that is written behind a time in a run of the zone ``own``; None if it is invalid. A name behind an offset only repeats
    it."""
    text = text.lstrip()
    if text[:1] in ("Z", "z") and not text[1:2].isalpha():
        return UTC
    offset = _OFFSET.match(text)
    return _fixed(offset[0]) if offset else _of_name(text.strip("()[]"), own)


class _Abbreviation(tzinfo):
    """An abbreviation in a run: the run's own zone while that has this name (``CST`` in a run of Asia/Shanghai), or else the table's."""

    def __init__(self, name: str, own: tzinfo) -> None:
        self._name, self._own = name, own

    def utcoffset(self, moment: datetime | None) -> timedelta:
        """The offset at a local time."""
        if moment is not None:
            for fold in (0, 1):
                own = moment.replace(tzinfo=self._own, fold=fold)
                if own.tzname() == self._name and (offset := own.utcoffset()) is not None:
                    return offset
        return timedelta(minutes=ABBREVIATIONS[self._name])

    def dst(self, moment: datetime | None) -> None:
        """Unknown."""

    def tzname(self, moment: datetime | None) -> str:
        """The abbreviation."""
        return self._name


def _of_name(name: str, own: tzinfo) -> tzinfo | None:
    if name in ABBREVIATIONS:
        return _Abbreviation(name, own) if not isinstance(own, timezone) else timezone(timedelta(minutes=ABBREVIATIONS[name]))
    if name[:3] in _BY_NAME:
        return _fixed(name[3:])
    return _named(name) if "/" in name else None


def _fixed(text: str) -> tzinfo | None:
    offset = _OFFSET.fullmatch(text)
    if offset is None or (hours := int(offset[2])) > 23 or (minutes := int(offset[3] or 0)) > 59:
        return None
    span = timedelta(hours=hours, minutes=minutes)
    return timezone(-span if offset[1] == "-" else span)


@cache
def _names() -> frozenset[str]:
    """All names; none if the package is missing."""
    from importlib.resources import files  # slow to import, as zoneinfo is; few logs need them

    try:
        return frozenset(files("tzdata").joinpath("zones").read_text().split())
    except ModuleNotFoundError:
        return frozenset()


@lru_cache(_MAX_ZONES)
def _named(name: str) -> tzinfo | None:
    if _NAME.fullmatch(name) is None:
        return None
    from importlib.resources import files
    from zoneinfo import ZoneInfo

    if _names():
        if name not in _names():
            return None
        with files("tzdata").joinpath("zoneinfo", name).open("rb") as file:
            return ZoneInfo.from_file(file, key=name)
    try:
        return ZoneInfo(name)
    except (LookupError, OSError, ValueError):
        return None
