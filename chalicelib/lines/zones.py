"""Zones by name: IANA names, offsets and abbreviations, with the same result in functions and Spark.

Rules of IANA zones come from the pinned package ``tzdata``, whatever the system has; a copy of this module without that package uses the
system's.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import UTC, timedelta, timezone, tzinfo
from functools import lru_cache
from importlib.resources import files
from zoneinfo import ZoneInfo

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

_OFFSET = re.compile(r"([+-])([0-9]{2})(?::?([0-9]{2}))?", re.ASCII)
_NAME = re.compile(r"[A-Za-z][\w+-]*(?:/[A-Za-z][\w+-]*){0,2}", re.ASCII)
_MAX_ZONES = 1000


def zone_of(text: str) -> tzinfo:
    """A zone by its IANA name or offset: ``Europe/Berlin``, ``+01``, ``+0100``, ``+01:00``, ``UTC``, ``Z``. Raises ValueError."""
    if text.upper() in ("UTC", "Z"):
        return UTC
    zone = _fixed(text) if text[:1] in ("+", "-") else _named(text)
    if zone is None:
        raise ValueError("must be a zone such as Europe/Berlin or +01:00")
    return zone


def _fixed(text: str) -> tzinfo | None:
    offset = _OFFSET.fullmatch(text)
    if offset is None or (hours := int(offset[2])) > 23 or (minutes := int(offset[3] or 0)) > 59:
        return None
    span = timedelta(hours=hours, minutes=minutes)
    return timezone(-span if offset[1] == "-" else span)


@lru_cache(_MAX_ZONES)
def _named(name: str) -> tzinfo | None:
    if _NAME.fullmatch(name) is None:
        return None
    try:
        with files("tzdata").joinpath("zoneinfo", name).open("rb") as file:
            return ZoneInfo.from_file(file, key=name)
    except ModuleNotFoundError:
        pass
    except (OSError, ValueError):
        return None
    try:
        return ZoneInfo(name)
    except (LookupError, OSError, ValueError):
        return None
