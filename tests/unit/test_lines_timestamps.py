"""Timestamps of lines: zones, missing years and days, and invalid dates."""

from __future__ import annotations

import math
from datetime import UTC, datetime, timedelta, timezone, tzinfo
from zoneinfo import ZoneInfo

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from chalicelib.lines import timestamps
from chalicelib.lines.formats import PLAIN, format_named
from chalicelib.lines.timestamps import FIRST_US, LAST_US, TimestampParser

QUIET = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
MARCH_20_US = 1_426_809_600_000_000
"""2015-03-20T00:00:00Z."""
MOMENTS = st.datetimes(datetime(1, 1, 3), datetime(9999, 12, 29))
YEARS = st.datetimes(datetime(1970, 1, 1), datetime(2199, 12, 31))


def us_of(moment: datetime) -> int:
    return ((moment if moment.tzinfo else moment.replace(tzinfo=UTC)) - EPOCH) // timedelta(microseconds=1)


def time_of(name: str, line: str, reference: datetime | None = None, zone: tzinfo = UTC) -> int | None:
    parsed = format_named(name).bind(TimestampParser(zone, None if reference is None else us_of(reference)))(line)
    assert parsed is not None, "the line is known whatever its time"
    return parsed.timestamp


def iso(line: str, zone: tzinfo = UTC) -> int | None:
    return time_of("iso", line, zone=zone)


@pytest.mark.parametrize(
    "text",
    [
        *(
            "2015-03-20 00:00:00",
            "2015-03-20T00:00:00",
            "2015/03/20 00:00:00",
            "2015-03-20 00:00:00.000",
            "2015-03-20 00:00:00,000",
        ),
        *("2015-03-20T00:00:00Z", "2015-03-20T00:00:00+00:00", "2015-03-20 00:00:00 +0000", "2015-03-20T00:00:00-0000"),
        *("2015-03-20T01:00:00+01", "2015-03-20T05:45:00.0+05:45", "2015-03-19 17:00:00,000000 -0700", "2015-03-20T14:00:00+1400"),
        *("2015-03-20 00:00:00 UTC", "2015-03-20 00:00:00.000 GMT", "2015-03-19T23:59:60Z", "2015-03-19T00:01:00-2359"),
    ],
)
def test_one_moment_in_many_ways(text: str) -> None:
    assert iso(f"{text} x") == MARCH_20_US


@pytest.mark.parametrize(
    ("fraction", "us"),
    [
        *((".1", 100_000), (",12", 120_000), (".123", 123_000), (".1234", 123_400), (".12345", 123_450), (".123456", 123_456)),
        *((".1234567", 123_456), (".999999999", 999_999), (".000000999", 0), ("", 0), (",000001", 1)),
    ],
)
def test_fractions_are_cut_to_microseconds(fraction: str, us: int) -> None:
    assert iso(f"2015-03-20 00:00:00{fraction} x") == MARCH_20_US + us
    assert iso(f"1969-12-31 23:59:59{fraction} x") == -1_000_000 + us


NO_DATES = [
    ("iso", "2026-02-29 03:12:45 x"),
    ("iso", "2026-13-01 03:12:45 x"),
    ("iso", "2026-00-10 03:12:45 x"),
    ("iso", "2026-04-31 03:12:45 x"),
    ("iso", "2026-11-21 24:00:00 x"),
    ("iso", "2026-11-21 03:60:45 x"),
    ("iso", "2026-11-21 03:12:61 x"),
    ("iso", "0000-01-01 00:00:00 x"),
    ("iso", "0001-01-01T00:00:00+00:01 x"),
    ("iso", "9999-12-31T23:59:59-00:01 x"),
    ("iso", "9999-12-31T23:59:60Z x"),
    ("iso", "2026-11-21T03:12:45+24:00 x"),
    ("iso", "2026-11-21T03:12:45+01:60 x"),
    ("iso", "2026-11-21T03:12:45 +9999 x"),
    ("spark", "26/02/29 03:12:45 INFO A: x"),
    ("spark", "26/21/11 03:12:45 INFO A: x"),
    ("hdfs", "261321 031245 1 INFO A: x"),
    ("hdfs", "261121 031299 1 INFO A: x"),
    ("syslog", "Nov 31 03:12:45 host a: x"),
    ("syslog", "Nov  0 03:12:45 host a: x"),
    ("syslog", "Feb 30 03:12:45 host a: x"),
    ("klog", "I1331 03:12:45.123456 1 a.go:1] x"),
    ("klog", "I0230 03:12:45.123456 1 a.go:1] x"),
    ("access", '192.0.2.7 - - [31/Nov/2026:03:12:45 +0000] "GET /" 200 1'),
    ("access", '192.0.2.7 - - [21/Nov/2026:25:12:45 +0000] "GET /" 200 1'),
    ("apache-error", "[Sun Feb 29 04:47:44 2005] [error] x"),
    ("time", "24:12:45 x"),
    ("time", "99:99:99 x"),
    ("openmetadata", "[2026-02-30 03:12:45] INFO     {a:b:1} - x"),
]


@pytest.mark.parametrize(("name", "line"), NO_DATES)
def test_invalid_date_is_none_and_the_rest_is_read(name: str, line: str) -> None:
    assert time_of(name, line, datetime(2026, 11, 21)) is None


def test_at_the_edges() -> None:
    assert iso("0001-01-01T00:00:00Z x") == iso("0001-01-01T00:01:00+00:01 x") == FIRST_US
    assert iso("9999-12-31T23:59:59.999999999Z x") == LAST_US
    assert (FIRST_US, LAST_US) == (us_of(datetime.min), us_of(datetime.max))


@QUIET
@given(MOMENTS, st.integers(-1439, 1439))
def test_offsets(moment: datetime, minutes: int) -> None:
    zoned = moment.replace(tzinfo=timezone(timedelta(minutes=minutes)))
    text = zoned.isoformat(timespec="microseconds")
    assert iso(f"{text} x") == iso(f"{text.replace('T', ' ')} x") == us_of(zoned)
    assert iso(f"{text[:-3]}{text[-2:]} x") == us_of(zoned), "without the colon"
    assert iso(f"{moment.isoformat(timespec='microseconds')} x", zone=zoned.tzinfo or UTC) == us_of(zoned), "as an option"


def test_zone_option_applies_to_lines_without_a_zone() -> None:
    berlin = ZoneInfo("Europe/Berlin")
    assert iso("2015-03-20 01:00:00 x", berlin) == iso("2015-03-20T00:00:00Z x", berlin) == MARCH_20_US
    assert iso("2026-07-01 02:00:00 x", berlin) == us_of(datetime(2026, 7, 1)), "summer"
    assert time_of("syslog", "Jul  1 02:00:00 host a: x", datetime(2026, 7, 2), berlin) == us_of(datetime(2026, 7, 1))
    assert time_of("time", "02:00:00 x", datetime(2026, 7, 1, 1), berlin) == us_of(datetime(2026, 7, 1))


@pytest.mark.parametrize("text", ["2026-03-29 02:30:00", "2026-10-25 02:30:00", "0001-01-01 00:00:00", "9999-12-31 23:59:59"])
def test_missing_and_repeated_hours_of_clock_changes(text: str) -> None:
    for zone in (ZoneInfo("Europe/Berlin"), timezone(timedelta(hours=14)), timezone(timedelta(hours=-12))):
        found = iso(f"{text} x", zone)
        assert found is None or FIRST_US <= found <= LAST_US


# Other notations: each of these is of 2026-11-21 15:12:45, or 03:12:45 for the 12-hour clock's AM.

NOTATIONS = [
    *("%Y-%m-%d %H:%M:%S", "%Y/%m/%dT%H:%M:%S", "%Y.%m.%d %H:%M:%S", "%Y-%m-%d, %H:%M:%S", "%Y-%m-%d_%H:%M:%S", "%Y-%m-%d.%H:%M:%S"),
    *("%Y-%-m-%-d %-H:%M:%S", "%Y-%m-%d %_H:%M:%S", "%Y-%m-%_d %H:%M:%S", "%Y-%m-%d,  %-H:%M:%S", "%Y%m%d %H:%M:%S", "%Y%m%dT%H%M%S"),
    *("%d.%m.%Y %H:%M:%S", "%-d.%-m.%Y %-H:%M:%S", "%d-%m-%Y %H:%M:%S", "%d/%b/%Y:%H:%M:%S", "%d-%b-%Y %H:%M:%S", "%d %b %Y %H:%M:%S"),
    *("%b %d, %Y %-I:%M:%S %p", "%b %-d, %Y, %-I:%M:%S\u202f%p", "%B %d, %Y at %I:%M:%S %p", "%d %B %Y, %H:%M:%S", "%Y %b %d %H:%M:%S"),
    *("%y%m%d %_H:%M:%S", "%a %b %_d %H:%M:%S %Y", "%a, %d %b %Y %H:%M:%S", "%A, %d %B %Y %H:%M:%S", "%a %d %b %Y %I:%M:%S %p", "%b %d %Y %H:%M:%S"),
    *("%m/%d/%Y %-I:%M:%S %p", "%m/%d/%Y %H:%M:%S", "%Y-%m-%d %I:%M:%S %p", "%Y-%m-%d %-I:%M:%S%p", "%Y-%b-%d %H:%M:%S", "%d-%b-%y %I.%M.%S %p"),
    *("%A, %B %-d, %Y at %-I:%M:%S.000000 %p", "%a %b %_d %H:%M:%S UTC %Y", "%a %b %_d %I:%M:%S %p GMT %Y", "%a %_d %b %Y %I:%M:%S %p UTC"),
]  # fmt: skip
IN_LINES = [
    ("{} 42 rows", (None, None, "42 rows")),
    ("{} INFO 42 rows", ("INFO", None, "42 rows")),
    ("{}: INFO 42 rows", ("INFO", None, "42 rows")),
    ("[{}]: INFO 42 rows", ("INFO", None, "42 rows")),
    ("[{}] [error] 42 rows", ("ERROR", None, "42 rows")),
    ("{} - orders.load - INFO - 42 rows", ("INFO", "orders.load", "42 rows")),
    ("{} INFO [main] org.example.Orders: 42 rows", ("INFO", "org.example.Orders", "42 rows")),
    ("[{}] {{load.py:12}} ERROR - 42 rows", ("ERROR", "load.py", "42 rows")),
    ("INFO  [{}] com.example.Orders: 42 rows", ("INFO", "com.example.Orders", "42 rows")),
    ("{} 7 [Warning] Aborted connection", ("WARNING", None, "Aborted connection")),
]
IN_TEXT = [
    *(("Z", "+0000"), (" UTC", "+0000"), ("+01:00", "+0100"), (" -0330", "-0330"), (" +03", "+0300"), (" CET", "+0100"), (" MSK", "+0300")),
    *((" EST", "-0500"), (" (PST)", "-0800"), (" GMT+2", "+0200"), (" UTC-03:30", "-0330"), (" Europe/Berlin", "+0100"), (" AM CET", "+0100")),
    *((" America/Argentina/Buenos_Aires", "-0300"), (" +0100 (CET)", "+0100"), (" +0000 UTC", "+0000"), ("+05:30[Asia/Kolkata]", "+0530")),
]  # fmt: skip


def words_of(name: str, line: str) -> tuple[int | None, tuple[str | None, str | None, str]]:
    parsed = format_named(name).reader(TimestampParser(reference_us=us_of(datetime(2026, 11, 22))))(line)
    assert parsed is not None
    return parsed.timestamp, parsed[1:]


@pytest.mark.parametrize("notation", NOTATIONS)
@pytest.mark.parametrize(
    "moment", [datetime(2026, 11, 21, 15, 12, 45), datetime(2027, 8, 30, 0, 5, 9), datetime(2026, 12, 31, 12, 0, 1)]
)
def test_notation_in_every_layout_has_its_moment(notation: str, moment: datetime) -> None:
    text = moment.strftime(notation)
    assert TimestampParser().parse_text(text) == us_of(moment)
    for line, words in IN_LINES:
        assert words_of("plain", line.format(text)) == words_of("python", line.format(text)) == (us_of(moment), words)


@pytest.mark.parametrize(
    ("text", "moment"),
    [
        ("05/06/2026 03:12:45", datetime(2026, 5, 6, 3, 12, 45)),
        ("05.06.2026 03:12:45", datetime(2026, 6, 5, 3, 12, 45)),
        ("05-06-2026 03:12:45", datetime(2026, 6, 5, 3, 12, 45)),
        ("21/11/2026 03:12:45", datetime(2026, 11, 21, 3, 12, 45)),
        ("11.21.2026 03:12:45", datetime(2026, 11, 21, 3, 12, 45)),
        ("21-NOV-68 03:12:45", datetime(2068, 11, 21, 3, 12, 45)),
        ("21-NOV-69 03:12:45", datetime(1969, 11, 21, 3, 12, 45)),
        ("2026-11-21 12:12:45 AM", datetime(2026, 11, 21, 0, 12, 45)),
        ("2026-11-21 12:12:45 PM", datetime(2026, 11, 21, 12, 12, 45)),
        ("2026-11-21 15:12:45 PM", datetime(2026, 11, 21, 15, 12, 45)),
    ],
)
def test_notation_with_more_than_one_meaning(text: str, moment: datetime) -> None:
    assert TimestampParser().parse_text(text) == words_of("plain", f"{text} x")[0] == us_of(moment)


@pytest.mark.parametrize(("zone", "offset"), IN_TEXT)
@pytest.mark.parametrize("notation", ["%Y-%m-%d %H:%M:%S", "%Y-%m-%d, %H:%M:%S.123", "%d/%b/%Y:%H:%M:%S"])
def test_zone_in_text_counts_and_is_no_word(notation: str, zone: str, offset: str) -> None:
    moment = datetime(2026, 11, 21, 3, 12, 45, 123_000 if "123" in notation else 0)
    text, expected = moment.strftime(notation) + zone, us_of(moment.replace(tzinfo=datetime.strptime(offset, "%z").tzinfo))
    assert TimestampParser().parse_text(text) == expected
    for line, words in IN_LINES:
        assert words_of("plain", line.format(text)) == (expected, words)


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("2026-11-21 03:12:45 XST INFO 42 rows", ("INFO", "XST", "42 rows")),
        ("2026-11-21 03:12:45 Europe/load INFO 42 rows", ("INFO", "Europe/load", "42 rows")),
        ("2026-11-21 03:12:45 EST-load INFO 42 rows", ("INFO", "EST-load", "42 rows")),
        ("2026-11-21 03:12:45 ESTIMATE INFO 42 rows", ("INFO", "ESTIMATE", "42 rows")),
        ("2026-11-21 03:12:45 ALERT 42 rows", ("CRITICAL", None, "42 rows")),
        ("2026-11-21 03:12:45 ROOT is full", (None, None, "ROOT is full")),
        ("2026-11-21 03:12:45 +42 rows", (None, None, "+42 rows")),
        ("2026-11-21 03:12:45 (INFO) 42 rows", ("INFO", None, "42 rows")),
        ("2026-11-21 03:12:45 +0100 XST rows", (None, None, "XST rows")),
    ],
)
def test_word_that_is_no_zone_remains(line: str, words: tuple[str | None, str | None, str]) -> None:
    us = us_of(datetime(2026, 11, 21, 2 if "+0100" in line else 3, 12, 45))
    assert words_of("plain", line) == words_of("iso" if words[0] is None else "python-logger-first", line) == (us, words)


@QUIET
@given(st.datetimes(datetime(2001, 9, 10), datetime(2036, 12, 31)), st.sampled_from([0, 3, 6, 9]), st.booleans())
def test_number_since_the_epoch_before_a_level(moment: datetime, digits: int, is_decimal: bool) -> None:
    ns = f"{us_of(moment)}000"
    end = len(ns) - 9 + digits
    number = f"{ns[:-9]}.{ns[-9:end]}" if is_decimal and digits else ns[:end]
    expected = int(ns[:end].ljust(len(ns), "0")) // 1000
    for line, words in [("{} INFO x", ("INFO", None, "x")), ("[{}] [error] x", ("ERROR", None, "x")), ("{}\tx", (None, None, "x"))]:
        assert words_of("plain", line.format(number)) == (expected, words)


@pytest.mark.parametrize(
    "line",
    ["1795230765 rows", "1795230765", "1795230765.5 Error opening", "179523076 INFO x", "4795230765 INFO x", "1795230765: x"],
)
def test_other_number_is_no_time(line: str) -> None:
    assert PLAIN.reader()(line) is None


def test_clock_changes_in_text() -> None:
    for name in ("Europe/Berlin", "America/New_York", "Australia/Lord_Howe"):
        for hour in range(24):
            for day in ((2026, 3, 29), (2026, 10, 25), (2026, 3, 8), (2026, 11, 1), (2026, 4, 5), (2026, 10, 4)):
                moment = datetime(*day, hour, 30)
                assert iso(f"{moment} x", ZoneInfo(name)) == us_of(moment.replace(tzinfo=ZoneInfo(name)))
                assert words_of("plain", f"{moment} {name} x")[0] == us_of(moment.replace(tzinfo=ZoneInfo(name)))


def test_abbreviation_of_the_own_zone_is_its() -> None:
    shanghai, berlin = ZoneInfo("Asia/Shanghai"), ZoneInfo("Europe/Berlin")
    assert TimestampParser(shanghai).parse_text("2026-11-21 03:12:45 CST") == us_of(datetime(2026, 11, 20, 19, 12, 45))
    assert TimestampParser(berlin).parse_text("2026-11-21 03:12:45 CST") == us_of(datetime(2026, 11, 21, 9, 12, 45))
    havana = TimestampParser(ZoneInfo("America/Havana"))
    texts = ("2026-11-01 00:30:00 CDT", "2026-11-01 00:30:00 CST")
    assert [havana.parse_text(text) for text in texts] == [us_of(datetime(2026, 11, 1, hour, 30)) for hour in (4, 5)]
    texts = ("2026-10-25 02:30:00 CEST", "2026-10-25 02:30:00 CET")
    assert [TimestampParser(berlin).parse_text(text) for text in texts] == [
        us_of(datetime(2026, 10, 25, hour, 30)) for hour in (0, 1)
    ]


# Missing years and days.


@pytest.mark.parametrize(
    ("line", "reference", "expected"),
    [
        ("Dec 31 23:59:59", datetime(2026, 1, 1, 0, 0, 5), datetime(2025, 12, 31, 23, 59, 59)),
        ("Jan  1 00:00:01", datetime(2026, 1, 1, 0, 0, 5), datetime(2026, 1, 1, 0, 0, 1)),
        ("Jan  1 00:00:01", datetime(2025, 12, 31, 23, 59), datetime(2026, 1, 1, 0, 0, 1)),
        ("Dec 31 23:59:59", datetime(2025, 12, 31, 23, 59), datetime(2025, 12, 31, 23, 59, 59)),
        ("Nov 21 03:12:45", datetime(2026, 11, 21), datetime(2026, 11, 21, 3, 12, 45)),
        ("Jun 14 15:16:01", datetime(2005, 7, 27), datetime(2005, 6, 14, 15, 16, 1)),
        ("Jul 27 15:16:01", datetime(2005, 6, 14), datetime(2005, 7, 27, 15, 16, 1)),
        ("Feb 29 12:00:00", datetime(2024, 3, 1), datetime(2024, 2, 29, 12)),
        ("Feb 29 12:00:00", datetime(2025, 1, 1), datetime(2024, 2, 29, 12)),
        ("Feb 29 12:00:00", datetime(2026, 3, 1), None),
        ("Dec 31 23:59:59", datetime(1, 1, 1), datetime(1, 12, 31, 23, 59, 59)),
        ("Jan  1 00:00:00", datetime(9999, 12, 31), datetime(9999, 1, 1)),
    ],
)
def test_the_year_is_the_nearest_that_fits(line: str, reference: datetime, expected: datetime | None) -> None:
    assert time_of("syslog", f"{line} host a: x", reference) == (None if expected is None else us_of(expected))


@QUIET
@given(YEARS, st.integers(-180 * 86_400, 180 * 86_400))
@example(datetime(2025, 12, 31, 23, 59, 59), 2)
@example(datetime(2026, 1, 1), -1)
def test_within_half_a_year_of_the_reference_the_year_is_right(moment: datetime, seconds: int) -> None:
    moment = moment.replace(microsecond=0)
    reference = moment + timedelta(seconds=seconds)
    day = f"{moment:%b} {moment.day:2}"
    assert time_of("syslog", f"{day} {moment:%H:%M:%S} host a: x", reference) == us_of(moment)
    assert time_of("klog", f"I{moment:%m%d %H:%M:%S}.000000 1 a.go:1] x", reference) == us_of(moment)


@QUIET
@given(YEARS, st.integers(-43_199, 43_199))
@example(datetime(2026, 1, 1, 0, 0, 1), -5)
def test_within_half_a_day_of_the_reference_the_day_is_right(moment: datetime, seconds: int) -> None:
    moment = moment.replace(microsecond=0)
    assert time_of("time", f"{moment:%H:%M:%S} x", moment + timedelta(seconds=seconds)) == us_of(moment)


@pytest.mark.parametrize(
    ("name", "line"), [("syslog", "Nov 21 03:12:45 host a: x"), ("klog", "I1121 03:12:45.1 1 a.go:1] x"), ("time", "03:12:45 x")]
)
def test_without_a_reference_there_is_no_year_and_no_day(name: str, line: str) -> None:
    assert time_of(name, line) is None


@pytest.mark.parametrize("reference_us", [FIRST_US - 1, LAST_US + 1, 10**30, -(10**30)])
def test_a_reference_that_is_no_date(reference_us: int) -> None:
    parsed = format_named("syslog").bind(TimestampParser(reference_us=reference_us))("Nov 21 03:12:45 host a: x")
    assert parsed is not None and parsed.timestamp is None


@QUIET
@given(st.integers(FIRST_US, LAST_US), st.dates(), st.times())
@example(FIRST_US, datetime(2024, 2, 29).date(), datetime.min.time())
@example(LAST_US, datetime(2024, 2, 29).date(), datetime.max.time())
def test_any_reference_gives_a_date_or_none(reference_us: int, date: datetime, time: datetime) -> None:
    for name, line in (("klog", f"I{date:%m%d} {time:%H:%M:%S}.1 1 a.go:1] x"), ("time", f"{time:%H:%M:%S} x")):
        parsed = format_named(name).bind(TimestampParser(ZoneInfo("Pacific/Kiritimati"), reference_us))(line)
        assert parsed is not None and (parsed.timestamp is None or FIRST_US <= parsed.timestamp <= LAST_US)


@pytest.mark.parametrize(("digits", "year"), [("69", 1969), ("99", 1999), ("00", 2000), ("26", 2026), ("68", 2068)])
def test_years_of_two_digits(digits: str, year: int) -> None:
    assert time_of("spark", f"{digits}/03/20 00:00:00 INFO A: x") == us_of(datetime(year, 3, 20))
    assert time_of("hdfs", f"{digits}0320 000000 1 INFO A: x") == us_of(datetime(year, 3, 20))


def test_all_months() -> None:
    for number, month in enumerate(["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"], start=1):
        expected = us_of(datetime(2026, number, 9, 1, 2, 3))
        assert time_of("syslog", f"{month}  9 01:02:03 host a: x", datetime(2026, 6, 15)) == expected
        assert time_of("access", f'::1 - - [09/{month}/2026:01:02:03 +0000] "GET /" 200 1') == expected
        assert time_of("apache-error", f"[Mon {month} 09 01:02:03 2026] [info] x") == expected


# Times in fields.


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("2015-03-20T00:00:00Z", MARCH_20_US),
        ("2015-03-20 00:00:00.000000", MARCH_20_US),
        ("2015-03-20T01:00:00+01:00", MARCH_20_US),
        ("2015-03-20T01:00:00 CET", MARCH_20_US),
        ("2015-03-19T19:00:00EST", MARCH_20_US),
        ("2015-03-20T05:30:00 IST", MARCH_20_US),
        ("2015-03-20T00:00:00 XST", None),
        ("1426809600", MARCH_20_US),
        ("1426809600.0", MARCH_20_US),
        ("1426809600.123456", MARCH_20_US + 123_456),
        ("1426809600123", MARCH_20_US + 123_000),
        ("1426809600123456", MARCH_20_US + 123_456),
        ("1426809600123456789", MARCH_20_US + 123_456),
        *(
            (text, None)
            for text in ("", "0", "12", "0.5", "-1426809600", "99999999", "9" * 20, "1" * 400, "1e9", "inf", "nan", "x", "2015")
        ),
        *((text, None) for text in ("2015-03-20", "2015-02-30T00:00:00Z", "2015-03-20T00:00:00Z x", "١٤٢٦٨٠٩٦٠٠")),
    ],
)
def test_time_from_text(text: str, expected: int | None) -> None:
    assert TimestampParser().parse_text(text) == expected


@QUIET
@given(st.integers() | st.floats())
def test_time_from_number(number: float) -> None:
    found = TimestampParser().parse_number(number)
    assert found is None or FIRST_US <= found <= LAST_US


def test_numbers_that_are_no_times() -> None:
    assert [TimestampParser().parse_number(number) for number in (math.nan, math.inf, -math.inf, 10**400, -(10**400), 1e300)] == [
        None
    ] * 6


# Caches.


def test_cache_of_seconds_is_bounded_and_changes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(timestamps._Cache.__init__, "__defaults__", (3,))
    monkeypatch.setattr(timestamps, "_MAX_ZONES", 2)
    read = format_named("iso").bind(TimestampParser())
    zones = ["", "Z", "+0100", "-01:00", " GMT"]
    lines = [f"2026-11-21 03:12:{second:02}{zones[second % 5]} x" for second in range(60)] + ["2026-13-21 03:12:45 x"]
    kept = [parsed.timestamp for _ in range(2) for line in lines if (parsed := read(line))]
    assert kept == [iso(line) for line in lines] * 2
