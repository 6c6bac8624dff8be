"""Zones by name, offset and abbreviation. Expected values from the system's zones."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone
from importlib.resources import files

import pytest

from chalicelib.lines.levels import LEVELS
from chalicelib.lines.zones import ABBREVIATIONS, zone_of

AMBIGUOUS = {"CST", "CDT", "IST", "PST"}
FORMER = {
    *("UCT", "MET", "MEST", "BRT", "BRST", "CLT", "CLST", "UYT", "MEZ", "MESZ", "MSD"),
    *("TRT", "GST", "UZT", "NPT", "ICT", "MYT", "PHT", "SGT"),
}
"""Those that no zone of today has."""


def names() -> list[str]:
    return files("tzdata").joinpath("zones").read_text().split()


def test_abbreviations_of_today_are_in_the_table() -> None:
    offsets: dict[str, set[timedelta | None]] = {}
    for name in names():
        for month in (1, 7):
            moment = datetime(2026, month, 1, tzinfo=zone_of(name))
            if (abbreviation := moment.tzname() or "").isalpha():
                offsets.setdefault(abbreviation, set()).add(moment.utcoffset())
    assert offsets.keys() == ABBREVIATIONS.keys() - FORMER
    assert {abbreviation for abbreviation, several in offsets.items() if len(several) > 1} == AMBIGUOUS
    assert all(timedelta(minutes=ABBREVIATIONS[abbreviation]) in several for abbreviation, several in offsets.items())


def test_no_abbreviation_is_a_level() -> None:
    assert LEVELS.keys().isdisjoint(ABBREVIATIONS)


@pytest.mark.parametrize(
    ("text", "minutes"), [("UTC", 0), ("Z", 0), ("z", 0), ("+01", 60), ("+0545", 345), ("-09:30", -570), ("Etc/GMT+3", -180)]
)
def test_zone_has_the_offset(text: str, minutes: int) -> None:
    assert zone_of(text).utcoffset(datetime(2026, 11, 21)) == timedelta(minutes=minutes)


def test_iana_zone_has_its_rules() -> None:
    berlin = zone_of("Europe/Berlin")
    assert datetime(2026, 7, 21, 3, tzinfo=berlin).astimezone(UTC) == datetime(2026, 7, 21, 1, tzinfo=UTC)
    assert datetime(2026, 11, 21, 3, tzinfo=berlin) == datetime(2026, 11, 21, 3, tzinfo=timezone(timedelta(hours=1)))


@pytest.mark.parametrize(
    "text", ["", "x", "Europe", "Europe/Nowhere", "../zones", "zones", "Europe/../zones", "+1", "+24:00", "+01:60", "CEST", "é", "\0", "A" * 9999]
)  # fmt: skip
def test_other_text_is_no_zone(text: str) -> None:
    with pytest.raises(ValueError, match="must be a zone"):
        zone_of(text)
