"""Parses the timestamps of many lines at once, with the results of ``chalicelib.lines.timestamps``.

Works on the bytes of a block by places: the places of a notation's digits, then those of an optional fraction and zone.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta, timezone, tzinfo

import numpy as np
import numpy.typing as npt

from chalicelib.lines.formats import NoZone
from chalicelib.lines.timestamps import FIRST_US, LAST_US, SECOND_US, Places
from chalicelib.lines.zones import ABBREVIATIONS, MOST_HOURS, REGIONS, zone_in_text
from glue_jobs.columnar.blocks import Bools, Bytes, Ints, LineBlock, bytes_among

_FRACTION_DIGITS, _ZONE_CHARS = 9, 7
_HOUR_S = 3600
_EPOCH = datetime(1970, 1, 1)
_ZERO, _SPACE, _COLON, _MINUS, _SLASH, _BRACKET = b"0 :-/["
_MARKS, _SIGNS = bytes_among(b".,:"), bytes_among(b"+-")
"""For each byte: whether it begins a fraction, and whether an offset."""
_CAPITALS = bytes(range(ord("A"), ord("Z") + 1))
_LETTERS = bytes_among(_CAPITALS + _CAPITALS.lower())
_WORDS = sorted(ABBREVIATIONS, key=lambda word: int.from_bytes(word.encode(), "little"))
_NUMBERS = np.array([int.from_bytes(word.encode(), "little") for word in _WORDS], np.uint32)
"""The abbreviations, and these as numbers of four bytes, ascending."""
_LEAST_LETTERS, _MOST_LETTERS = 3, 4
_MASKS = np.array([0, 0xFF, 0xFFFF, 0xFFFFFF, 0xFFFFFFFF, 0xFFFFFFFF], np.uint32)
"""By the number of letters: the bytes of a word."""
_NAME_BYTES = max(map(len, REGIONS)) + 1
_NO_NAME, _UNSURE = -1, -2


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
    ``zone`` applies to times without one; with ``NoZone`` these are not valid, and those in zones that layouts do not read are not sure."""
    digits = seconds.runs - _ZERO
    digits[seconds.runs == _SPACE] = 0
    numbers = [_number(digits[:, first:last]) for first, last in places]
    epoch_s, is_valid = _seconds(numbers, has_century=places[0][1] - places[0][0] > 2)
    local_s = epoch_s - (numbers[5] == 60)
    has_zone = not isinstance(zone, NoZone)
    offset_us, is_sure = _offsets(local_s, zone if has_zone else UTC)
    us, is_valid, is_sure = (epoch_s * SECOND_US)[seconds.places], is_valid[seconds.places], is_sure[seconds.places]
    fraction_us, behind_fraction, is_short = _fractions(block, end)
    own_us, zones = offset_us[seconds.places], _zones(block, behind_fraction)
    if zones is None:
        us -= own_us
        return ParsedTimes(behind_fraction, us + fraction_us, is_valid & _is_in_range(us) & has_zone, is_short & is_sure)
    for name in np.unique(zones.names[zones.names >= 0]):
        named, stated = np.flatnonzero(zones.names == name), zone_in_text(_WORDS[name], zone)
        if not has_zone and _WORDS[name] not in ("UTC", "GMT"):
            zones.is_sure[named] = False
            continue
        assert stated is not None
        zones.offset_us[named], zones.is_sure[named] = _offsets(local_s[seconds.places[named]], stated)
    us -= np.where(zones.is_stated, zones.offset_us, own_us)
    is_valid &= _is_in_range(us) & zones.is_valid & (zones.is_stated | has_zone)
    is_sure = is_short & zones.is_sure & (is_sure | zones.is_stated)
    return ParsedTimes(behind_fraction + zones.sizes, us + fraction_us, is_valid, is_sure)


def complete_times(block: LineBlock, us: Ints, is_valid: Bools, end: Ints) -> ParsedTimes:
    """The times of lines whose seconds are ``us``, in the zone of the log, and end at ``end``, with the optional fraction behind them. Lines that
    state a zone are not sure."""
    fraction_us, behind_fraction, is_sure = _fractions(block, end)
    if (zones := _zones(block, behind_fraction)) is not None:
        is_sure = is_sure & zones.is_sure & ~zones.is_stated
    return ParsedTimes(behind_fraction, us + fraction_us, is_valid, is_sure)


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
    """Zones in the text: their sizes in bytes, 0 where there is none. ``names``: the place of an abbreviation in ``_WORDS``, or else
    negative. ``is_sure``: whether the zone is read here; forms that are rare are left to the row parser."""

    sizes: Ints
    offset_us: Ints
    names: Ints
    is_valid: Bools
    is_sure: Bools

    @property
    def is_stated(self) -> Bools:
        """Whether the text has a zone."""
        return self.sizes > 0


def _zones(block: LineBlock, at: Ints) -> _Zones | None:
    """``Z``, ``+01``, ``+0100``, ``+01:00``; after a space also an abbreviation. None: nowhere."""
    is_spaced = block.octets[at] == _SPACE
    begin = at + is_spaced
    kinds = _KINDS[_pairs(block, begin)]
    if not kinds.any():
        return None
    count = len(at)
    zones = _Zones(
        *(np.zeros(count, np.int64), np.zeros(count, np.int64), np.full(count, _NO_NAME)),
        np.ones(count, np.bool_),
        np.ones(count, np.bool_),
    )
    zones.sizes[(kinds & _ZULU > 0) & ~is_spaced] = 1
    _add_names(block, at, np.flatnonzero((kinds & _NAMED > 0) & is_spaced), zones)
    zones.is_sure[(kinds & _HALF > 0) & ~is_spaced] = False
    signed = np.flatnonzero(kinds & _SIGNED)
    if len(signed):
        _add_offsets(block, at, signed, is_spaced[signed], zones)
    stated = np.flatnonzero((zones.sizes > 0) & (zones.names < 0))
    if len(stated):
        behind = at[stated] + zones.sizes[stated]
        zones.is_sure[stated] &= block.octets[behind] != _BRACKET
        spaced = np.flatnonzero((block.octets[behind] == _SPACE) & (_KINDS[_pairs(block, behind + 1)] & _NAMED > 0))
        zones.is_sure[stated[spaced]] &= _names(block, behind[spaced])[0] == _NO_NAME
    return zones


def begins_zone(block: LineBlock, at: Ints) -> Bools:
    """Whether what is behind the space at each place may be a zone."""
    is_zone = np.zeros(len(at), np.bool_)
    spaced = np.flatnonzero((block.octets[at] == _SPACE) & (_KINDS[_pairs(block, at + 1)] > 0))
    if len(spaced) and (zones := _zones(block, at[spaced])) is not None:
        is_zone[spaced] = zones.is_stated | ~zones.is_sure
    return is_zone


def _pairs(block: LineBlock, at: Ints) -> npt.NDArray[np.uint16]:
    """Two bytes each, as one number."""
    pairs: npt.NDArray[np.uint16] = np.left_shift(block.octets[at], 8, dtype=np.uint16) | block.octets[at + 1]
    return pairs


def _kinds() -> Bytes:
    """For each pair of bytes: what can begin with it, behind a space or not."""
    table = np.zeros((256, 256), np.uint8)
    for sign in b"+-":
        table[sign, list(b"0123456789")] |= _SIGNED
    for zulu in b"Zz":
        table[zulu] |= _ZULU
    table[ord("Z")] |= np.where(_LETTERS, 0, _NAMED).astype(np.uint8)
    table[ord("("), list(_CAPITALS)] |= _NAMED
    for half in ("AM", "PM", "am", "pm", "Am", "Pm", "aM", "pM"):
        table[ord(half[0]), ord(half[1])] |= _HALF | _NAMED
    for word in (*ABBREVIATIONS, *REGIONS):
        table[ord(word[0]), ord(word[1])] |= _NAMED
    return table.reshape(-1)


_SIGNED, _ZULU, _NAMED, _HALF = 1, 2, 4, 8
_KINDS = _kinds()


def _names(block: LineBlock, at: Ints) -> tuple[Ints, Ints]:
    """The abbreviation behind a space at each place (its place in ``_WORDS``), and the number of its letters."""
    texts = block.windows(at + 1, _MOST_LETTERS + 1)
    is_letter = _LETTERS[texts]
    count = np.where(is_letter.all(axis=1), _MOST_LETTERS + 1, is_letter.argmin(axis=1))
    behind = block.octets[at + 1 + count]
    numbers = np.ascontiguousarray(texts[:, :_MOST_LETTERS]).view(np.uint32)[:, 0] & _MASKS[count]
    place = np.minimum(np.searchsorted(_NUMBERS, numbers), len(_NUMBERS) - 1)
    is_word = (_NUMBERS[place] == numbers) & (count <= _MOST_LETTERS)
    long = np.flatnonzero(count > _MOST_LETTERS)
    is_other = (behind == _SLASH) | (is_word & _SIGNS[behind]) | (count < _LEAST_LETTERS)
    is_other[long] = (block.windows(at[long] + 1, _NAME_BYTES) == _SLASH).any(axis=1)
    return np.where(is_other, _UNSURE, np.where(is_word, place, _NO_NAME)), count


def _add_names(block: LineBlock, at: Ints, spaced: Ints, zones: _Zones) -> None:
    names, sizes = _names(block, at[spaced])
    zones.names[spaced], zones.is_sure[spaced] = names, names != _UNSURE
    zones.sizes[spaced] = np.where(names >= 0, sizes + 1, 0)


def _add_offsets(block: LineBlock, at: Ints, signed: Ints, is_spaced: Bools, zones: _Zones) -> None:
    text = block.windows(at[signed] + is_spaced, _ZONE_CHARS)
    digits = text - _ZERO
    is_digit = digits <= 9
    has_hours = is_digit[:, 1] & is_digit[:, 2]
    has_colon = has_hours & (text[:, 3] == _COLON) & is_digit[:, 4] & is_digit[:, 5]
    has_minutes = has_hours & is_digit[:, 3] & is_digit[:, 4]
    hours = _number(digits[:, 1:3])
    is_short = has_hours & (~is_spaced | (hours <= MOST_HOURS))
    sizes = np.where(has_colon, 6, np.where(has_minutes, 5, np.where(is_short, 3, 0)))
    minutes = np.where(has_colon, _number(digits[:, 4:6]), np.where(has_minutes, _number(digits[:, 3:5]), 0))
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
