"""Security and caching headers of every response, for browsers and proxies."""

from __future__ import annotations

from chalice.app import Response

HSTS = "max-age=31536000"
"""One year. Browsers ignore it over HTTP, so it does not affect the local stack."""
PERMISSIONS = "camera=(), display-capture=(), geolocation=(), microphone=(), payment=(), usb=()"
"""Browser features that neither pages nor content injected into them may use."""
UNFRAMED = "frame-ancestors 'none'"
"""A page with a field for a token must not be part of another site's page. Browsers ignore this in a ``meta`` element."""
_HTML = "text/html"


def complete(response: Response) -> Response:
    """Add missing headers. Responses are not cached unless the view sets ``Cache-Control``, since they may contain log lines."""
    response.headers.setdefault("Strict-Transport-Security", HSTS)
    response.headers.setdefault("Cache-Control", "no-store")
    response.headers.setdefault("X-Content-Type-Options", "nosniff")
    if str(response.headers.get("Content-Type", "")).startswith(_HTML):
        response.headers.setdefault("Permissions-Policy", PERMISSIONS)
        response.headers.setdefault("Content-Security-Policy", UNFRAMED)
    return response
