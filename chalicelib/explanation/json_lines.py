"""Records in JSON as the text that they stand for, so that their stack traces are read like others."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

from chalicelib.lines.field_names import READINGS, lift
from chalicelib.lines.fields import MAX_JSON_CHARS, cut_object, first_level, first_text, journal_text, printed_text

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
    "error_detail",
    "thrown",
    "throwable",
    "exc_text",
    "@x",
    "Exception",
    "_exception",
    "full_message",
    "trace",
    "errors",
    "exceptions",
    "error_info",
)
_ROLES = {
    "type": 0,
    "class": 0,
    "kind": 0,
    "name": 0,
    "message": 1,
    "msg": 1,
    "value": 1,
    "stacktrace": 2,
    "stack_trace": 2,
    "stack": 2,
}
_FLAT = {
    f"{part}{sign}{name}": (part, role)
    for part in ("exception", "error", "err", "exc", "_error")
    for name, role in _ROLES.items()
    for sign in "._"
} | {
    **{f"{part}{name.title()}": (part, role) for part in ("exception", "error") for name, role in _ROLES.items()},
    "stackTrace": ("error", 2),
}
"""Names of the class, text and stack trace of an exception in the record itself: what they belong to, and which of the three they are."""
_OF_ERRORS = frozenset((*_ERRORS, *_FLAT))
_CLASSES = (
    "exc_type",
    "type",
    "name",
    "class",
    "className",
    "exceptionType",
    "exception_class",
    "errorType",
    "Type",
    "ClassName",
    "cls_name",
)
_TEXTS = (
    "exc_value",
    "message",
    "msg",
    "localizedMessage",
    "exception_message",
    "errorMessage",
    "internal_message",
    "Message",
    "value",
)
_STACKS = ("stack", "stack_trace", "stackTrace", "stacktrace", "StackTraceString", "StackTrace")
_CAUSES = ("cause", "causedBy", "InnerException", "exception", "error")
_PARTS = ("attributes", "Attributes", "record")
"""Objects of a record, of OpenTelemetry and loguru, that may have its exception."""
_MAX_CAUSES = 5
_MAX_TEXT = 16_384
_BYTES = re.compile(rb'"MESSAGE" ?: ?(\[[0-9, ]*+\])')


def text_of_json(raw: bytes) -> bytes | None:
    """The lines of a record: its level and message, and its stack trace. None if the line is no record in JSON."""
    record = _record(raw)
    if record is None:
        return None
    reading = lift(record, READINGS[tuple(record)])
    printed = printed_text(record, reading)
    if printed is not None and printed[:1] == "{" and (text := text_of_json(printed.encode(errors="replace"))) is not None:
        return text
    message, level = first_text(record, reading.messages) or "", first_level(record, reading, has_time=True)
    texts = [f"{level} {message}" if level else message]
    if not message and isinstance(error := record.get("message"), dict):
        texts.extend(_texts(error))
    for fields in (record, *(part for name in _PARTS if isinstance(part := record.get(name), dict))):
        if not _OF_ERRORS.isdisjoint(fields):
            texts.extend(_flat(fields))
            texts.extend(text for key in _ERRORS if key in fields for text in _texts(fields[key]))
    joined = "\n".join(text for text in texts if text)[:_MAX_TEXT]
    return joined.rstrip("\n").encode(errors="replace") + b"\n" if joined.strip() else None


def _record(raw: bytes) -> dict[str, Any] | None:
    try:
        record = json.loads(raw)
    except (ValueError, RecursionError):
        record = cut_object(raw[:MAX_JSON_CHARS].decode(errors="replace"))
    return record if isinstance(record, dict) and record else None


def text_of_containers(block: bytes) -> bytes:
    """Lines of which some are records of Docker's json-file, with those replaced by the line that the container printed; and of the journal, with
    bytes of a message as text."""
    if b'"MESSAGE"' in block:
        block = _BYTES.sub(_message_of_bytes, block)
    return b"\n".join(map(_printed, block.split(b"\n"))) if b'{"log":' in block else block


def _message_of_bytes(message: re.Match[bytes]) -> bytes:
    try:
        text = journal_text(json.loads(message[1]))
    except ValueError:
        text = None
    return message[0] if text is None else b'"MESSAGE":' + json.dumps(text).encode()


def _printed(raw: bytes) -> bytes:
    if not raw.startswith(b'{"log":') or b'"stream":' not in raw:
        return raw
    try:
        text = json.loads(raw)["log"]
    except (ValueError, RecursionError, KeyError):
        return raw
    return text.rstrip("\n").replace("\n", " ").encode(errors="replace") if isinstance(text, str) else raw


def _flat(record: Mapping[str, Any]) -> Iterator[str]:
    """The exceptions whose parts are fields of the record itself."""
    exceptions: dict[str, list[Any]] = {}
    for name, (part, role) in _FLAT.items():
        if name in record:
            exceptions.setdefault(part, [None, None, None])[role] = record[name]
    for part, (kind, text, stack) in exceptions.items():
        text = record.get(part) if text is None else text
        if isinstance(stack, str) and "\n" in stack:
            yield stack
        elif isinstance(kind, str) and not (isinstance(text, str) and "\n" in text):
            yield _titled(kind, text)


def _titled(kind: Any, text: Any) -> str:
    return ": ".join(part for part in (kind, text) if isinstance(part, str) and part)


def _texts(value: Any) -> Iterator[str]:
    """The texts of a field that describes an error: a trace, an object with its causes, or a list of exceptions with the first cause last."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, list):
        for each in value[:10]:
            yield from _texts(each)
    before = ""
    for _ in range(_MAX_CAUSES):
        if not isinstance(value, Mapping):
            break
        stack = _first(value, _STACKS)
        if isinstance(stack, str) and "\n" in stack:
            yield before + stack
            break
        if title := _titled(_first(value, _CLASSES), _first(value, _TEXTS)):
            yield before + title
            before = "Caused by: "
        value = _first(value, _CAUSES)


def _first(value: Mapping[str, Any], names: tuple[str, ...]) -> Any:
    return next((value[name] for name in names if value.get(name)), None)
