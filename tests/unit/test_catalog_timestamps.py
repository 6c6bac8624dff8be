"""Times of the catalog: every notation gives the same milliseconds, and an invalid one raises InvalidTimeError only."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from chalicelib.catalog.timestamps import DAY_MS, FIRST_MS, LAST_MS, MAX_SECONDS, in_range, iso, parse_time_ms
from chalicelib.errors import InvalidTimeError

NOW_MS = 1_790_000_000_123
MARCH_20_MS = 1_426_809_600_000
"""2015-03-20T00:00:00Z."""
INSTANTS = st.integers(FIRST_MS, LAST_MS)
OFFSETS = st.integers(-23 * 60 - 59, 23 * 60 + 59)


def moment(value: Any) -> int:
    return parse_time_ms(value, NOW_MS)


@pytest.mark.parametrize(
    "text",
    [
        "2015-03-20",
        "2015-03-20T00:00:00Z",
        "2015-03-20T00:00:00.000Z",
        "2015-03-20 00:00",
        "2015-03-20T00:00:00",
        "2015-03-20T00:00:00+00:00",
        "2015-03-20T01:30:00+01:30",
        "2015-03-19T19:00:00-05:00",
        "20150320T000000Z",
        "20 Mar 2015",
        "Mar 20, 2015",
        "March 20 2015 00:00:00",
        "Fri Mar 20 00:00:00 UTC 2015",
        "Fri, 20 Mar 2015 00:00:00 GMT",
        "Fri, 20 Mar 2015 02:00:00 +0200",
        "1426809600",
        "1426809600.0",
        "1426809600000",
        " 1426809600 ",
        "1.4268096e9",
        1_426_809_600,
        1_426_809_600_000,
        1_426_809_600.0,
        1.4268096e12,
        Decimal("1426809600"),
        datetime(2015, 3, 20),
        datetime(2015, 3, 20, tzinfo=UTC),
        datetime(2015, 3, 20, 5, 45, tzinfo=timezone(timedelta(hours=5, minutes=45))),
    ],
)
def test_one_moment_in_many_ways(text: Any) -> None:
    assert moment(text) == MARCH_20_MS


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("now", NOW_MS),
        (0, 0),
        ("0", 0),
        (1, 1000),
        (-1, -1000),
        ("2015", 2_015_000),  # a number, not a year
        (1.5, 1500),
        ("0.0015", 1),
        (MAX_SECONDS, MAX_SECONDS * 1000),
        (MAX_SECONDS + 1, MAX_SECONDS + 1),
        (LAST_MS, LAST_MS),
        (LAST_MS + 0.5, LAST_MS),
        (FIRST_MS // 1000, FIRST_MS),
        ("1969-12-31T23:59:59.999Z", -1),
        ("0001-01-01T00:00:00", FIRST_MS),
        ("9999-12-31T23:59:59.999999", LAST_MS),
        (datetime.min, FIRST_MS),
        (datetime.max, LAST_MS),
        ("2015-03-20T00:00:00.123456Z", MARCH_20_MS + 123),
    ],
)
def test_at_the_edges(value: Any, expected: int) -> None:
    assert moment(value) == expected


NOT_MOMENTS: list[Any] = [
    *("", " ", "x", "yesterday", "never", "null", "None", "nan", "NaN", "inf", "-inf", "Infinity", "sNaN", "-", "+", ".", "é", "\0"),
    *("\ud800", "2015-13-01", "2015-02-30", "2015-03-20T25:00", "2015-03-20T10:00:00+24:00", "10:00 +9999", "Jan 1 2015 10:00 -9999"),
    *("0000-01-01", "10000-01-01", "Fri Mar 20 00:00:00 CET 2015", "NOW", "now ", "0x10", "1" * 400, "1e999", "-1e999", "1e1000000"),
    *("-1e1000000", "1e999999999999999999", "253402300800000", "-62135596801", "0001-01-01T00:00:00+00:01"),
    *("9999-12-31T23:59:59-00:01", "x" * 100_000, "1:" * 1000),
    *(True, False, None, [], {}, b"2015-03-20", object(), (1,), 1j),
    *(float("nan"), float("inf"), float("-inf"), 1e300, -1e300, 10**30, -(10**30), LAST_MS + 1, Decimal("NaN"), Decimal("1e1000000")),
    *(datetime(1, 1, 1, tzinfo=timezone(timedelta(hours=1))), datetime(9999, 12, 31, 23, 59, tzinfo=timezone(timedelta(hours=-1)))),
]  # fmt: skip


@pytest.mark.parametrize("number", range(len(NOT_MOMENTS)))
def test_invalid_time(number: int) -> None:
    with pytest.raises(InvalidTimeError) as caught:
        moment(NOT_MOMENTS[number])
    assert len(str(caught.value)) < 250, "a message repeats no book"


def test_a_number_of_more_digits_than_python_prints_is_no_moment() -> None:
    for number in (10**5000, -(10**5000)):
        with pytest.raises(InvalidTimeError):
            moment(number)


def test_a_long_text_is_not_read_in_part() -> None:
    """The remainder could change the time."""
    with pytest.raises(InvalidTimeError):
        moment("20 Mar 2015" + " " * 100 + "is when the other thing happened")


PIECES = st.sampled_from([
    *"0123456789.:-+/,TZ W'()", "10", "2015", "99", "0000", "+9999", "-2400", "Jan", "Mon", "am", "PM", "UTC", "CET", "GMT+3", "nan", "inf",
    "e", "E5", "1e9", "h", "m", "s", "of", "and", "st", "th", "now", "\ud800", "é", "٣", "\0", "\n",
])  # fmt: skip


@given(st.one_of(st.lists(PIECES, max_size=10).map("".join), st.text(max_size=40)))
@example("10:00 +9999")
@example("2015-03-20T10:00:00+24:00")
@example("1e1000000")
def test_no_text_does_anything_but_be_a_moment_or_be_refused(text: str) -> None:
    try:
        found = moment(text)
    except InvalidTimeError:
        return
    assert type(found) is int and FIRST_MS <= found <= LAST_MS


@given(
    st.one_of(
        st.integers(), st.floats(), st.decimals(), st.booleans(), st.none(), st.binary(), st.datetimes(), st.lists(st.integers())
    )
)
def test_no_value_does_anything_but_be_a_moment_or_be_refused(value: Any) -> None:
    try:
        found = moment(value)
    except InvalidTimeError:
        return
    assert type(found) is int and FIRST_MS <= found <= LAST_MS


@given(INSTANTS)
@example(FIRST_MS)
@example(-1)
@example(0)
@example(LAST_MS)
def test_iso_is_read_back(ms: int) -> None:
    text = iso(ms)
    assert moment(text) == ms
    assert len(text) == 24 and text[10] == "T" and text.endswith("Z")


@given(INSTANTS, INSTANTS)
def test_iso_sorts_as_time_does(one: int, other: int) -> None:
    assert (iso(one) < iso(other)) == (one < other)


@given(INSTANTS, OFFSETS)
def test_a_moment_is_the_same_in_every_zone(ms: int, offset_minutes: int) -> None:
    local = datetime(1970, 1, 1) + timedelta(milliseconds=min(max(ms, FIRST_MS + DAY_MS), LAST_MS - DAY_MS))
    zoned = local.replace(tzinfo=timezone(timedelta(minutes=offset_minutes)))
    expected = moment(local) - offset_minutes * 60_000
    assert moment(zoned) == moment(zoned.isoformat()) == expected


@given(st.integers(MAX_SECONDS + 1, LAST_MS) | st.integers(FIRST_MS, -MAX_SECONDS - 1))
def test_milliseconds_are_themselves_however_they_are_written(ms: int) -> None:
    assert moment(ms) == moment(str(ms)) == moment(float(ms)) == moment(Decimal(ms)) == ms


@given(st.integers(FIRST_MS // 1000, MAX_SECONDS))
def test_seconds_become_milliseconds(seconds: int) -> None:
    assert moment(seconds) == moment(str(seconds)) == moment(float(seconds)) == seconds * 1000


@given(st.integers())
def test_the_range_of_times(ms: int) -> None:
    if FIRST_MS <= ms <= LAST_MS:
        assert in_range(ms) == ms
    else:
        with pytest.raises(InvalidTimeError):
            in_range(ms)


def test_the_first_and_the_last_millisecond() -> None:
    assert (iso(FIRST_MS), iso(LAST_MS)) == ("0001-01-01T00:00:00.000Z", "9999-12-31T23:59:59.999Z")
    assert (iso(0), iso(-1), iso(MARCH_20_MS + 5)) == (
        "1970-01-01T00:00:00.000Z",
        "1969-12-31T23:59:59.999Z",
        "2015-03-20T00:00:00.005Z",
    )
