"""Paths that several modules name, and decoding of the names in a path.

A path is taken as the client sent it (API Gateway's REST APIs and ``chalice local`` pass paths percent-encoded), split on raw slashes, and
then decoded exactly once: ``%2F`` stays inside a name, ``%25`` is a literal ``%``, ``+`` is a plus.
"""

from __future__ import annotations

from urllib.parse import unquote

from chalicelib.errors import InvalidNameError

BASE, EVENT_BASE = "/v1/services/ingestionPipelines", "/v1/events"
RECENT_RUNS, CATALOG, COORDINATION = "/v1/catalog", "/v1/catalog/pipelines", "/v1/coordination"
PIPELINES, PIPELINE_FILES, DEAD_LETTERS = "/v1/pipelines", "/v1/pipeline-files", "/v1/dead-letters"
ARCHIVE, AGENTS = "/v0/archive", "/v1/agents"
ELASTICSEARCH = f"{AGENTS}/elasticsearch"
DOCS_PAGE = "/docs/static/index.html"
"""Below ``/docs/``, which a proxy may pass on alone, and named as the datalake names its page."""


def decode_name(name: str) -> str:
    """Decode a name in a path. Raises InvalidNameError."""
    try:
        return unquote(name, errors="strict")
    except UnicodeDecodeError as error:
        raise InvalidNameError(f"a path must be percent-encoded UTF-8 path={name!r}") from error
