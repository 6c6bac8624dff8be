"""The web viewer at ``/v1/ui/``: its files, built from ``viewer/`` into ``chalicelib/viewer/``, and its configuration for this stage.
Public: the files contain no data, and the page asks for a token if the API requires one.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path
from urllib.parse import urlsplit

from chalice.app import NotFoundError, Response

from chalicelib import __version__, composition
from chalicelib.routes.api_request import ApiRequest
from chalicelib.routes.responses import json_response
from chalicelib.routes.viewer_models import LoginConfig, ViewerConfig

FOLDER = Path(__file__).parents[1] / "viewer"
PAGE = "index.html"
CONTENT_TYPES = {
    ".html": "text/html; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".svg": "image/svg+xml",
}
_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src {connect}; img-src 'self' data:; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
_REVALIDATED, _IMMUTABLE = "no-cache", "public, max-age=31536000, immutable"
_SAFE: dict[str, str | list[str]] = {"Referrer-Policy": "no-referrer"}


def page(_: ApiRequest) -> Response:
    """The page. It refers to its files by relative paths, so it works under any stage."""
    return _file(PAGE, _REVALIDATED)


def config(_: ApiRequest) -> Response:
    """The configured authentication, and the version."""
    services = composition.services()
    body = ViewerConfig(auth=services.settings.auth, version=__version__, login=_login(services))
    return json_response(body.model_dump(), Cache_Control=_REVALIDATED)


def _login(services: composition.Services) -> LoginConfig | None:
    settings = services.settings
    if (login := settings.login) is None:
        return None
    return LoginConfig(
        issuer=settings.login_issuer,
        clientId=login.client_id,
        cliClientId=login.cli_client_id or login.client_id,
        cliRedirect=login.cli_redirect,
        scopes=login.scopes,
        parameters=login.parameters,
    )


def file(request: ApiRequest) -> Response:
    """A file of the page. Its name contains a hash of its content, so browsers cache it permanently."""
    name = request.lossy_name("file")
    if name == PAGE or name not in files():
        raise NotFoundError("the viewer has no such file")
    return _file(name, _IMMUTABLE)


@cache
def files() -> dict[str, str]:
    """The files by name. Requests select one of these names; no path is built from a request."""
    return {path.name: path.read_text(encoding="utf-8") for path in FOLDER.iterdir() if path.suffix in CONTENT_TYPES}


def _file(name: str, caching: str) -> Response:
    headers: dict[str, str | list[str]] = {"Content-Type": CONTENT_TYPES[Path(name).suffix], "Cache-Control": caching}
    return Response(files()[name], _SAFE | {"Content-Security-Policy": _policy()} | headers)


def _policy() -> str:
    """Content-Security-Policy: scripts only from this folder; connections only to the API, the two buckets, for downloads, and the issuer where
    people log in."""
    services = composition.services()
    links = [store.presign_get("x", expires_s=1, content_type="text/plain") for store in (services.store, services.archive_store)]
    parts = [urlsplit(link) for link in (*links, services.settings.login_issuer)]
    further = services.settings.login.origins if services.settings.login else ()
    origins = dict.fromkeys((*(f"{each.scheme}://{each.netloc}" for each in parts if each.netloc), *further))
    return _POLICY.format(connect=" ".join(["'self'", *origins]))
