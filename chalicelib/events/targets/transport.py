"""HTTP as targets need it: one POST, and what its answer means for the events in it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from email.utils import parsedate_to_datetime
from typing import Protocol

from chalicelib.errors import RequestRefusedError, TargetUnavailableError

_REFUSED = frozenset({400, 413, 422})
"""Answers about what is in a request. 401, 403, 404 are about ourselves: no event is given up for them."""
_SHOWN_CHARS = 200


@dataclass(frozen=True, slots=True)
class Answer:
    """``headers`` by their names in small letters."""

    status: int
    body: bytes = b""
    headers: Mapping[str, str] = field(default_factory=dict)


class Transport(Protocol):
    """Sends requests; no redirects, no retries. ``chalicelib.aws.http`` has the real one."""

    def post(self, url: str, headers: Mapping[str, str], body: bytes) -> Answer:
        """One request. Raises TargetUnavailableError (it was not sent) and OutcomeUnknownError (no answer, or part of one)."""

    def close(self) -> None:
        """Give connections back. May be called twice."""


def check(answer: Answer, what: str, *, final: frozenset[int] = frozenset()) -> None:
    """Whether a request was taken. ``final``: statuses of the 500s that this protocol says must not be repeated.

    Raises RequestRefusedError (repeating it is of no use) and TargetUnavailableError (it was not taken now).
    """
    if 200 <= answer.status < 300:
        return
    message = f"{what} did not take events status={answer.status} answer={excerpt(answer.body)!r}"
    if answer.status in _REFUSED or answer.status in final:
        raise RequestRefusedError(message)
    raise TargetUnavailableError(message, retry_after_s(answer.headers))


def excerpt(body: bytes) -> str:
    """The beginning of an answer, for a message."""
    return " ".join(body[: 4 * _SHOWN_CHARS].decode(errors="replace").split())[:_SHOWN_CHARS]


def retry_after_s(headers: Mapping[str, str]) -> float | None:
    """How long a server asks to be left alone: seconds, or a date, which is compared with the server's own."""
    text = headers.get("retry-after", "").strip()
    if text.isascii() and text.isdigit():
        return float(text)
    try:
        until, now = parsedate_to_datetime(text), parsedate_to_datetime(headers.get("date", ""))
        return max((until - now).total_seconds(), 0.0)
    except (ValueError, TypeError):
        return None
