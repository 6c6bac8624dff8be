"""Bodies of events: one event, a list of them, or NDJSON, each item taken or refused by itself."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pydantic import BaseModel, ValidationError

from chalicelib.errors import InvalidEventError
from chalicelib.events.event import NewEvent
from chalicelib.events.ports import Refused
from chalicelib.routes.bodies import UnsupportedMediaTypeError, content_of

_JSON, _LINES = "application/json", frozenset({"application/x-ndjson", "application/ndjson", "application/jsonl"})
_SURROGATE = re.compile("[\ud800-\udfff]")
_ESCAPED = re.compile(r"\\u[dD][89a-fA-F]")
_SHOWN_CHARS = 200


@dataclass(frozen=True, slots=True)
class Items:
    """What of a body is events, each with its place among the items, and what is none."""

    events: Sequence[tuple[int, NewEvent]]
    refused: Sequence[Refused]

    def told(self, refused: Sequence[Refused]) -> list[dict[str, Any]]:
        """All that was refused, by the place in the body; ``refused`` are places among the events."""
        later = [Refused(self.events[each.index][0], each.reason, each.retryable) for each in refused]
        both = sorted([*self.refused, *later], key=lambda each: each.index)
        return [{"index": each.index, "code": 503 if each.retryable else 400, "message": each.reason} for each in both]


def items_of(event: Mapping[str, Any], headers: Mapping[str, str], limit_bytes: int) -> Items:
    """The items in an API Gateway event. Nothing at all are none. Raises InvalidEventError (the body is neither), BatchTooLargeError,
    UnsupportedMediaTypeError."""
    content_type, content = content_of(event, headers, limit_bytes)
    text = content if isinstance(content, str) else content.decode(errors="replace")
    if content_type in _LINES:
        return _items([_parsed(line) for line in text.split("\n") if line.strip()])
    if content_type != _JSON:
        raise UnsupportedMediaTypeError(f"events are application/json or application/x-ndjson content_type={content_type!r}")
    if not text.strip():
        return Items((), ())
    document = _parsed(text)
    if isinstance(document, Refused):
        raise InvalidEventError(document.reason)
    return _items(document if isinstance(document, list) else [document])


def document_of(event: Mapping[str, Any], headers: Mapping[str, str], limit_bytes: int, model: type[BaseModel]) -> Any:
    """A body that is one JSON object. Raises InvalidEventError, BatchTooLargeError, UnsupportedMediaTypeError."""
    content_type, content = content_of(event, headers, limit_bytes)
    if content_type != _JSON:
        raise UnsupportedMediaTypeError(f"this is application/json content_type={content_type!r}")
    document = _parsed(content if isinstance(content, str) else content.decode(errors="replace"))
    if isinstance(document, Refused):
        raise InvalidEventError(document.reason)
    try:
        return model.model_validate_json(json.dumps(document))
    except ValidationError as error:
        raise InvalidEventError(_wrong(error)) from error


def _items(documents: Sequence[Any]) -> Items:
    events: list[tuple[int, NewEvent]] = []
    refused: list[Refused] = []
    for index, document in enumerate(documents):
        if isinstance(document, Refused):
            refused.append(Refused(index, document.reason))
            continue
        try:
            events.append((index, NewEvent.model_validate_json(json.dumps(document))))
        except ValidationError as error:
            refused.append(Refused(index, _wrong(error)))
    return Items(events, refused)


def _parsed(text: str) -> Any:
    """A document, or why it is none. Lone surrogates become U+FFFD; numbers that are none are refused."""
    try:
        document = json.loads(text, parse_constant=_no_number)
    except (ValueError, RecursionError) as error:
        return Refused(0, f"not json reason={str(error)[:_SHOWN_CHARS]!r}")
    return _whole(document) if _ESCAPED.search(text) or _SURROGATE.search(text) else document


def _no_number(name: str) -> None:
    raise ValueError(f"{name} is no number of json")


def _whole(value: Any) -> Any:
    if isinstance(value, str):
        return _SURROGATE.sub("\ufffd", value)
    if isinstance(value, list):
        return [_whole(each) for each in value]
    if isinstance(value, dict):
        return {_whole(name): _whole(each) for name, each in value.items()}
    return value


def _wrong(error: ValidationError) -> str:
    wrong = error.errors(include_url=False, include_input=False, include_context=False)[0]
    where = ".".join(map(str, wrong["loc"])) or "item"
    return f"not what is asked for: {wrong['msg'].lower()} field={where[:_SHOWN_CHARS]}"
