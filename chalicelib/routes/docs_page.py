"""The page at ``GET /docs/``: it fetches the document at ``../spec/`` and shows it, with forms to try what only reads."""

from __future__ import annotations

from functools import cache
from pathlib import Path


@cache
def page() -> str:
    """The page, the same for everybody: HTML with its style and script inside. It asks its own address only."""
    return Path(__file__).with_name("docs.html").read_text(encoding="utf-8")
