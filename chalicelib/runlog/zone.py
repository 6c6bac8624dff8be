"""The zone of a run: of times in its lines that name none. Stored in the metadata of each segment and artifact, and of the run's start; the
first segment settles it, in the PUT that an append sends anyway (decision 0057)."""

from __future__ import annotations

from datetime import UTC, tzinfo
from functools import lru_cache

from chalicelib.errors import DamagedLogError, InvalidInputError, OtherZoneError
from chalicelib.ports import ObjectInfo

MAX_ZONE_CHARS = 64
"""Longest name of a zone; IANA's have 32 at most."""
ZONE = "zone"
"""The name in the metadata of an object."""
_MAX_ZONES = 64


def checked_zone(text: str) -> str:
    """A zone as a client states it: a name of IANA, or an offset such as +01:00. Raises InvalidInputError."""
    # Imported here, as below: zones take time to import, and most runs state none.
    from chalicelib.lines.zones import zone_of

    zone = text.strip()
    try:
        if len(zone) > MAX_ZONE_CHARS:
            raise ValueError(f"must have at most {MAX_ZONE_CHARS} characters")
        zone_of(zone)
    except ValueError as error:
        raise InvalidInputError(f"unknown zone: {error} zone={zone[:MAX_ZONE_CHARS]!r}") from error
    return zone


@lru_cache(_MAX_ZONES)
def tz_of(zone: str) -> tzinfo:
    """The zone of a run by its stored name; UTC without one. Raises DamagedLogError."""
    if not zone:
        return UTC
    from chalicelib.lines.zones import zone_of

    try:
        return zone_of(zone)
    except ValueError as error:
        raise DamagedLogError(f"the zone of a run is unknown here zone={zone!r}") from error


def settled_zone(stated: str, known: str, *, is_settled: bool) -> str:
    """The zone of the next segment. ``known``: the run's, of its last segment if ``is_settled``, else of its start. Raises OtherZoneError."""
    if stated and stated != known and (known or is_settled):
        began = f"with zone={known}" if known else "without one, so its times are in UTC"
        raise OtherZoneError(f"the zone of a run cannot change: it began {began} stated={stated}")
    return stated or known


def zone_of_start(start: ObjectInfo) -> str:
    """The zone in the metadata of a run's start."""
    return start.metadata.get(ZONE, "")
