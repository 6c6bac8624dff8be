"""Headers and framings of syslog: the fields of each variant that senders write, and no message refused for its header."""

from __future__ import annotations

import random
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from chalicelib.events.codecs import syslog
from chalicelib.events.codecs.items import UNREAD, Decoded
from chalicelib.events.event import NewEvent

NOW_MS = 1_795_824_000_000  # 2026-11-28
MS = 1_795_230_765_000  # 2026-11-21T03:12:45Z
MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")


def decoded(body: str | bytes) -> list[NewEvent]:
    items = list(syslog.decode(body, NOW_MS))
    assert [item.index for item in items] == list(range(len(items)))
    return [item.event for item in items if isinstance(item, Decoded)]


def fields(line: str) -> tuple[Any, ...]:
    """Time after MS, host, program, message, unread parts."""
    (event,) = decoded(line)
    after_ms = None if event.timestamp is None else event.timestamp - MS
    return after_ms, event.data.get("host"), event.data.get("program"), event.message, event.data.get(UNREAD, [])


HOUR_MS = 3_600_000
HEADERS: dict[str, tuple[Any, ...]] = {
    # RFC 5424
    "1 2026-11-21T03:12:45Z h p 1 ID - text": (0, "h", "p", "text", []),
    "1 2026-11-21T03:12:45Z h p 1 ID -": (0, "h", "p", "", []),
    "1 2026-11-21T03:12:45Z h p 1 ID no rows": (0, "h", "p", "no rows", ["sd"]),
    "1 2026-11-21T03:12:45Z h p web.3 - no rows": (0, "h", "p", "no rows", []),
    "1 2026-11-21T03:12:45Z h p web.3 - [INFO] no rows": (0, "h", "p", "[INFO] no rows", ["sd"]),
    "1 2026-11-21T03:12:45Z h p no rows at all": (0, "h", "p", "no rows at all", ["header"]),
    "1 2026-11-21T03:12:45Z h": (0, None, None, "h", ["header"]),
    "1  2026-11-21T03:12:45Z  h p  1 - - text": (0, "h", "p", "text", []),
    "1 2026-11-21T03:12:45Z  p 1 - - text": (0, None, "p", "text", []),
    '1 2026-11-21T03:12:45Z h p 1 - [x@1 a="b] text': (0, "h", "p", '[x@1 a="b] text', ["sd"]),
    '1 2026-11-21T03:12:45Z h p 1 - [x@1 a="b"][y] text': (0, "h", "p", '[x@1 a="b"][y] text', ["sd"]),
    '1 2026-11-21 03:12:45 h p 1 - [x@1 a="b"] text': (0, "h", "p", "text", []),
    "1 2026-11-21 03:12:45,5 +0100 h p 1 - - text": (500 - HOUR_MS, "h", "p", "text", []),
    "1 Nov 21 03:12:45 h p 1 - - text": (0, "h", "p", "text", []),
    "1 1795230765.5 h p 1 - - text": (500, "h", "p", "text", []),
    "1 nil h p 1 - - text": (None, "h", "p", "text", ["time"]),
    "1 2026-13-21T03:12:45Z h p 1 - - text": (None, "h", "p", "text", ["time"]),
    "2 2026-11-21T03:12:45Z h p 1 - - text": (0, "h", "p", "text", ["version"]),
    "1 2026-13-21T03:12:45Z h p 1 - -": (None, "h", "p", "<11>1 2026-13-21T03:12:45Z h p 1 - -", ["time"]),
    "7 rows from p 1 - - text": (None, None, None, "7 rows from p 1 - - text", ["header"]),
    "1 rows of 2 are in table a": (None, None, None, "1 rows of 2 are in table a", ["header"]),
    f"1 2026-11-21T03:12:45Z {'h' * 2000} p 1 - - text": (0, None, None, f"{'h' * 2000} p 1 - - text", ["header"]),
    # RFC 3164
    "Nov 21 03:12:45 h p[1]: text": (0, "h", "p", "text", []),
    "Nov 21 03:12:45 h p: text": (0, "h", "p", "text", []),
    "Nov 21 03:12:45 h some text: x": (0, "h", None, "some text: x", []),
    'Nov 21 03:12:45 h {"a": 1}': (0, "h", None, '{"a": 1}', []),
    "Nov 21 03:12:45 p[1]: text": (0, None, "p", "text", []),
    "Nov 21 03:12:45 p: text": (0, None, "p", "text", []),
    "Nov 21 03:12:45 2001:db8::1 p[1]: text": (0, "2001:db8::1", "p", "text", []),
    "Nov 21 03:12:45 [2001:db8::1]:514 p[1]: text": (0, "[2001:db8::1]:514", "p", "text", []),
    "Nov 21 03:12:45 Message forwarded from h: p[1]: text": (0, "h", "p", "text", []),
    "Nov 21 03:12:45 EST h p[1]: text": (5 * HOUR_MS, "h", "p", "text", []),
    "Sat Nov 21 03:12:45 UTC 2026 h p[1]: text": (0, "h", "p", "text", []),
    "21 Nov 2026 03:12:45 h p[1]: text": (0, "h", "p", "text", []),
    "Nov 31 03:12:45 h p[1]: text": (None, "h", "p", "text", ["time"]),
    "p[1]: text": (None, None, "p", "text", []),
    "some text": (None, None, None, "some text", ["header"]),
    # Cisco, Huawei, Junos
    "12: *Nov 21 03:12:45.123 UTC: %SYS-5-X: text": (123, None, None, "%SYS-5-X: text", []),
    "12: r1: 000045: .Nov 21 03:12:45.123: %SYS-5-X: text": (123, "r1", None, "%SYS-5-X: text", []),
    "12: *Nov 21 03:12:45 QQQ: %SYS-5-X: text": (0, None, None, "%SYS-5-X: text", ["zone"]),
    ": 2026 Nov 21 03:12:45 UTC: %ETH-5-X: text": (0, None, None, "%ETH-5-X: text", []),
    "12: r1 RP/0/RSP0/CPU0:Nov 21 03:12:45.123 UTC: p[1]: text": (123, "r1", "p", "text", []),
    "Nov 21 2026 03:12:45: %ASA-6-1: text": (0, None, None, "%ASA-6-1: text", []),
    "Nov 21 2026 03:12:45 h : %ASA-6-1: text": (0, "h", None, "%ASA-6-1: text", []),
    "Nov 21 2026 03:12:45+08:00 h %%01SHELL/4/X(l)[0]:text": (-8 * HOUR_MS, "h", None, "%%01SHELL/4/X(l)[0]:text", []),
    "Nov 21 03:12:45.123 2026 h p[1]: text": (123, "h", "p", "text", []),
    "p: 2026-11-21 03:12:45 ERROR text": (None, None, None, "p: 2026-11-21 03:12:45 ERROR text", ["header"]),
}  # fmt: skip


@pytest.mark.parametrize(("header", "expected"), HEADERS.items(), ids=[each[:60] for each in HEADERS])
def test_header_is_read_as_far_as_possible(header: str, expected: tuple[Any, ...]) -> None:
    assert fields(f"<11>{header}") == expected
    assert decoded(f"<11>{header}")[0].level == "ERROR"


@pytest.mark.parametrize("priority", ["192", "999", "1234567", "-1"])
def test_unread_priority_is_kept_without_a_level(priority: str) -> None:
    (event,) = decoded(f"<{priority}>1 - h - - - - text")
    assert (event.level, event.message, event.data) == (None, "text", {"host": "h", "priority": priority, UNREAD: ["priority"]})


def test_priority_of_logplex_is_no_emergency() -> None:
    levels = [decoded(f"<40>1 2026-11-21T03:12:45Z host app web.1 - {sd}text")[0].level for sd in ("", "- ")]
    assert levels == ["INFO", "CRITICAL"]


def test_times_of_devices_in_all_notations() -> None:
    rng = random.Random(52)
    for _ in range(200):
        time = datetime(2026, 11, 28, tzinfo=UTC) - timedelta(seconds=rng.randrange(180 * 86_400), milliseconds=rng.randrange(1000))
        day = rng.choice([f"{time.day}", f"{time.day:2}", f"{time.day:02}"])
        date = rng.choice(["{m} {d}", "{m} {d} {y}", "{y} {m} {d}", "{y}-{n:02}-{z:02}", "{y}/{n:02}/{z:02}"])
        date = date.format(m=MONTHS[time.month - 1], d=day, y=time.year, n=time.month, z=time.day)
        fraction = rng.choice(["", f".{time.microsecond // 1000:03}", f".{time.microsecond:06}"])
        zone, hours = rng.choice([("", 0), (" UTC", 0), ("+02:00", 2), ("-0330", -3.5), (" CET", 1), ("Z", 0)])
        last = f" {time.year}" if date[:3] in MONTHS and len(date) < 7 and not zone and rng.random() < 0.5 else ""
        mark, end = rng.choice([("", " h "), ("7: *", ": "), (".", ": "), ("", " ")])
        line = f"<13>{mark}{date} {time:%H:%M:%S}{fraction}{zone}{last}{end}p[1]: text"
        expected_ms = (
            (time - timedelta(hours=hours)).timestamp() * 1000
            if fraction
            else time.replace(microsecond=0).timestamp() * 1000 - hours * HOUR_MS
        )
        after_ms, host, program, message, unread = fields(line)
        assert (after_ms, host, program, message, unread) == (
            round(expected_ms) - MS,
            "h" if "h" in end else None,
            "p",
            "text",
            [],
        ), line


FRAMES = ["<11>1 - h a - - - one", "<14>1 - h a - - - zwei: ä\n\tat b\n<c>", "<13>Nov 21 03:12:45 h p: 3 <1>", "<14>x"]


@pytest.mark.parametrize("body", [
    "".join(f"{len(each.encode())} {each}" for each in FRAMES),
    "".join(f"{len(each.encode()) + 1} {each}\n" for each in FRAMES),
    "\n".join(f"{len(each.encode())} {each}" for each in FRAMES) + "\n",
    "\0".join(FRAMES),
    "".join(f"{each}\0" for each in FRAMES) + "\n",
    "\n".join(FRAMES),
    "".join(f"{each}\r\n" for each in FRAMES),
    "".join(f"{each}\n" for each in FRAMES),
])  # fmt: skip
def test_framings_yield_the_same_messages(body: str) -> None:
    messages = ["one", "zwei: ä\n\tat b\n<c>", "3 <1>", "x"]
    assert [each.message for each in decoded(body)] == messages
    assert [each.message for each in decoded(body.encode())] == messages


def test_newline_within_a_counted_frame_begins_no_message() -> None:
    frame = "<11>1 - - - - - - one\n<12>two"
    assert [each.message for each in decoded(f"{len(frame)} {frame}")] == ["one\n<12>two"]


def test_text_of_a_program_changes_no_framing() -> None:
    body = "<11>1 - - - - - - one\0<12>x\n<11>1 - - - - - - two\n"
    assert [each.message for each in decoded(body)] == ["one\0<12>x", "two"]


def test_counts_that_do_not_fit_are_text() -> None:
    frame = "<11>1 - - - - - - one"
    for count in (len(frame) - 1, len(frame) + 1):
        assert [each.message for each in decoded(f"{count} {frame}")] == [f"{count} {frame}"]


def test_text_that_begins_with_a_bracket_is_no_json() -> None:
    text = ["[2026-11-21 03:12:45] one", "[12] two", "{three}"]
    for begin in range(3):
        lines = text[begin:] + text[:begin]
        assert [each.message for each in decoded("\n".join(lines))] == lines


@pytest.mark.parametrize(("size", "unread"), [(30_000, []), (40_000, ["sd"])])
def test_structured_data_beyond_the_limit_stays_in_the_message(size: int, unread: list[str]) -> None:
    elements = f'[x@1 a="{"b" * size}"]'
    assert fields(f"<11>1 2026-11-21T03:12:45Z h p 1 - {elements} text")[3:] == (f"{elements} text" if unread else "text", unread)


@pytest.mark.parametrize("piece", [" ", "1 ", "a", "[", '[a@1 b="c"]', "[a ", ": ", "Nov 21 ", "12: ", ":", "%", "0/A", "\\"])
def test_long_headers_are_read(piece: str) -> None:
    for begin in ("", "1 ", "1 2026-11-21T03:12:45Z h p 1 - ", "Nov 21 03:12:45 ", "12: "):
        (item,) = syslog.decode(f"<11>{begin}{piece * (100_000 // len(piece))}", NOW_MS)
        assert isinstance(item, Decoded)
