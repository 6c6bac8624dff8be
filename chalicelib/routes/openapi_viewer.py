"""The web viewer's entries in the OpenAPI document: its page, the page's files, and what the page must know of this stage."""

from __future__ import annotations

from typing import Any

from chalicelib import __version__
from chalicelib.routes.schemas import component_schemas
from chalicelib.routes.viewer_models import LoginConfig, ViewerConfig

ERRORS: dict[int, tuple[int, str, str]] = {404: (404, "The viewer has no such file.", "the viewer has no such file")}

_LOGIN = {
    "issuer": "https://login.example.com/",
    "clientId": "runlake-page",
    "cliClientId": "runlake-cli",
    "cliRedirect": "http://127.0.0.1/callback",
    "scopes": "openid offline_access logs:read",
    "parameters": {"audience": "runlake"},
}
SCHEMAS = component_schemas(
    {"ViewerConfig": ViewerConfig, "LoginConfig": LoginConfig},
    {"ViewerConfig": [{"auth": "jwt", "version": __version__, "login": _LOGIN}], "LoginConfig": [_LOGIN]},
)

PARAMETERS: dict[str, dict[str, Any]] = {
    "viewerFile": {
        "name": "file",
        "in": "path",
        "required": True,
        "description": "A file that the page names. Its name has a hash of its contents, so it can be cached forever.",
        "schema": {"type": "string", "pattern": r"^[A-Za-z0-9_-]{1,80}\.(js|css)$"},
        "example": "index-B8CQhOmM.js",
    },
}

_TEXT = {"schema": {"type": "string"}}
_PAGE = {"description": "The page.", "content": {"text/html": _TEXT}}
_FILE = {
    "description": "A script or a style sheet, to be kept for good.",
    "content": {"text/javascript": _TEXT, "text/css": _TEXT},
}

OPERATIONS: dict[str, dict[str, Any]] = {
    "getViewer": {
        "summary": "Show the viewer",
        "description": "Lists runs that need attention; `?list` opens the pipelines, `?p={fqn}` one of them, `?p={fqn}&r={runId}` a run, "
        "`#L10-L20` behind it selects lines, `?pipelines` opens the processing pipelines, "
        "`?files` their files, `?dead` their dead letters. Requests of the page have the token that the user enters.",
        "responses": {200: _PAGE},
    },
    "getViewerFile": {
        "summary": "Get a file of the page",
        "parameters": ["viewerFile"],
        "responses": {200: _FILE},
    },
    "getViewerConfig": {
        "summary": "Get the page's settings: the authentication method, where people log in, and the version",
        "responses": {200: "ViewerConfig"},
    },
}
