"""Rejects requests with configured secrets in the address, or in a body that is not masked.

Bodies of operations that do not mask them (``Operation.masks_body``) are checked here, so a new operation is safe by default.
Only requests of authenticated callers are checked: a rejection reveals whether a guess is a secret, as storing a line and reading it does.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any
from urllib.parse import unquote

from chalicelib import composition
from chalicelib.errors import InvalidInputError
from chalicelib.observability import redacted
from chalicelib.routes.api_request import ApiRequest
from chalicelib.routes.json_bodies import parse_document


def refresh(request: ApiRequest) -> None:
    """Refresh the configured secrets before anything about a request is logged. Makes a request for each missing or old secret; does not raise
    if one cannot be read."""
    if request.operation and request.operation.is_public:
        return
    services = composition.services()
    if services.settings.masking:
        services.masker.refresh()


def check(request: ApiRequest) -> None:
    """Reject configured secrets in the address, or in an unmasked body. Raises InvalidInputError, which names neither secret nor location."""
    if not composition.services().settings.masking:
        return
    if any(redacted(text) != text for text in _address(request)):
        raise InvalidInputError("the address holds a value that is configured to be masked: keep secrets out of names and queries")
    masks_body = request.operation is not None and request.operation.masks_body
    if not masks_body and any(redacted(text) != text for text in _body(request)):
        raise InvalidInputError("the body holds a value that is configured to be masked")


def check_joined_names(*names: str) -> None:
    """Reject names outside of pipelines that form a secret when they are joined in one key. Raises InvalidNameError."""
    services = composition.services()
    if services.settings.masking:
        services.masker.check_joined_names(*names)


def _address(request: ApiRequest) -> Iterator[str]:
    path = request.full_path
    yield path
    yield unquote(path, errors="replace")
    for name, values in request.query_values.items():
        yield name
        yield from values


def _body(request: ApiRequest) -> Iterator[str]:
    raw = request.body
    text = raw if isinstance(raw, str) else raw.decode(errors="replace")
    yield text
    try:
        yield from _texts(parse_document(raw))
    except (ValueError, RecursionError):
        return  # the view uses the same parser and rejects the body


def _texts(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, list):
        for each in value:
            yield from _texts(each)
    elif isinstance(value, dict):
        for name, each in value.items():
            yield name
            yield from _texts(each)
