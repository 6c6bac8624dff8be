"""The state of a run in one word, for people: see docs/glossary.md."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

_WORDS = {"open": "running", "sealed": "closed"}


def state_of(facts: Mapping[str, Any]) -> str:
    """``running``, ``closed``, ``abandoned`` or ``finalized``. ``facts``: ``status`` and ``end`` as the API has them."""
    status = str(facts["status"])
    if status != "open" and facts["end"] == "abandoned":
        return "abandoned"
    return _WORDS.get(status, status)
