"""The issuer's keys, by HTTPS: from the address of the settings and no other, quickly or not at all."""

from __future__ import annotations

from http.client import HTTPException
from urllib.request import HTTPRedirectHandler, OpenerDirector, Request, build_opener

from chalicelib.errors import IdentityUnavailableError

TIMEOUT_S = 2.0
MAX_BYTES = 256 * 1024


class _NoRedirects(HTTPRedirectHandler):
    """Another address is not the one that an operator has named."""

    def redirect_request(self, *_: object) -> None:
        """Never."""


def downloaded(url: str) -> bytes:
    """The document. Raises IdentityUnavailableError."""
    try:
        with _opener().open(Request(url, headers={"Accept": "application/json"}), timeout=TIMEOUT_S) as answer:
            body: bytes = answer.read(MAX_BYTES + 1)
    except (OSError, HTTPException, ValueError) as error:  # URLError and HTTPError are OSErrors
        _close(error)
        raise IdentityUnavailableError(f"the issuer does not answer reason={str(error)[:200]!r} url={url}") from error
    if len(body) > MAX_BYTES:
        raise IdentityUnavailableError(f"the issuer's answer is too large limit={MAX_BYTES} url={url}")
    return body


def _opener() -> OpenerDirector:
    return build_opener(_NoRedirects())


def _close(error: Exception) -> None:
    """An answer with an error's status is an open connection."""
    if close := getattr(error, "close", None):
        close()
