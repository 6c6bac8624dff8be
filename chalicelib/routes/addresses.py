"""The address that a client used, so that links in responses lead back the same way: host, protocol, and the stage's prefix.

What is open to everyone has links without a host: a ``Host`` with a configured secret would have to be replaced there, and the replacement
would confirm a guess to somebody who has shown no token."""

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
    """The stage's prefix, without a slash at the end: ``/api``."""
    return _parts(request)[0]


def base_url(request: Request) -> str:
    """For authenticated callers. Without a slash at the end: ``https://host/api``."""
    protocol = request.headers.get("x-forwarded-proto", "").partition(",")[0].strip()
    host = request.headers.get("host", "")
    if not _HOST.fullmatch(host) or redacted(host) != host:
        host = request.context.get("domainName", "localhost")
    return f"{protocol if protocol in _PROTOCOLS else 'https'}://{host}{base_path(request)}"


def redirect_missing_slash(view: View) -> View:
    """A view of a path that ends in a slash: whoever leaves it out is sent there."""

    @wraps(view)
    def viewed(request: Request) -> Response:
        return view(request) if _has_slash(request) else _with_slash(request)

    return viewed


def _has_slash(request: Request) -> bool:
    """A REST API hands a path over as it was sent. Should a gateway in between cut the slash off one of the two places that tell it,
    the other one saves the client from being sent round and round."""
    path = request.to_original_event().get("path") or ""
    return any(each.endswith("/") for each in (request.context["path"], path))


def _with_slash(request: Request) -> Response:
    query = urlencode(request.to_original_event().get("multiValueQueryStringParameters") or {}, doseq=True, errors="replace")
    location = "".join(_parts(request)) + "/" + (f"?{query}" if query else "")
    return json_response({"location": location}, MOVED_TO_SLASH, Location=location)


def _parts(request: Request) -> tuple[str, str]:
    """The stage's prefix, or a custom domain's, and the path of ours behind it: as many segments as the route has. Neither begins with two
    slashes, which would name another host."""
    segments = request.context["path"].rstrip("/").split("/")
    own = request.context["resourcePath"].rstrip("/").count("/")
    prefix = "/".join(segments[: len(segments) - own]).strip("/")
    return f"/{prefix}" if prefix else "", "/" + "/".join(segments[len(segments) - own :])
