"""Downloads the issuer's keys by HTTPS: only from the configured URL, without redirects, with a short timeout."""

from __future__ import annotations

from http.client import HTTPException
from urllib.request import HTTPRedirectHandler, OpenerDirector, Request, build_opener

from chalicelib.errors import IdentityUnavailableError

TIMEOUT_S = 2.0
MAX_BYTES = 256 * 1024


class _NoRedirects(HTTPRedirectHandler):
    """Refuses redirects: their target is not the URL that the operator configured."""

    def redirect_request(self, *_: object) -> None:
        """Returns None: no redirect."""


def download(url: str) -> bytes:
    """The document at ``url``. Raises IdentityUnavailableError."""
    try:
        with _opener().open(Request(url, headers={"Accept": "application/json"}), timeout=TIMEOUT_S) as answer:
            body: bytes = answer.read(MAX_BYTES + 1)
    except (OSError, HTTPException, ValueError) as error:  # URLError and HTTPError are OSErrors
        _close(error)
        raise IdentityUnavailableError(f"the issuer does not respond reason={str(error)[:200]!r} url={url}") from error
    if len(body) > MAX_BYTES:
        raise IdentityUnavailableError(f"the issuer's response is too large limit={MAX_BYTES} url={url}")
    return body


def _opener() -> OpenerDirector:
    return build_opener(_NoRedirects())


def _close(error: Exception) -> None:
    """Closes the connection of a response with an error status."""
    if close := getattr(error, "close", None):
        close()
