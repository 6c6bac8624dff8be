"""Headers that every answer has, whatever its view: how browsers and proxies may treat it."""

from __future__ import annotations

from chalice.app import Response

HSTS = "max-age=31536000"
"""A year. Browsers heed it over HTTPS only, so the local stack is not concerned."""
PERMISSIONS = "camera=(), display-capture=(), geolocation=(), microphone=(), payment=(), usb=()"
"""Of pages: what neither they nor what is put into them needs."""
_HTML = "text/html"


def complete(response: Response) -> Response:
    """Add what is missing. A view that lets an answer be cached says so itself: everything else may hold lines of logs."""
    response.headers.setdefault("Strict-Transport-Security", HSTS)
    response.headers.setdefault("Cache-Control", "no-store")
    response.headers.setdefault("X-Content-Type-Options", "nosniff")
    if str(response.headers.get("Content-Type", "")).startswith(_HTML):
        response.headers.setdefault("Permissions-Policy", PERMISSIONS)
    return response
