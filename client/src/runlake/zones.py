"""The zone of times that name none: as a person states it, or that of this process."""

from __future__ import annotations

import os
import re
import time
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING

from runlake.errors import SettingsError

if TYPE_CHECKING:
    import logging

LOCAL = "local"
_LOCALTIME = Path("/etc/localtime")
_OFFSET = re.compile(r"[+-](?:[01][0-9]|2[0-3])(?::?[0-5][0-9])?", re.ASCII)
_ZONED = re.compile(r"(?:[0-9.,] ?(?:Z|[+-][0-9]{2}(?::?[0-9]{2})?)|[ .,0-9](?:UTC|[A-Z]{3,5}))\]?$", re.ASCII)


def checked_zone(text: str) -> str:
    """A zone by name or offset; ``local``: that of this process. Raises SettingsError."""
    from zoneinfo import available_timezones  # here, as below: few programs state a zone

    if text == LOCAL:
        return local_zone()
    if _OFFSET.fullmatch(text) or text == "UTC" or _is_name(text) or not available_timezones():
        return text
    following = f"name it as Europe/Berlin or +01:00, or `{LOCAL}` for that of this machine"
    raise SettingsError(f"there is no such zone zone={text!r}", next_step=following)


def local_zone() -> str:
    """The zone of this process: the name in TZ, or the one that /etc/localtime links to; else the present offset."""
    named = os.environ.get("TZ", "").removeprefix(":")
    linked = "" if named else os.path.realpath(_LOCALTIME).partition("/zoneinfo/")[2]
    for name in (named, linked.removeprefix("posix/").removeprefix("right/")):
        if name and _is_name(name):
            return name
    offset = datetime.now().astimezone().strftime("%z")
    return f"{offset[:3]}:{offset[3:5]}"


def zone_of_formatter(formatter: logging.Formatter | None) -> str:
    """The zone of the times that a formatter writes without their zone; empty: it writes none, or with their zone."""
    if formatter is None or not formatter.usesTime():
        return ""
    import logging

    record = logging.LogRecord("runlake", logging.INFO, "", 0, "", (), None)
    if _ZONED.search(formatter.formatTime(record, formatter.datefmt)):
        return ""
    return "UTC" if formatter.converter is time.gmtime else local_zone()


def _is_name(text: str) -> bool:
    from zoneinfo import ZoneInfo

    try:
        return bool(ZoneInfo(text).key)
    except (LookupError, OSError, ValueError):
        return False
