"""Times and durations as people type them."""

from __future__ import annotations

import math
import re
import time
from datetime import timezone
from typing import Any

import click

from runlake._python import time_from
from runlake.settings import MAX_HEARTBEAT_S, MAX_S, MIN_HEARTBEAT_S

_MS_DIGITS = 12
"""Fewer digits are a date, as 20261121, or a mistake: no log is from 1973."""
_UNITS_S = {"s": 1, "m": 60, "h": 3600, "d": 86_400, "w": 604_800}


class Seconds(click.FloatRange):
    """A duration that the operating system can wait for."""

    name = "number"

    def __init__(self, min: float = 0) -> None:
        super().__init__(min=min, max=MAX_S)

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """The number; rejects nan, which click accepts in any range."""
        converted = super().convert(value, param, ctx)
        if math.isnan(converted):
            self.fail(f"{value} is not in the range {self._describe_range()}.", param, ctx)
        return converted


class HeartbeatSeconds(click.IntRange):
    """Seconds until a heartbeat, in the archive's range; 0: none."""

    def __init__(self) -> None:
        super().__init__(0, MAX_HEARTBEAT_S)

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """The whole number."""
        number = click.INT.convert(value, param, ctx)
        if number and not MIN_HEARTBEAT_S <= number <= MAX_HEARTBEAT_S:
            self.fail(f"{number} is not in the range {MIN_HEARTBEAT_S}<=x<={MAX_HEARTBEAT_S}, and not 0.", param, ctx)
        return number


def since_of(text: str) -> str:
    """A time in the API's form; ``10m``, ``2h`` and so on mean that long ago. Raises click.BadParameter."""
    if match := re.fullmatch(r"(\d+(?:\.\d+)?)([smhdw])", text):
        return str(int(max(time.time() - float(match[1]) * _UNITS_S[match[2]], 0) * 1000))
    if text.isdecimal() and len(text) >= _MS_DIGITS:
        return text
    try:
        at = time_from(text)
    except ValueError as error:
        raise click.BadParameter(f"{text!r} is neither 10m, 2h, 1d nor a time as 2026-11-21T10:00:00Z") from error
    return at.isoformat() if text.isdecimal() else text


def ms_of(text: str) -> int:
    """The same in ms since the epoch; a time without a zone is UTC. Raises click.BadParameter."""
    since = since_of(text)
    if since.isdecimal():
        return int(since)
    at = time_from(since)
    return int((at if at.tzinfo else at.replace(tzinfo=timezone.utc)).timestamp() * 1000)
