"""What a line says, and the levels that everybody's levels become."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from typing import NamedTuple

TRACE, DEBUG, INFO, WARNING, ERROR, CRITICAL = "TRACE", "DEBUG", "INFO", "WARNING", "ERROR", "CRITICAL"


class Parsed(NamedTuple):
    """``timestamp``: microseconds since the epoch, UTC. ``level``: one of the six above. None where a line doesn't say.

    ``message`` is the line without what became a column; of a line that nothing is known of, the line.
    """

    timestamp: int | None
    level: str | None
    logger: str | None
    message: str


parsed_of: Callable[[tuple[int | None, str | None, str | None, str]], Parsed] = partial(tuple.__new__, Parsed)
"""Half the price of calling the class."""

_WORDS = {
    TRACE: "trace trce trc verbose vrb",
    DEBUG: "debug debug1 debug2 debug3 debug4 debug5 dbug dbg",
    INFO: "info inf information informational notice success audit",
    WARNING: "warning warn wrn",
    ERROR: "error err eror fail",
    CRITICAL: "critical crit fatal ftl alert emerg emergency panic dpanic",
}


def spelled(words: Iterable[str], level: str) -> dict[str, str]:
    """Words in the ways that logs spell them: info, Info, INFO."""
    return {spelling: level for word in words for spelling in (word, word.capitalize(), word.upper())}


LEVELS = {spelling: level for level, words in _WORDS.items() for spelling, level in spelled(words.split(), level).items()} | {
    "FINEST": TRACE,
    "FINER": TRACE,
    "FINE": DEBUG,
    "CONFIG": DEBUG,
    "SEVERE": ERROR,
}
"""A word to its level. Java's own words count in capitals only: others are everyday words."""
LETTERS = {"T": TRACE, "D": DEBUG, "I": INFO, "W": WARNING, "E": ERROR, "F": CRITICAL, "C": CRITICAL}
SEVERITIES = (CRITICAL, CRITICAL, CRITICAL, ERROR, WARNING, INFO, INFO, DEBUG)
"""Syslog's, by their number: emerg, alert, crit, err, warning, notice, info, debug."""
_LADDER = (TRACE, DEBUG, INFO, WARNING, ERROR, CRITICAL)


def level_of_word(word: str) -> str | None:
    """The level that a word of any spelling names."""
    return LEVELS.get(word) or LEVELS.get(word.strip().lower()) or LETTERS.get(word)


def level_of_number(number: float) -> str | None:
    """0 to 7 are syslog's; from 10 on it is the ladder of pino and bunyan: 10 is trace, 60 is fatal."""
    if 0 <= number < len(SEVERITIES):
        return SEVERITIES[int(number)]
    return _LADDER[min(int(number) // 10, len(_LADDER)) - 1] if 10 <= number < 100 else None


def level_of_python(number: float) -> str | None:
    """Python's ``levelno``: 10 is debug, 50 is critical."""
    return _LADDER[min(int(number) // 10, len(_LADDER) - 1)] if 0 < number < 100 else None
