"""Suggestions for misspelled names in a pipeline's file."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """The continuation of a message: the known name that is closest to an unknown one, empty if none is close."""
    close = get_close_matches(name[:100], list(known), 1)
    return f", did you mean {close[0]}?" if close else ""
