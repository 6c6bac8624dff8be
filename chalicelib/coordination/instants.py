"""Instants as the items hold them: ISO-8601 in UTC with ``Z``, always six digits, so that texts sort as the times do."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)


def format_timestamp(ms: int) -> str:
    """A time in ms as text."""
    return format_timestamp_us(ms * 1000)


def format_timestamp_us(us: int) -> str:
    """A time in microseconds as text."""
    return (_EPOCH + timedelta(microseconds=us)).replace(tzinfo=None).isoformat(timespec="microseconds") + "Z"


def upper_bound(ms: int) -> str:
    """A text at or behind the texts of all instants up to this one, whoever wrote them: Java leaves out a fraction of zero, and ``Z``
    sorts behind a point. Later ones of the same second are before it too."""
    return format_timestamp(ms)[:19] + "Z"


def parse_timestamp_us(text: str) -> int:
    """The inverse: microseconds; further digits (Java writes up to nine) are cut. Raises ValueError."""
    moment = datetime.fromisoformat(text)
    if moment.tzinfo is None:
        raise ValueError(f"no zone: {text!r}")
    return (moment - _EPOCH) // _MICROSECOND


def parse_timestamp_ms(text: str) -> int:
    """The inverse of ``instant``."""
    return parse_timestamp_us(text) // 1000
