"""The page at ``GET /docs/static/index.html``: it fetches the document at ``../../spec/`` and renders it, with forms for read-only operations and
a field for their token."""

from __future__ import annotations

from functools import cache
from pathlib import Path


@cache
def page() -> str:
    """The page, the same for all clients: HTML with inline style and script. It sends requests only to its own origin."""
    return Path(__file__).with_name("docs.html").read_text(encoding="utf-8")
