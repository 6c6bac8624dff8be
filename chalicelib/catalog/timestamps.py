"""Parse and format times: any common text or number to and from milliseconds since the epoch (UTC)."""

from __future__ import annotations

import math
import warnings
from datetime import UTC, datetime, timedelta
from decimal import Decimal, InvalidOperation
from typing import Any

from chalicelib.errors import InvalidTimeError

MAX_SECONDS = 100_000_000_000
"""A number beyond it is in milliseconds (after 1973-03-03, before 1966-10-31), any other in seconds (up to the year 5138)."""
FIRST_MS, LAST_MS = -62_135_596_800_000, 253_402_300_799_999
"""The years 1 to 9999."""
DAY_MS = 86_400_000
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MILLISECOND = timedelta(milliseconds=1)
_MAX_CHARS = 100
_MAX_DIGITS = 18


def parse_time_ms(value: Any, now_ms: int) -> int:
    """Parse a datetime, an ISO 8601 or free-form text, "now", or a number of seconds or milliseconds. UTC if there is no zone.
    Raises InvalidTimeError."""
    if isinstance(value, datetime):
        return _of_datetime(value)
    if isinstance(value, bool) or not isinstance(value, int | float | Decimal | str) or len(_text_of(value)) > _MAX_CHARS:
        raise InvalidTimeError(f"not a time: {_text_of(value)[:_MAX_CHARS]!r}")
    if value == "now":
        return now_ms
    number = _number(value)
    return _of_text(str(value)) if number is None else _of_number(number)


def _text_of(value: Any) -> str:
    """``str(value)``, also of an integer with more digits than Python prints."""
    try:
        return str(value)
    except ValueError:
        return "9" * (_MAX_CHARS + 1)


def in_range(ms: int) -> int:
    """``ms`` itself. Raises InvalidTimeError outside the years 1 to 9999."""
    if not FIRST_MS <= ms <= LAST_MS:
        raise InvalidTimeError(f"a time must be in the years 1 to 9999 ms={_text_of(ms)[:_MAX_CHARS]}")
    return ms


def iso(ms: int) -> str:
    """ISO 8601 in UTC, with milliseconds."""
    return (_EPOCH + timedelta(milliseconds=ms)).isoformat(timespec="milliseconds").removesuffix("+00:00") + "Z"


def _number(value: float | Decimal | str) -> Decimal | None:
    try:
        return Decimal(str(value).strip())
    except InvalidOperation:
        return None


def _of_number(number: Decimal) -> int:
    if not number.is_finite() or number.adjusted() > _MAX_DIGITS:
        raise InvalidTimeError(f"a time must be in the years 1 to 9999 given={number}")
    return in_range(math.trunc(number if abs(number) > MAX_SECONDS else number * 1000))


def _of_text(text: str) -> int:
    try:
        return _of_datetime(datetime.fromisoformat(text))
    except ValueError:
        return _of_datetime(_as_people_write(text))


def _as_people_write(text: str) -> datetime:
    """ "20 Mar 2015", the output of ``date -u``, and the like."""
    from dateutil import parser  # part of Lambda's runtime, as botocore needs it; few requests use it

    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")  # an unknown zone, which it would read as UTC
            parsed: datetime = parser.parse(text, default=datetime(1970, 1, 1))
    except Exception as error:  # its parser raises many classes
        raise InvalidTimeError(f"not a time: {text!r}") from error
    return parsed


def _of_datetime(moment: datetime) -> int:
    try:
        return in_range(((moment if moment.tzinfo else moment.replace(tzinfo=UTC)) - _EPOCH) // _MILLISECOND)
    except (OverflowError, ValueError) as error:  # also an offset of a day or more
        raise InvalidTimeError(f"a time must be in the years 1 to 9999, with an offset below a day: {error}") from error
