"""Records in JSON as the text that they stand for, so that their stack traces are read like others."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from chalicelib.lines.levels import level_of_number, level_of_word

_LEVELS = ("level", "levelname", "severity", "lvl", "log.level", "severityText", "loglevel", "log_level")
_MESSAGES = ("message", "msg", "event", "@message", "log", "text", "body", "info")
_ERRORS = (
    "error",
    "err",
    "exception",
    "exc_info",
    "stack_trace",
    "stackTrace",
    "stack",
    "stacktrace",
    "traceback",
    "error.stack_trace",
    "error_detail",
    "thrown",
    "exc_text",
)
_MAX_TEXT = 16_384


def text_of_json(raw: bytes) -> bytes | None:
    """The lines of a record: its level and message, and its stack trace. None if the line is no record in JSON."""
    try:
        record = json.loads(raw)
    except (ValueError, RecursionError):
        return None
    if not isinstance(record, dict):
        return None
    message = next((record[key] for key in _MESSAGES if isinstance(record.get(key), str)), "")
    level = next((level for key in _LEVELS if key in record and (level := _level(record[key]))), "")
    texts = [f"{level} {message}" if level else message]
    for key in _ERRORS:
        if key in record:
            texts.extend(_texts(record[key]))
    joined = "\n".join(text for text in texts if text)[:_MAX_TEXT]
    return joined.rstrip("\n").encode(errors="replace") + b"\n" if joined.strip() else None


def text_of_containers(block: bytes) -> bytes:
    """Lines of which some are records of Docker's json-file, with those replaced by the line that the container printed."""
    return b"\n".join(map(_printed, block.split(b"\n")))


def _printed(raw: bytes) -> bytes:
    if not raw.startswith(b'{"log":') or b'"stream":' not in raw:
        return raw
    try:
        text = json.loads(raw)["log"]
    except (ValueError, RecursionError, KeyError):
        return raw
    return text.rstrip("\n").replace("\n", " ").encode(errors="replace") if isinstance(text, str) else raw


def _level(value: Any) -> str:
    if isinstance(value, str):
        return level_of_word(value) or ""
    if isinstance(value, int) and not isinstance(value, bool):
        return level_of_number(value) or ""
    return ""


def _texts(value: Any) -> Iterator[str]:
    """The texts of a field that describes an error: a trace, an object, or a list of exceptions with the first cause last."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, list):
        for each in value[:10]:
            yield from _texts(each)
    elif isinstance(value, Mapping):
        kind = value.get("exc_type") or value.get("type") or value.get("name") or value.get("class") or value.get("className")
        text = value.get("exc_value") or value.get("message") or value.get("localizedMessage")
        stack = value.get("stack") or value.get("stack_trace") or value.get("stackTrace")
        if isinstance(stack, str) and "\n" in stack:
            yield stack
        elif isinstance(kind, str) or isinstance(text, str):
            yield ": ".join(part for part in (kind, text) if isinstance(part, str) and part)
