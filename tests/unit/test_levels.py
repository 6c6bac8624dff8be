"""Names and numbers of levels: one table, with which the client's list agrees."""

from __future__ import annotations

import pytest

from chalicelib.lines.levels import LETTERS, LEVELS, OTLP_NUMBERS, is_error, level_of_name, level_of_otlp
from runlake.levels import NAMES, is_level, level_of_record

NAMED = [
    ("WARN", "WARNING"), ("warning", "WARNING"), ("notice", "INFO"), ("Fatal", "CRITICAL"), ("EMERG", "CRITICAL"), ("alert", "CRITICAL"),
    ("PANIC", "CRITICAL"), ("err", "ERROR"), ("severe", "ERROR"), ("fine", "DEBUG"), (" error ", "ERROR"), ("E", "ERROR"),
    ("Level 5", "TRACE"), ("Level 25", "INFO"), ("Level 45", "ERROR"), ("e", None), ("loud", None), ("", None), ("Level 0", None),
    ("Level 250", None),
]  # fmt: skip


@pytest.mark.parametrize(("name", "level"), NAMED)
def test_level_of_a_name(name: str, level: str | None) -> None:
    assert level_of_name(name) == level
    assert is_level(name) == (level is not None), "the client refuses what the archive refuses"


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
