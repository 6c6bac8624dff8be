"""What the client uses of Python 3.11, for 3.9 and 3.10 too."""

from __future__ import annotations

import re
import sys
from datetime import datetime
from typing import Any

HAS_ATOMIC_GROUPS = sys.version_info >= (3, 11)
"""Whether ``re`` knows the possessive quantifiers of the archive's finders of secrets."""
HAS_FORWARDING = sys.version_info >= (3, 11)
"""Whether the package ``runlake-forwarding`` can be installed."""
_TIME = re.compile(
    r"(\d{4})-?(\d\d)-?(\d\d)(?:[T ](\d\d)(?::?(\d\d)(?::?(\d\d)(?:[.,](\d+))?)?)?(?:(Z)|([+-]\d\d)(?::?(\d\d))?)?)?", re.ASCII
)


def time_from(text: str) -> datetime:
    """``datetime.fromisoformat`` with the forms that it knows since Python 3.11, but for weeks. Raises ValueError."""
    if sys.version_info < (3, 11) and (found := _TIME.fullmatch(text)):
        year, month, day, hour, minute, second, fraction, _, zone_hour, zone_minute = (each or "00" for each in found.groups())
        zone = "+00:00" if found[8] else f"{zone_hour}:{zone_minute}" if found[9] else ""
        text = f"{year}-{month}-{day}T{hour}:{minute}:{second}.{fraction[:6]:0<6}{zone}"
    return datetime.fromisoformat(text)


def read_toml(text: str) -> dict[str, Any]:
    """Raises ValueError."""
    if sys.version_info >= (3, 11):
        import tomllib
    else:
        import tomli as tomllib
    return tomllib.loads(text)
