"""Bodies of events: one event, a list of events, or NDJSON. Each item is accepted or rejected independently."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError

from chalicelib.errors import BatchTooLargeError, InvalidEventError
from chalicelib.events.codecs import json_text
from chalicelib.events.event import NewEvent, invalid_field
from chalicelib.events.ports import Refused
from chalicelib.events.well_formed import well_formed
from chalicelib.observability import redacted
from chalicelib.response_size import RESPONSE_BYTES
from chalicelib.routes.bodies import Body, UnsupportedMediaTypeError, read_body
from chalicelib.routes.budgets import Budget
from chalicelib.routes.events_models import RejectedEvent
from chalicelib.routes.responses import truncated

_JSON, _LINES = "application/json", frozenset({"application/x-ndjson", "application/ndjson", "application/jsonl"})
_EXCERPT_CHARS = 200
_ERROR_BYTES = 150
"""Size of an error without its message, with its share of the rest of the response."""
_LEVELS_AROUND_DATA = 4
"""Levels of nesting around data: the event, its data or annotations, one annotation, its note."""
Model = TypeVar("Model", bound=BaseModel)


@dataclass(frozen=True, slots=True)
class Items:
    """The items of a body: valid events, each with its index in the body, and rejected items."""

    events: Sequence[tuple[int, NewEvent]]
    refused: Sequence[Refused]

    def error_documents(self, refused: Sequence[Refused]) -> list[RejectedEvent]:
        """All rejected items by index in the body. ``refused``: rejected later, by index in ``events``."""
        later = [Refused(self.events[each.index][0], each.reason, each.retryable) for each in refused]
        both = sorted([*self.refused, *later], key=lambda each: each.index)
        room_bytes = RESPONSE_BYTES // (len(both) or 1) - _ERROR_BYTES  # all are listed; their messages are truncated
        return [
            {"index": each.index, "code": 503 if each.retryable else 400, "message": truncated(redacted(each.reason), room_bytes)}
            for each in both
        ]


def read_items(event: Mapping[str, Any], headers: Mapping[str, str], budget: Budget, limit_bytes: int) -> Items:
    """The items in an API Gateway event; an empty body has none. Raises InvalidEventError (the body is not JSON), BatchTooLargeError,
    UnsupportedMediaTypeError."""
    body = read_body(event, headers, budget, limit_bytes)
    body.allowance.check_values(body.content)
    text = body.text
    if body.content_type in _LINES:
        _check_count(sum(1 for line in json_text.lines_of(text) if line.strip()), body)
        return _items([_parsed(line) for line in json_text.lines_of(text) if line.strip()])
    if body.content_type != _JSON:
        raise UnsupportedMediaTypeError(
            f"events must be application/json or application/x-ndjson content_type={body.content_type!r}"
        )
    if not text.strip():
        return Items((), ())
    document = _parsed(text)
    if isinstance(document, Refused):
        raise InvalidEventError(document.reason)
    documents = document if isinstance(document, list) else [document]
    _check_count(len(documents), body)
    return _items(documents)


def read_document(event: Mapping[str, Any], headers: Mapping[str, str], budget: Budget, model: type[BaseModel]) -> Any:
    """A body that is one JSON object, validated. Raises InvalidEventError, BatchTooLargeError, UnsupportedMediaTypeError."""
    body = read_body(event, headers, budget, budget.expanded_bytes.limit)
    if body.content_type != _JSON:
        raise UnsupportedMediaTypeError(f"the body must be application/json content_type={body.content_type!r}")
    document = _parsed(body.text)
    if isinstance(document, Refused):
        raise InvalidEventError(document.reason)
    try:
        return _validated(document, model)
    except ValueError as error:
        raise InvalidEventError(_wrong(error)) from error


def _items(documents: Sequence[Any]) -> Items:
    events: list[tuple[int, NewEvent]] = []
    refused: list[Refused] = []
    for index, document in enumerate(documents):
        if isinstance(document, Refused):
            refused.append(Refused(index, document.reason))
            continue
        try:
            events.append((index, _validated(document, NewEvent)))
        except ValueError as error:
            refused.append(Refused(index, _wrong(error)))
    return Items(events, refused)


def _validated(document: Any, model: type[Model]) -> Model:
    """Validate a document. Lone surrogates become U+FFFD. Raises ValueError."""
    return model.model_validate_json(json.dumps(well_formed(document, depth=-_LEVELS_AROUND_DATA)))


def _parsed(text: str) -> Any:
    """A document, or the reason of its rejection. In a list with too deeply nested items, only these are. Rejects NaN and infinities."""
    try:
        return json.loads(text, parse_constant=_no_number)
    except RecursionError:
        text = text.lstrip()
        return list(json_text.elements(text)) if text.startswith("[") else Refused(0, "not json: nested too deeply")
    except ValueError as error:
        return Refused(0, f"not json reason={str(error)[:_EXCERPT_CHARS]!r}")


def _check_count(items: int, body: Body) -> None:
    if items > body.allowance.items:
        raise BatchTooLargeError(f"too many events for one request events={items} limit={body.allowance.items}")


def _no_number(name: str) -> None:
    raise ValueError(f"{name} is not a json number")


def _wrong(error: ValueError) -> str:
    """A message with the error and its field, without sent values: names of unknown fields may contain secrets."""
    if not isinstance(error, ValidationError):
        return str(error)
    wrong = error.errors(include_url=False, include_input=False, include_context=False)[0]
    return f"invalid document: {wrong['msg'].lower()} field={invalid_field(error)}"
