"""The address that a client used, so that links in answers lead back the same way: host, protocol, and the stage's prefix."""

from __future__ import annotations

from urllib.parse import urlencode

from chalice.app import Request, Response

from chalicelib.routes.answers import json_answer

_ROOTS = ("/v0/", "/v1/", "/spec", "/docs", "/health")


def base_url(request: Request) -> str:
    """Without a slash at the end: ``https://host/api``."""
    protocol = request.headers.get("x-forwarded-proto", "https").partition(",")[0].strip()
    host = request.headers.get("host") or request.context.get("domainName", "localhost")
    path: str = request.context["path"]
    return f"{protocol}://{host}{path[: _root(path)]}"


def with_slash(request: Request) -> Response | None:
    """A redirect to the same path with a slash at its end, where the client left it out.

    A REST API hands a path over as it was sent. Should a gateway in between cut the slash off one of the two places that tell it,
    the other one saves the client from being sent round and round.
    """
    event = request.to_original_event()
    path: str = request.context["path"]
    if path.endswith("/") or str(event.get("path", "")).endswith("/"):
        return None
    given = event.get("multiValueQueryStringParameters") or {}
    query = urlencode(given, doseq=True)
    location = base_url(request) + path[_root(path) :] + "/" + (f"?{query}" if query else "")
    return json_answer({"location": location}, 308, Location=location)


def _root(path: str) -> int:
    """Where the stage's prefix ends and our own path begins."""
    return min((path.index(root) for root in _ROOTS if root in path), default=len(path))
