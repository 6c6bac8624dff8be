"""Levels and messages of single lines, of any format and behind the prefixes of containers and of Airflow."""

from __future__ import annotations

import re
from functools import lru_cache

from chalicelib.lines.formats import ANY
from chalicelib.lines.levels import CRITICAL, ERROR, LEVELS, WARNING
from chalicelib.lines.text import without_escape_bytes

FATAL, ERRORS, PLAIN, WARNINGS, INFO = range(5)
LEVEL_NAMES = ("fatal", "error", "plain", "warning", "info")
_LEVEL_BYTES = 200
_OF_NAME = {CRITICAL: FATAL, ERROR: ERRORS, WARNING: WARNINGS}
_CAPITALS = {
    word: _OF_NAME.get(LEVELS[word.decode()], INFO)
    for word in b"FATAL CRITICAL CRIT PANIC EMERG ERROR SEVERE ERR WARNING WARN INFO DEBUG TRACE NOTICE".split()
}
_WORDS = b"|".join(word.lower() for word in _CAPITALS)
_LEVELS = re.compile(
    b"|".join(word + rb"(?![A-Za-z0-9_.!=-])" for word in _CAPITALS)
    + rb"".join(b"|" + lead + b"(?:" + _WORDS + rb")(?![A-Za-z0-9_:-])" for lead in (rb"\[ ?", rb"\| ?", rb"level\"?[=:] ?\"?"))
)
"""Begins with letters only, so that the search is fast."""
_LETTERS = frozenset(b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_.-")
_RELAYED = re.compile(
    rb"\{+(?:subprocess|spark_submit|pod_manager|docker|ssh|bash|logging_mixin|process_utils|databricks\w*|kubernetes_pod|pod"
    rb"|batch_client|ecs|glue)\.py(?::\d+)?\}+ (?:INFO|WARNING|ERROR) - "
    rb"|\"logger\": ?\"(?:task\.std(?:out|err)|airflow\.(?:[\w.]*hooks\.subprocess|task\.hooks)[\w.]*)\""
    rb"|\[info +\] (?=[^\n]{0,900} stdio=std(?:err|out)\b)"
)
"""Records of Airflow and Meltano of what another program prints."""
_CONTROLS = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff\ufffe\uffff\ud800-\udfff]")
_LETTER = re.compile(rb"([EFWI])\d{4} \d|\d{4}-\d\d-\d\d[T ][\d:.,]{8,15}Z? ([EFWI])[ /]")
_OF_LETTER = {b"E": ERRORS, b"F": FATAL, b"W": WARNINGS, b"I": INFO}
"""Levels of one letter, as of glog, or after the time."""
_NO_WORD = re.compile(rb"level|[^a-z]")
_NUMBERS = re.compile("[0-9]+")
_SPACES = re.compile(r"\s+")
_BEFORE = re.compile(
    r"[a-z][\w.-]{1,60} *\|(?: +(?=\S)| *$)|\[(?:pod/[\w./-]{1,200}|[a-z][\w-]{1,40} *)\] (?=\S)|(?:std(?:err|out)): |##\[error\] ?|> ?(?=\[)"
    r"|#\d+ (?:\d+\.\d+ +(?=\S)|(?=[A-Za-z]))|│ (?=Error)|(?:remote|stderr): "
)
_LEVEL_IN_BRACKETS = re.compile(r"\A\[(?:ERROR|FATAL|WARNING|WARN|INFO|error|fatal|warn|info) *\] +(?=\S)")
_AIRFLOW = re.compile(r"\[[0-9][^\]]{8,40}\] \{+[\w./-]{1,100}:[0-9]+\}+ [A-Z]{3,9} - ")
_COMPANION = "(?:DETAIL|HINT|STATEMENT|QUERY|CONTEXT|LOCATION|BACKTRACE):  "
"""How Postgres begins what accompanies an error, behind the prefix of its log."""
_COMPANION_AT_THE_END, COMPANION = re.compile(rf"{_COMPANION}\Z"), re.compile(_COMPANION.encode())
_CONTAINER = re.compile(rb"([a-z][\w.-]{1,60}) *\| ")
_COMPONENT = re.compile(r"\[([a-zA-Z][\w./-]{1,60})\] (?=\S)")
_MAX_PREFIXES = 3


def clean_bytes(raw: bytes) -> bytes:
    """Without escape sequences; of a line with carriage returns, what a terminal shows last."""
    if b"\x1b" in raw:
        raw = without_escape_bytes(raw)
    return next((part for part in reversed(raw.split(b"\r")) if part.strip()), b"") if b"\r" in raw else raw


def quick_level(raw: bytes) -> int:
    """The level of a line by the first word of a level near its start."""
    found = _LEVELS.search(raw, 0, _LEVEL_BYTES)
    if found is None:
        return _level_without_word(raw)
    at, level = found.start(), _CAPITALS.get(found[0], INFO)
    if level == INFO or (level == WARNINGS and b".py:" in raw[:at]) or (at and raw[at - 1] in _LETTERS):
        return _exact_level(raw)
    return level


def _exact_level(raw: bytes) -> int:
    if b"\x1b" in raw:
        raw = without_escape_bytes(raw)
    level, end = _level_from(raw, 0)
    if (
        level in (INFO, WARNINGS)
        and (b".py" in raw[:end] or b'"logger"' in raw[:1000] or b" stdio=std" in raw[:1000])
        and (relayed := _RELAYED.search(raw, 0, 1000))
    ):
        return _level_from(raw, relayed.end())[0]
    return level


def _level_from(raw: bytes, start: int) -> tuple[int, int]:
    end = start + _LEVEL_BYTES
    while (found := _LEVELS.search(raw, start, end)) is not None:
        at, start = found.span()
        word = found[0]
        if (level := _CAPITALS.get(word)) is None:
            return _CAPITALS[_NO_WORD.sub(b"", word).upper()], start
        if not at or raw[at - 1] not in _LETTERS:
            return level, start
    return _level_without_word(raw), 0


def _level_without_word(raw: bytes) -> int:
    found = _LETTER.match(raw)
    return PLAIN if found is None else _OF_LETTER[found[1] or found[2]]


def message_of(raw: bytes) -> str:
    """The message of a line, without time, level and logger, as far as its format is known."""
    return source_and_message(raw)[1]


@lru_cache(maxsize=256)
def source_and_message(raw: bytes) -> tuple[str, str]:
    """The container and logger that a line names, empty if none, and its message."""
    source, text = "", clean_bytes(raw).decode(errors="replace").strip("\n")
    for _ in range(_MAX_PREFIXES):
        text = text.lstrip("\ufeff")
        before = _BEFORE.match(text) or _AIRFLOW.match(text)
        if before is not None:
            source = source or before[0].strip(" |:[]>#")
            text = text[before.end() :]
        parsed = ANY.reader()(text)
        if parsed is not None and parsed.timestamp is not None and not parsed.message.strip():
            return source, ""
        if parsed is None or (parsed.timestamp is None and parsed.logger is None and not text[:1].isdigit()):
            text = _LEVEL_IN_BRACKETS.sub("", text, count=1)
            if before is None:
                break
            continue
        companion = _COMPANION_AT_THE_END.search(text[: len(text) - len(parsed.message)]) if parsed.logger is None else None
        text = f"{companion[0]}{parsed.message}" if companion else parsed.message
        if parsed.logger is not None and parsed.logger.endswith(("Exception", "Error")):
            return source, f"{parsed.logger}: {text}".strip()
        source = f"{source} {parsed.logger or ''}".strip()
        component = _COMPONENT.match(text) if not parsed.logger else None
        source = f"{source} {component[1]}".strip() if component else source
    if not source and (component := _COMPONENT.match(text)):
        source = component[1]
    return source, text.strip()


def container_of(raw: bytes) -> str:
    """The container that a line names, as those of Docker Compose do; empty if none."""
    container = _CONTAINER.match(raw)
    return container[1].decode() if container else ""


def usual_form(message: str) -> str:
    """A message with its numbers replaced: lines that say the same of other things have the same form."""
    return _NUMBERS.sub("0", message)


def shorten(text: str, limit: int) -> str:
    """A text of one line for people, without control characters."""
    text = _SPACES.sub(" ", _CONTROLS.sub("", text.replace("\t", " "))).strip()
    return text if len(text) <= limit else text[: limit - 1] + "…"
