"""Names and numbers of levels: one table, with which the client's list agrees."""

from __future__ import annotations

import pytest

from chalicelib.lines.errors import level_of_event
from chalicelib.lines.levels import LETTERS, LEVELS, OTLP_NUMBERS, is_error, level_of_name, level_of_otlp
from runlake.levels import NAMES, is_level, level_of_record

NAMED = [
    ("WARN", "WARNING"), ("warning", "WARNING"), ("notice", "INFO"), ("Fatal", "CRITICAL"), ("EMERG", "CRITICAL"), ("alert", "CRITICAL"),
    ("PANIC", "CRITICAL"), ("err", "ERROR"), ("severe", "ERROR"), ("fine", "DEBUG"), (" error ", "ERROR"), ("E", "ERROR"),
    ("Level 5", "TRACE"), ("Level 25", "INFO"), ("Level 45", "ERROR"), ("e", None), ("loud", None), ("", None), ("Level 0", None),
    ("Level 250", None), ("INFO3", "INFO"), ("error2", "ERROR"), ("ERROR+4", "ERROR"), ("DEBUG-4", "DEBUG"), ("severe+1", "ERROR"),
    ("INFO5", None), ("INFO+", None), ("+4", None), ("5-1", None), ("ERROR+12345", None),
]  # fmt: skip


@pytest.mark.parametrize(("name", "level"), NAMED)
def test_level_of_a_name(name: str, level: str | None) -> None:
    assert level_of_name(name) == level
    assert is_level(name) == (level is not None), "the client refuses what the archive refuses"


_AT, _TRACE = b"2026-11-21 03:12:45", b'Traceback (most recent call last):\n  File "a.py", line 1\nValueError: x'


@pytest.mark.parametrize(
    ("stated", "message", "level"),
    [
        ("info", _AT + b" ERROR it broke", "INFO"), ("Level 45", b"so what", "ERROR"), ("loud", _AT + b" ERROR it broke", "ERROR"),
        ("", b"so what", None), (None, b"so what", None), (None, _AT + b" WARNING late", "WARNING"),
        (None, _AT + b" CRITICAL it is gone", "CRITICAL"), (None, _AT + b" INFO a\n" + _TRACE, "ERROR"),
        (None, b"[2026-11-21 03:12:45,1 I 1 2] a.cc:1: x\n[2026-11-21 03:12:45,1 E 1 2] a.cc:1: x", "ERROR"),
        (None, b"[03:12:45 INF] x\n[03:12:45 FTL] x", "ERROR"),
        (None, _AT + b" CRITICAL a\n" + _TRACE, "CRITICAL"), (None, _TRACE, "ERROR"), ("info", _TRACE, "INFO"),
    ],
)  # fmt: skip
def test_level_of_an_event_is_what_its_sender_states_else_what_its_text_does(
    stated: str | None, message: bytes, level: str | None
) -> None:
    assert level_of_event(stated, message) == level


def test_client_knows_the_same_names() -> None:
    assert {name.lower() for name in (*LEVELS, *LETTERS)} == NAMES


@pytest.mark.parametrize(
    ("name", "number", "level"),
    [("WARN", 30, "WARN"), ("IMPORTANT", 25, "INFO"), ("AUDITED", 45, "ERROR"), ("FINEST GRAIN", 3, "TRACE"), ("MAX", 100, "CRITICAL")],
)  # fmt: skip
def test_level_of_a_record_with_a_custom_level_name(name: str, number: int, level: str) -> None:
    assert level_of_record(name, number) == level


@pytest.mark.parametrize(
    ("number", "level"),
    [(0, None), (1, "TRACE"), (4, "TRACE"), (5, "DEBUG"), (9, "INFO"), (16, "WARNING"), (17, "ERROR"), (20, "ERROR"),
     (21, "CRITICAL"), (24, "CRITICAL"), (25, None)],
)  # fmt: skip
def test_severity_numbers_of_opentelemetry(number: int, level: str | None) -> None:
    assert level_of_otlp(number) == level
    assert level is None or level_of_otlp(OTLP_NUMBERS[level]) == level
    assert is_error(level) == (number in range(17, 25))
