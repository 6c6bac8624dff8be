"""The address that a client used, for links in responses: protocol, host and the stage's prefix.

Public routes return links without a host: a ``Host`` that contains a configured secret would have to be replaced, and the replacement would
confirm a guess to an unauthenticated client."""

from __future__ import annotations

import re

from chalicelib.observability import redacted
from chalicelib.routes.api_request import ApiRequest

_PROTOCOLS = ("http", "https")
_HOST = re.compile(r"[A-Za-z0-9._-]+(:[0-9]{1,5})?|\[[0-9A-Fa-f:.]+\](:[0-9]{1,5})?")


def base_url(request: ApiRequest) -> str:
    """The base URL without a trailing slash: ``https://host/api``. For authenticated callers only."""
    protocol = request.headers.get("x-forwarded-proto", "").partition(",")[0].strip()
    host = request.headers.get("host", "")
    if not _HOST.fullmatch(host) or redacted(host) != host:
        host = request.domain
    return f"{protocol if protocol in _PROTOCOLS else 'https'}://{host}{request.prefix}"
