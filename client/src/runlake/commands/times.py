"""Times as people type them."""

from __future__ import annotations

import re
import time
from datetime import UTC, datetime

import click

_UNITS_S = {"s": 1, "m": 60, "h": 3600, "d": 86_400, "w": 604_800}


def since_of(text: str) -> str:
    """A time as the API takes it: of ``10m``, ``2h`` and the like it is that long ago. Raises click.BadParameter."""
    if found := re.fullmatch(r"(\d+(?:\.\d+)?)([smhdw])", text):
        return str(int((time.time() - float(found[1]) * _UNITS_S[found[2]]) * 1000))
    if not text.isdecimal():
        try:
            datetime.fromisoformat(text)
        except ValueError as error:
            raise click.BadParameter(
                f"{text!r} is neither 10m, 2h, 1d nor a time as 2026-11-21T10:00:00Z", param_hint="--since"
            ) from error
    return text


def ms_of(text: str) -> int:
    """The same in ms since the epoch; a time without a zone is of UTC. Raises click.BadParameter."""
    since = since_of(text)
    if since.isdecimal():
        return int(since)
    at = datetime.fromisoformat(since)
    return int((at if at.tzinfo else at.replace(tzinfo=UTC)).timestamp() * 1000)
