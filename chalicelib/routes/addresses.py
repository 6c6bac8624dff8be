"""The address that a client used, for links in responses: protocol, host and the stage's prefix.

Public routes return links without a host: a ``Host`` that contains a configured secret would have to be replaced, and the replacement would
confirm a guess to an unauthenticated client."""

from __future__ import annotations

import re
from functools import wraps
from urllib.parse import urlencode

from chalice.app import Request, Response

from chalicelib.observability import redacted
from chalicelib.routes.responses import MOVED_TO_SLASH, View, json_response

_PROTOCOLS = ("http", "https")
_HOST = re.compile(r"[A-Za-z0-9._-]+(:[0-9]{1,5})?|\[[0-9A-Fa-f:.]+\](:[0-9]{1,5})?")


def base_path(request: Request) -> str:
    """The stage's prefix without a trailing slash: ``/api``."""
    return _parts(request)[0]


def base_url(request: Request) -> str:
    """The base URL without a trailing slash: ``https://host/api``. For authenticated callers only."""
    protocol = request.headers.get("x-forwarded-proto", "").partition(",")[0].strip()
    host = request.headers.get("host", "")
    if not _HOST.fullmatch(host) or redacted(host) != host:
        host = request.context.get("domainName", "localhost")
    return f"{protocol if protocol in _PROTOCOLS else 'https'}://{host}{base_path(request)}"


def redirect_missing_slash(view: View) -> View:
    """A view of a path with a trailing slash; a request without the slash is redirected."""

    @wraps(view)
    def viewed(request: Request) -> Response:
        return view(request) if _has_slash(request) else _with_slash(request)

    return viewed


def _has_slash(request: Request) -> bool:
    """Whether the path was sent with a trailing slash. An event has the path in two places; checking both prevents a redirect loop if a gateway
    strips the slash from one."""
    path = request.to_original_event().get("path") or ""
    return any(each.endswith("/") for each in (request.context["path"], path))


def _with_slash(request: Request) -> Response:
    query = urlencode(request.to_original_event().get("multiValueQueryStringParameters") or {}, doseq=True, errors="replace")
    location = "".join(_parts(request)) + "/" + (f"?{query}" if query else "")
    return json_response({"location": location}, MOVED_TO_SLASH, Location=location)


def _parts(request: Request) -> tuple[str, str]:
    """The prefix of the stage or custom domain, and the API's own path after it, which has as many segments as the route. Neither begins with
    two slashes, which would name another host."""
    segments = request.context["path"].rstrip("/").split("/")
    own = request.context["resourcePath"].rstrip("/").count("/")
    prefix = "/".join(segments[: len(segments) - own]).strip("/")
    return f"/{prefix}" if prefix else "", "/" + "/".join(segments[len(segments) - own :])
