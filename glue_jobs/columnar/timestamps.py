"""Parses the timestamps of many lines at once, with the results of ``chalicelib.lines.timestamps``.

Works on the bytes of a block by places: the places of a notation's digits, then those of an optional fraction and zone.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta, timezone, tzinfo

import numpy as np

from chalicelib.lines.timestamps import FIRST_US, LAST_US, SECOND_US, Places
from glue_jobs.columnar.blocks import Bools, Bytes, Ints, LineBlock, bytes_among

_FRACTION_DIGITS, _ZONE_CHARS = 9, 7
_HOUR_S = 3600
_EPOCH = datetime(1970, 1, 1)
_ZERO, _SPACE, _COLON, _MINUS, _ZULU = b"0 :-Z"
_MARKS, _SIGNS = bytes_among(b".,"), bytes_among(b"+-")
"""For each byte: whether it begins a fraction, and whether an offset."""


@dataclass(frozen=True, slots=True)
class RepeatedTexts:
    """Run-length encoded texts of one length: text *n* is row ``places[n]`` of ``runs``."""

    runs: Bytes
    places: Ints

    @classmethod
    def of(cls, texts: Bytes) -> RepeatedTexts:
        """The rows of an array."""
        whole = texts.view(f"S{texts.shape[1]}")[:, 0]
        begins = np.append(np.ones(min(len(whole), 1), np.bool_), whole[1:] != whole[:-1])
        return cls(texts[begins], np.cumsum(begins) - 1)


@dataclass(frozen=True, slots=True)
class ParsedTimes:
    """Times of some lines. ``end``: the places behind the timestamps. ``us``: microseconds since the epoch where ``is_valid``; other
    lines have no time. ``is_sure``: whether these are the results of the row parser; other lines must be given to it."""

    end: Ints
    us: Ints
    is_valid: Bools
    is_sure: Bools


def parse_times(block: LineBlock, seconds: RepeatedTexts, end: Ints, places: Places, zone: tzinfo) -> ParsedTimes:
    """The times of lines whose ``seconds`` match the notation and end at ``end``, with the optional fraction and zone behind them.
    ``zone`` applies to times without one."""
    digits = seconds.runs - _ZERO
    numbers = [_number(digits[:, first:last]) for first, last in places]
    epoch_s, is_valid = _seconds(numbers, has_century=places[0][1] - places[0][0] > 2)
    offset_us, is_sure = _offsets(epoch_s - (numbers[5] == 60), zone)
    us, is_valid, is_sure = (epoch_s * SECOND_US)[seconds.places], is_valid[seconds.places], is_sure[seconds.places]
    fraction_us, behind_fraction, is_short = _fractions(block, end)
    zones = _zones(block, behind_fraction)
    is_valid &= _is_in_range(us) | ~zones.is_stated
    us -= np.where(zones.is_stated, zones.offset_us, offset_us[seconds.places])
    is_valid &= _is_in_range(us) & zones.is_valid
    return ParsedTimes(behind_fraction + zones.sizes, us + fraction_us, is_valid, is_short & (is_sure | zones.is_stated))


def _number(digits: Bytes) -> Ints:
    number = digits[:, 0].astype(np.int64)
    for place in range(1, digits.shape[1]):
        number = number * 10 + digits[:, place]
    return number


def _seconds(numbers: list[Ints], *, has_century: bool) -> tuple[Ints, Bools]:
    """Seconds since the epoch of valid dates, as if all were UTC. Second 60 is the first of the next minute."""
    year, month, day, hour, minute, second = numbers
    if not has_century:
        year = year + np.where(year >= 69, 1900, 2000)
    is_valid = (year > 0) & (month >= 1) & (month <= 12) & (day >= 1) & (hour < 24) & (minute < 60) & (second <= 60)
    months = np.where(is_valid, (year - 1970) * 12 + month - 1, 0)
    first_day = _day_of(months)
    is_valid &= day <= _day_of(months + 1) - first_day
    return np.where(is_valid, (first_day + day - 1) * 86_400 + hour * _HOUR_S + minute * 60 + second, 0), is_valid


def _day_of(months: Ints) -> Ints:
    return months.astype("datetime64[M]").astype("datetime64[D]").astype(np.int64)


def _is_in_range(us: Ints) -> Bools:
    return (us >= FIRST_US) & (us <= LAST_US)


def _fractions(block: LineBlock, at: Ints) -> tuple[Ints, Ints, Bools]:
    """Microseconds, the place behind the digits, and whether there are no more digits than a fraction has."""
    us, end, is_short = np.zeros(len(at), np.int64), at.copy(), np.ones(len(at), np.bool_)
    has_mark = np.flatnonzero(_MARKS[block.octets[at]])
    if len(has_mark):
        digits = block.windows(at[has_mark] + 1, _FRACTION_DIGITS + 1) - _ZERO
        count = _digit_counts(digits <= 9)
        most = min(int(count.max()), 6)
        fraction = np.zeros(len(has_mark), np.int64)
        for place in range(most):
            fraction = fraction * 10 + np.where(place < count, digits[:, place], 0)
        us[has_mark] = fraction * 10 ** (6 - most)
        end[has_mark] += np.where(count, count + 1, 0)
        is_short[has_mark] = count <= _FRACTION_DIGITS
    return us, end, is_short


def _digit_counts(is_digit: Bools) -> Ints:
    """The number of digits with which each row begins."""
    size = is_digit.shape[1]
    first = int(is_digit[0].argmin())
    if is_digit[:, :first].all() and not is_digit[:, first].any():  # most logs have one precision
        return np.full(len(is_digit), first)
    counts: Ints = np.where(is_digit.all(axis=1), size, is_digit.argmin(axis=1))
    return counts


@dataclass(frozen=True, slots=True)
class _Zones:
    """Zones in the text: their sizes in bytes, 0 where there is none."""

    sizes: Ints
    offset_us: Ints
    is_valid: Bools

    @property
    def is_stated(self) -> Bools:
        """Whether the text has a zone."""
        return self.sizes > 0


def _zones(block: LineBlock, at: Ints) -> _Zones:
    """``Z``, ``+01``, ``+0100``, ``+01:00``; after a space ``+0100``, ``+01:00``, ``UTC``, ``GMT``."""
    zones = _Zones(np.zeros(len(at), np.int64), np.zeros(len(at), np.int64), np.ones(len(at), np.bool_))
    first = block.octets[at]
    zones.sizes[first == _ZULU] = 1
    is_spaced = first == _SPACE
    for name in (b"UTC", b"GMT"):
        spaced = np.flatnonzero(is_spaced & (block.octets[at + 1] == name[0]))
        is_name = (block.windows(at[spaced] + 1, 3) == np.frombuffer(name, np.uint8)).all(axis=1)
        zones.sizes[spaced[is_name]] = 4
    sign = at + is_spaced
    signed = np.flatnonzero(_SIGNS[block.octets[sign]] & (block.octets[sign + 1] - _ZERO <= 9))
    if len(signed):
        _add_offsets(block, at, signed, is_spaced[signed], zones)
    return zones


def _add_offsets(block: LineBlock, at: Ints, signed: Ints, is_spaced: Bools, zones: _Zones) -> None:
    text = block.windows(at[signed] + is_spaced, _ZONE_CHARS)
    digits = text - _ZERO
    is_digit = digits <= 9
    has_hours = is_digit[:, 1] & is_digit[:, 2]
    has_colon = has_hours & (text[:, 3] == _COLON) & is_digit[:, 4] & is_digit[:, 5]
    has_minutes = has_hours & is_digit[:, 3] & is_digit[:, 4]
    sizes = np.where(has_colon, 6, np.where(has_minutes, 5, np.where(has_hours & ~is_spaced, 3, 0)))
    minutes = np.where(has_colon, _number(digits[:, 4:6]), np.where(has_minutes, _number(digits[:, 3:5]), 0))
    hours = _number(digits[:, 1:3])
    offset_us = (hours * _HOUR_S + minutes * 60) * SECOND_US
    has_zone = sizes > 0
    chosen = signed[has_zone]
    zones.sizes[chosen] = (sizes + is_spaced)[has_zone]
    zones.offset_us[chosen] = np.where(text[:, 0] == _MINUS, -offset_us, offset_us)[has_zone]
    zones.is_valid[chosen] = ((hours < 24) & (minutes < 60))[has_zone]


def _offsets(seconds: Ints, zone: tzinfo) -> tuple[Ints, Bools]:
    """The offsets of a zone at local times, in microseconds, and whether they are certain: not in hours in which it changes."""
    if isinstance(zone, timezone):
        return np.full(len(seconds), zone.utcoffset(None) // timedelta(microseconds=1)), np.ones(len(seconds), np.bool_)
    hours, place = np.unique(seconds // _HOUR_S, return_inverse=True)
    offsets = [_offset_us(int(hour), zone) for hour in hours]
    is_known = np.array([offset is not None for offset in offsets], np.bool_)
    return np.array([offset or 0 for offset in offsets], np.int64)[place], is_known[place]


def _offset_us(hour: int, zone: tzinfo) -> int | None:
    """The offset throughout an hour since the epoch; None if it changes."""
    try:
        first, last = (
            (_EPOCH + timedelta(hours=hour, seconds=second)).replace(tzinfo=zone).utcoffset() for second in (0, _HOUR_S - 1)
        )
    except (ValueError, OverflowError):
        return None
    return None if first is None or first != last else first // timedelta(microseconds=1)
