"""The level names that the archive knows. Others are rejected by the client, where the caller can still correct them."""

from __future__ import annotations

import re

from runlake.errors import SettingsError

LEVELS = ("TRACE", "DEBUG", "INFO", "WARNING", "ERROR", "CRITICAL")
NAMES = frozenset(
    {
        "trace", "trce", "trc", "verbose", "vrb", "finest", "finer", "t",
        "debug", "debug5", "dbug", "dbg", "fine", "config", "d",
        "info", "inf", "information", "informational", "notice", "success", "audit", "i",
        "warning", "warn", "wrn", "w",
        "error", "err", "eror", "fail", "severe", "e",
        "critical", "crit", "fatal", "ftl", "alert", "emerg", "emergency", "panic", "dpanic", "f", "c",
        *(f"{word}{number}" for word in ("trace", "debug", "info", "warn", "error", "fatal") for number in range(1, 5)),
    }
)  # fmt: skip
"""In lower case; single letters are valid in upper case only. Those with numbers are OpenTelemetry's."""
_OFFSET = re.compile(r"(?<=[A-Za-z])[+-][0-9]{1,4}\Z", re.ASCII)
"""What Go's slog appends to a name."""
_NUMBERED = re.compile(r"Level [1-9][0-9]?", re.ASCII)


def is_level(name: str) -> bool:
    """Whether the archive knows this level: a name in any case, with an offset or not, or ``Level 25``, as ``logging`` names one without
    a name."""
    word = _OFFSET.sub("", name.strip())
    return (word.lower() in NAMES and (len(word) > 1 or word.isupper())) or _NUMBERED.fullmatch(name) is not None


def checked_level(name: str) -> str:
    """A level that the archive accepts. Raises SettingsError."""
    if not is_level(name):
        raise SettingsError(
            f"no such level level={name[:40]!a}",
            next_step=f"choose one of {', '.join(LEVELS)}, or a common alias of one",
        )
    return name


def level_of_record(name: str, number: int) -> str:
    """The level of a ``LogRecord``: its name if the archive knows it, else the level of its number."""
    if is_level(name):
        return name
    return "TRACE" if number < 10 else LEVELS[min(number // 10, len(LEVELS) - 1)]
