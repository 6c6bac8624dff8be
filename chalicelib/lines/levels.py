"""Levels: the only table of their names and numbers, their order, and the levels that are errors.

Used for lines, events, pipelines, codecs, queries and segments. Standard library only, and cheap to import.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

TRACE, DEBUG, INFO, WARNING, ERROR, CRITICAL = "TRACE", "DEBUG", "INFO", "WARNING", "ERROR", "CRITICAL"
ORDER = (TRACE, DEBUG, INFO, WARNING, ERROR, CRITICAL)
"""From the least severe to the most severe."""
ERRORS = frozenset({ERROR, CRITICAL})

_WORDS = {
    TRACE: "trace trce trc verbose vrb",
    DEBUG: "debug debug5 dbug dbg",
    INFO: "info inf information informational notice success audit",
    WARNING: "warning warn wrn",
    ERROR: "error err eror fail",
    CRITICAL: "critical crit fatal ftl alert emerg emergency panic dpanic",
}
_JAVA = {"FINEST": TRACE, "FINER": TRACE, "FINE": DEBUG, "CONFIG": DEBUG, "SEVERE": ERROR}


def spellings(words: Iterable[str], level: str) -> dict[str, str]:
    """The usual spellings of words: info, Info, INFO."""
    return {spelling: level for word in words for spelling in (word, word.capitalize(), word.upper())}


_OTLP_WORDS = {
    level: [f"{word}{number}" for number in range(1, 5)]
    for word, level in zip(("trace", "debug", "info", "warn", "error", "fatal"), ORDER, strict=True)
}
"""OpenTelemetry's short names of severities."""
LEVELS = {
    spelling: level
    for level, words in _WORDS.items()
    for spelling, level in spellings((*words.split(), *_OTLP_WORDS[level]), level).items()
} | _JAVA
"""Word to level. Java's words count in capitals only, since they are everyday words otherwise."""
LETTERS = {"T": TRACE, "D": DEBUG, "I": INFO, "W": WARNING, "E": ERROR, "F": CRITICAL, "C": CRITICAL}
SEVERITIES = (CRITICAL, CRITICAL, CRITICAL, ERROR, WARNING, INFO, INFO, DEBUG)
"""By syslog severity: emerg, alert, crit, err, warning, notice, info, debug."""
SYSLOG_NUMBERS = {TRACE: 7, DEBUG: 7, INFO: 6, WARNING: 4, ERROR: 3, CRITICAL: 2}
LOGGING_NUMBERS = {TRACE: 5, DEBUG: 10, INFO: 20, WARNING: 30, ERROR: 40, CRITICAL: 50}
"""Numbers of Python's ``logging``, plus one below DEBUG."""
OTLP_NUMBERS = {level: 4 * at + 1 for at, level in enumerate(ORDER)}
"""The first of the four OpenTelemetry severities of each level."""
_OTLP_MOST = 4 * len(ORDER)
_OF_LOGGING = re.compile(r"Level ([0-9]{1,2})", re.ASCII)
_SLOG_OFFSET = re.compile(r"(?<=[A-Za-z])[+-][0-9]{1,4}\Z", re.ASCII)
"""What Go's slog appends to the name of the next lower level that has one."""


def is_error(level: str | None) -> bool:
    """Whether a record with this level (one of ``ORDER``, or None if it has none) is an error."""
    return level in ERRORS


def level_of_word(word: str) -> str | None:
    """The level of a word in any spelling; Java's words in title case, too. With the offset of Go's slog, that of the name."""
    return LEVELS.get(word) or _level_of(word.strip()) or _level_of(_SLOG_OFFSET.sub("", word.strip()))


def _level_of(word: str) -> str | None:
    return LEVELS.get(word.lower()) or LETTERS.get(word) or LEVELS.get(word.upper() if word.istitle() else word)


def level_of_name(name: str) -> str | None:
    """The level of a name in a query or in an event's field, where it has no other meaning: Java's words in any spelling, and ``Level
    25``, which ``logging`` uses for levels without a name."""
    if (level := level_of_word(name) or _JAVA.get(_SLOG_OFFSET.sub("", name.strip()).upper())) is not None:
        return level
    numbered = _OF_LOGGING.fullmatch(name)
    return level_of_python(int(numbered[1])) if numbered else None


def level_of_python(number: float) -> str | None:
    """Python's ``levelno``: 10 is debug, 50 is critical."""
    return ORDER[min(int(number) // 10, len(ORDER) - 1)] if 0 < number < 100 else None


def level_of_otlp(number: int) -> str | None:
    """OpenTelemetry's SeverityNumber: four numbers for each level, from 1; 0 is unspecified."""
    return ORDER[(number - 1) // 4] if 1 <= number <= _OTLP_MOST else None
