"""HTTP for targets: one POST, and the meaning of its response for the events in it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from email.utils import parsedate_to_datetime
from typing import Protocol
from urllib.parse import urlsplit

from chalicelib.errors import RequestRefusedError, TargetUnavailableError

_REFUSED = frozenset({400, 413, 422})
"""Statuses about the content of a request. 401, 403 and 404 concern the configuration: no event is given up for them."""
_MAX_EXCERPT_CHARS = 200
_VISIBLE_HEADERS = frozenset({"content-type", "x-amz-date", "x-amz-content-sha256"})
_MIN_SECRET_CHARS = 8
"""Shorter words of a header are names of schemes, as ``Bearer``."""


@dataclass(frozen=True, slots=True)
class Answer:
    """A response. ``headers`` by names in lower case. ``is_too_long``: the body exceeds the transport's limit and is left out."""

    status: int
    body: bytes = b""
    headers: Mapping[str, str] = field(default_factory=dict)
    is_too_long: bool = False


class Transport(Protocol):
    """Sends requests without redirects and retries. Implemented by ``chalicelib.aws.http``."""

    def post(self, url: str, headers: Mapping[str, str], body: bytes) -> Answer:
        """Send one request. Raises TargetUnavailableError (not sent) and OutcomeUnknownError (no response, or an incomplete
        one)."""

    def close(self) -> None:
        """Release connections. May be called twice."""


def check(answer: Answer, what: str, *, final: frozenset[int] = frozenset()) -> None:
    """Raise unless the request was accepted. ``final``: 5xx statuses that this protocol forbids to retry.

    Raises RequestRefusedError (do not retry) and TargetUnavailableError (retry).
    """
    if 200 <= answer.status < 300:
        return
    message = f"{what} did not accept events status={answer.status} answer={excerpt(answer.body)!r}"
    if answer.status in _REFUSED or answer.status in final:
        raise RequestRefusedError(message)
    raise TargetUnavailableError(message, retry_after_s(answer.headers))


def excerpt(body: bytes) -> str:
    """The beginning of a response body, for a message."""
    return " ".join(body[: 4 * _MAX_EXCERPT_CHARS].decode(errors="replace").split())[:_MAX_EXCERPT_CHARS]


def without_credentials(body: bytes, url: str, headers: Mapping[str, str]) -> bytes:
    """The body of an error's response without the headers of its request and the parameters of its address: servers and proxies quote
    them, and messages with an excerpt are shown to readers of logs."""
    values = [value for name, value in headers.items() if name.lower() not in _VISIBLE_HEADERS]
    values += [each.partition("=")[2] for each in urlsplit(url).query.split("&")]
    words = {word for value in values for word in (value, *value.split()) if len(word) >= _MIN_SECRET_CHARS}
    for word in sorted(words, key=len, reverse=True):
        body = body.replace(word.encode(), b"***")
    return body


def retry_after_s(headers: Mapping[str, str]) -> float | None:
    """The pause that a server asks for: seconds, or a date, which is compared with the server's own date."""
    text = headers.get("retry-after", "").strip()
    if text.isascii() and text.isdigit():
        return float(text)
    try:
        until, now = parsedate_to_datetime(text), parsedate_to_datetime(headers.get("date", ""))
        return max((until - now).total_seconds(), 0.0)
    except (ValueError, TypeError):
        return None
