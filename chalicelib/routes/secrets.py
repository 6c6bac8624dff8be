"""Rejects requests with configured secrets in the address, or in a body that is not masked.

Operations that mask their bodies are listed in ``MASKED_PREFIXES``. All other bodies are checked here, so a new operation is safe by default.
Only requests of authenticated callers are checked: a rejection reveals whether a guess is a secret, as storing a line and reading it does.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any
from urllib.parse import unquote

from chalice.app import Request

from chalicelib import composition
from chalicelib.errors import InvalidInputError
from chalicelib.observability import redacted
from chalicelib.routes import event_paths, gate, paths
from chalicelib.routes.json_bodies import parse_document

MASKED_PREFIXES = (f"{paths.BASE}/logs/", f"{event_paths.BASE}/", f"{paths.AGENTS}/")
"""Routes below these mask their bodies: lines, events, records of agents."""


def refresh(request: Request) -> None:
    """Refresh the configured secrets before anything about a request is logged. Makes a request for each missing or old secret; does not raise
    if one cannot be read."""
    if request.context["resourcePath"] in gate.PUBLIC_ROUTES:
        return
    services = composition.services()
    if services.settings.masking:
        services.masker.refresh()


def check(request: Request) -> None:
    """Reject configured secrets in the address, or in an unmasked body. Raises InvalidInputError, which names neither secret nor location."""
    if not composition.services().settings.masking:
        return
    if any(redacted(text) != text for text in _address(request)):
        raise InvalidInputError("the address holds a value that is configured to be masked: keep secrets out of names and queries")
    if not request.context["resourcePath"].startswith(MASKED_PREFIXES) and any(redacted(text) != text for text in _body(request)):
        raise InvalidInputError("the body holds a value that is configured to be masked")


def check_joined_names(*names: str) -> None:
    """Reject names outside of pipelines that form a secret when they are joined in one key. Raises InvalidNameError."""
    services = composition.services()
    if services.settings.masking:
        services.masker.check_joined_names(*names)


def _address(request: Request) -> Iterator[str]:
    path: str = request.context["path"]
    yield path
    yield unquote(path, errors="replace")
    query = request.to_original_event().get("multiValueQueryStringParameters") or {}
    for name, values in query.items():
        yield name
        yield from values


def _body(request: Request) -> Iterator[str]:
    raw = request.raw_body or b""
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
