"""Secrets that come where they are not masked: in an address, or in the body of a request that is no log. Such a request is rejected.

An operation whose body is masked by its own domain is named in ``MASKED``. Whatever else is sent is looked through here, so that a new operation
is safe before anybody thinks of it. Only authenticated callers get this far: a rejection tells whether a guess is a secret, as storing a line and
reading it back does.
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
"""Routes below these mask what they store: lines, events, what agents send."""


def refresh(request: Request) -> None:
    """Have configured values at hand before anything is said about a request. Makes a request for each that is missing or old, never
    raises for one that cannot be read."""
    if request.context["resourcePath"] in gate.PUBLIC_ROUTES:
        return
    services = composition.services()
    if services.settings.masking:
        services.masker.refresh()


def check(request: Request) -> None:
    """Raises InvalidInputError where a configured value stands in the address, or in a body that is not masked. Does not say where, nor which."""
    if not composition.services().settings.masking:
        return
    if any(redacted(text) != text for text in _address(request)):
        raise InvalidInputError("the address holds a value that is configured to be masked: keep secrets out of names and queries")
    if not request.context["resourcePath"].startswith(MASKED_PREFIXES) and any(redacted(text) != text for text in _body(request)):
        raise InvalidInputError("the body holds a value that is configured to be masked")


def check_joined_names(*names: str) -> None:
    """For names of no pipeline that become parts of one key. Raises InvalidNameError where they make a configured value together."""
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
        return  # the view reads it by the same function, and rejects it


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
