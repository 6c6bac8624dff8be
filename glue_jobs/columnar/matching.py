"""Matches the lines of a block against one format: level, logger, time and the place of the message, of all matching lines at once.

Made from the layout by which the row parser reads the format. Only matches are final: the row parser decides about all other lines.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import tzinfo
from functools import partial
from typing import NamedTuple, Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from chalicelib.lines.layout import LineLayout, MessageLevels
from chalicelib.lines.levels import LEVELS, ORDER
from chalicelib.lines.timestamps import ISO, SECOND_US, Places, ReadTimestamp, TimestampFormat, TimestampParser
from glue_jobs.columnar.blocks import Bools, Bytes, Ints, LineBlock, bytes_among, spans
from glue_jobs.columnar.patterns import FOREIGN, GroupPattern, fixed_places, translated
from glue_jobs.columnar.timestamps import ParsedTimes, RepeatedTexts, begins_zone, complete_times, parse_times

NO_LEVEL = len(ORDER)
"""The number of lines without a level; other levels have their place in ``ORDER``."""
_CLOCK = "^(?P<hour>[^:]*[0-9]{2}):(?P<minute>[0-5][0-9]):(?P<second>[0-5][0-9])(?P<rest>[^0-9]*[0-9]*)$"
_ZERO, _OPEN, _CLOSE = b"0<>"
_PRIORITY_DIGITS = 3
_DIGITS, _ZULU = bytes_among(b"0123456789"), bytes_among(b"Zz")
_LAST_SECOND_US = 3599 * SECOND_US
""":59:59 of an hour."""


@dataclass(frozen=True, slots=True)
class LineMatches:
    """Matching lines, ascending by number ``lines`` in the block, and their columns. ``message``: the place at which it begins.
    ``us`` counts where ``has_time``; ``loggers``: texts, null where a line has none. ``messages``: in formats whose messages are not the
    rest of the line."""

    lines: Ints
    us: Ints
    has_time: Bools
    level: npt.NDArray[np.int8]
    loggers: pa.StringArray
    message: Ints
    messages: pa.StringArray | None = None


NO_MATCHES = LineMatches(
    np.empty(0, np.int64),
    np.empty(0, np.int64),
    np.empty(0, np.bool_),
    np.empty(0, np.int8),
    pa.nulls(0, pa.string()),
    np.empty(0, np.int64),
)


BoundMatcher = Callable[[LineBlock, Ints], LineMatches]
"""The matching ones of some lines of a block, for one log."""


class _Columns:
    """Levels and loggers of lines that match a layout."""

    def __init__(self, layout: LineLayout, groups: GroupPattern) -> None:
        levels = LEVELS if layout.levels is None else layout.levels
        self._groups = groups
        self._words = pa.array(levels)
        self._numbers = np.array([ORDER.index(level) for level in levels.values()], np.int8)

    def levels(self, matches: pa.StructArray) -> tuple[npt.NDArray[np.int8], Bools]:
        """Numbers of levels, and whether lines with a level have a known one."""
        if "level" not in self._groups.groups:
            return np.full(len(matches), NO_LEVEL, np.int8), np.ones(len(matches), np.bool_)
        words = matches.field("level")
        found = np.asarray(pc.fill_null(pc.index_in(words, value_set=self._words), -1))
        level = np.where(found < 0, NO_LEVEL, self._numbers[found]).astype(np.int8)
        is_absent = np.asarray(pc.equal(pc.binary_length(words), 0)) if "level" in self._groups.optional else False
        return level, (found >= 0) | is_absent

    def loggers(self, matches: pa.StructArray) -> pa.StringArray:
        """Loggers, null where a line has none."""
        if "logger" not in self._groups.groups:
            return pa.nulls(len(matches), pa.string())
        texts = matches.field("logger")
        if "logger" not in self._groups.optional:
            return texts
        return pc.if_else(pc.equal(pc.binary_length(texts), 0), pa.scalar(None, pa.string()), texts)

    def of(
        self,
        lines: Ints,
        matches: pa.StructArray,
        us: Ints,
        has_time: Bools,
        tail_at: Ints,
        is_sure: Bools | bool = True,
        known: npt.NDArray[np.int8] | None = None,
    ) -> LineMatches:
        """The lines with a match and a known level. ``tail_at``: the places from which the patterns match. ``known``: the levels, if another
        part of the lines has them."""
        is_match = is_sure & ~np.asarray(matches.is_null())
        level, has_level = self.levels(matches) if known is None else (known, True)
        kept = np.flatnonzero(is_match & has_level)
        heads = np.asarray(pc.binary_length(matches.field("head")))[kept]
        loggers = self.loggers(matches)
        return LineMatches(
            lines[kept],
            us[kept],
            has_time[kept],
            level[kept],
            loggers if len(kept) == len(lines) else loggers.take(pa.array(kept)),
            tail_at[kept] + heads,
        )


def joined_matches(matches: Sequence[LineMatches]) -> LineMatches:
    """The matches of several matchers for different lines of a block, in order. All of them have messages of their own, or none."""
    found = [each for each in matches if len(each.lines)]
    if len(found) < 2:
        return found[0] if found else NO_MATCHES
    order = np.argsort(np.concatenate([each.lines for each in found]), kind="stable")
    lines, us, has_time, level, message = (
        np.concatenate([getattr(each, name) for each in found])[order] for name in ("lines", "us", "has_time", "level", "message")
    )
    loggers = pa.concat_arrays([each.loggers for each in found]).take(pa.array(order))
    texts = [each.messages for each in found if each.messages is not None]
    messages = pa.concat_arrays(texts).take(pa.array(order)) if texts else None
    return LineMatches(lines, us, has_time, level, loggers, message, messages)


def taken(matches: LineMatches, places: Ints) -> LineMatches:
    """Some of the matches."""
    at, messages = pa.array(places), matches.messages
    return LineMatches(
        matches.lines[places],
        matches.us[places],
        matches.has_time[places],
        matches.level[places],
        matches.loggers.take(at),
        matches.message[places],
        None if messages is None else messages.take(at),
    )


class LineMatcher(Protocol):
    """Matches the lines of one format."""

    first: Bools
    """For each byte: whether a line that matches can begin with it."""

    def bound(self, time_parser: TimestampParser) -> BoundMatcher:
        """The matcher for one log."""


class FirstMatcher:
    """Matches lines by one matcher, those that it does not match by another one."""

    def __init__(self, one: LineMatcher, other: LineMatcher) -> None:
        self._one, self._other = one, other
        self.first = one.first | other.first

    def bound(self, time_parser: TimestampParser) -> BoundMatcher:
        """See ``LineMatcher``."""
        return partial(self._matches, self._one.bound(time_parser), self._other.bound(time_parser))

    def _matches(self, one: BoundMatcher, other: BoundMatcher, block: LineBlock, candidates: Ints) -> LineMatches:
        first_bytes = block.octets[block.starts[candidates]]
        found = one(block, candidates[self._one.first[first_bytes]])
        left = self._other.first[first_bytes]
        left[np.searchsorted(candidates, found.lines)] = False
        return joined_matches([found, other(block, candidates[left])])


class RestMatcher:
    """For what no other format parses: matches lines of which no ``looks`` is the beginning."""

    def __init__(self, rest: LineMatcher, looks: Sequence[str]) -> None:
        self._rest, self._looks = rest, looks
        self.first = rest.first

    def bound(self, time_parser: TimestampParser) -> BoundMatcher:
        """See ``LineMatcher``."""
        return partial(self._matches, self._rest.bound(time_parser))

    def _matches(self, rest: BoundMatcher, block: LineBlock, candidates: Ints) -> LineMatches:
        texts = spans(block.data, block.starts[candidates], block.ends[candidates])
        is_other = np.zeros(len(candidates), np.bool_)
        for look in self._looks:
            is_other |= np.asarray(pc.match_substring_regex(texts, look))
        return rest(block, candidates[~is_other])


class LevelMatcher:
    """Takes the levels of lines from their messages. Lines whose message has none do not match."""

    def __init__(self, matcher: LineMatcher, levels: MessageLevels) -> None:
        self._matcher, self._levels = matcher, levels
        self.first = matcher.first

    def bound(self, time_parser: TimestampParser) -> BoundMatcher:
        """See ``LineMatcher``."""
        return partial(self._matches, self._matcher.bound(time_parser))

    def _matches(self, matcher: BoundMatcher, block: LineBlock, candidates: Ints) -> LineMatches:
        found = matcher(block, candidates)
        texts = spans(block.data, found.message, block.ends[found.lines])
        level, left = np.full(len(texts), NO_LEVEL, np.int8), np.arange(len(texts))
        for pattern, name in self._levels:
            fits = np.asarray(pc.match_substring_regex(texts, pattern))
            level[left[fits]] = ORDER.index(name)
            left, texts = left[~fits], texts.filter(pa.array(~fits))
        return taken(replace(found, level=level), np.flatnonzero(level != NO_LEVEL))


class Head(NamedTuple):
    """The characters that each place before a time can have, and each place of one of its forms; the places of its digits, None: its texts are
    read one by one."""

    before: tuple[frozenset[int], ...]
    second: tuple[frozenset[int], ...]
    digits: Places | None


class Priority:
    """What precedes a time and has no fixed length: ``<38>``, of which the number is the level, then ``behind``. ``is_optional``: other lines
    begin with the time, and have no level."""

    def __init__(self, levels: Mapping[str, str], behind: bytes = b"", *, is_optional: bool = False) -> None:
        self._levels = np.full(10**_PRIORITY_DIGITS, NO_LEVEL, np.int8)
        self._levels[[int(number) for number in levels]] = [ORDER.index(level) for level in levels.values()]
        self._behind, self._is_optional = np.frombuffer(behind, np.uint8), is_optional

    def read(self, block: LineBlock, at: Ints) -> tuple[Ints, npt.NDArray[np.int8], Bools]:
        """The places behind the priorities at some places; the levels; and whether there is a time to be read."""
        is_open = block.octets[at] == _OPEN
        level, is_read = np.full(len(at), NO_LEVEL, np.int8), ~is_open & self._is_optional
        opened = np.flatnonzero(is_open)
        if not len(opened):
            return at, level, is_read
        begin = at[opened] + 1
        digits = block.windows(begin, _PRIORITY_DIGITS) - _ZERO
        is_digit = digits <= 9
        count = np.where(is_digit.all(axis=1), _PRIORITY_DIGITS, is_digit.argmin(axis=1))
        number = np.zeros(len(opened), np.int64)
        for place in range(_PRIORITY_DIGITS):
            number = np.where(place < count, number * 10 + digits[:, place], number)
        end = begin + count
        level[opened] = self._levels[number]
        is_known = (level[opened] != NO_LEVEL) & ((digits[:, 0] > 0) | (count == 1)) & (count > 0)
        is_known &= block.octets[end] == _CLOSE
        if len(self._behind):
            is_known &= (block.windows(end + 1, len(self._behind)) == self._behind).all(axis=1)
        is_read[opened] = is_known
        places = at.copy()
        places[opened] = end + 1 + len(self._behind)
        return places, level, is_read


class FixedMatcher:
    """For formats whose times have a fixed length: times are read from their places, and a pattern matches the rest of the head. Of several
    ``tails``, which are those of layouts, the first one that matches counts. ``first``: the characters with which a line can begin."""

    def __init__(
        self,
        heads: Sequence[Head],
        stamp: TimestampFormat,
        tails: Sequence[tuple[LineLayout, GroupPattern]],
        priority: Priority | None,
        first: frozenset[int],
    ) -> None:
        self._heads = [([_table_of(each) for each in (*head.before, *head.second)], head) for head in heads]
        self._stamp, self._priority = stamp, priority
        self._second = "^(?:" + "|".join(translated(stamp.pattern).patterns) + ")"
        self._tails = [(tail.patterns, _Columns(layout, tail)) for layout, tail in tails]
        self.first = _table_of(first)

    def bound(self, time_parser: TimestampParser) -> BoundMatcher:
        """See ``LineMatcher``."""
        return partial(self._matches, time_parser.zone, time_parser.reader(self._stamp))

    def _matches(self, zone: tzinfo, read: ReadTimestamp, block: LineBlock, candidates: Ints) -> LineMatches:
        at, level = block.starts[candidates], None
        if self._priority is not None:
            at, level, is_read = self._priority.read(block, at)
            if not is_read.all():
                candidates, at, level = candidates[is_read], at[is_read], level[is_read]
        matched: list[LineMatches] = []
        left = np.arange(len(candidates))
        for tables, head in self._heads:
            if not len(left):
                break
            heads = RepeatedTexts.of(block.windows(at[left], len(tables)))
            fits = _fits(tables, heads.runs)
            is_head = fits[heads.places]
            chosen, left = left[is_head], left[~is_head]
            if not len(chosen):
                continue
            places = (np.cumsum(fits) - 1)[heads.places[is_head]]
            seconds = RepeatedTexts(np.ascontiguousarray(heads.runs[fits][:, len(head.before) :]), places)
            times = self._times(block, head.digits, seconds, at[chosen] + len(tables), zone, read)
            matched += self._by_tails(block, candidates[chosen], times, None if level is None else level[chosen])
        return joined_matches(matched)

    def _times(
        self, block: LineBlock, digits: Places | None, seconds: RepeatedTexts, end: Ints, zone: tzinfo, read: ReadTimestamp
    ) -> ParsedTimes:
        if digits is not None:
            return parse_times(block, seconds, end, digits, zone)
        width = pa.binary(seconds.runs.shape[1])
        runs = pa.Array.from_buffers(width, len(seconds.runs), [None, pa.py_buffer(seconds.runs)])
        texts = runs.cast(pa.binary()).cast(pa.string())
        us, is_valid = _read_seconds(texts, pa.repeat("", len(texts)), read)
        is_second = np.asarray(pc.match_substring_regex(texts, self._second))
        times = complete_times(block, us[seconds.places], is_valid[seconds.places], end)
        return replace(times, is_sure=times.is_sure & is_second[seconds.places])

    def _by_tails(
        self, block: LineBlock, lines: Ints, times: ParsedTimes, level: npt.NDArray[np.int8] | None
    ) -> Iterator[LineMatches]:
        for patterns, columns in self._tails:
            groups = _extracted(texts_from(block, lines, times.end), patterns)
            found = columns.of(lines, groups, times.us, times.is_valid, times.end, times.is_sure, level)
            yield found
            if len(found.lines) == len(lines):
                return
            left = np.ones(len(lines), np.bool_)
            left[np.searchsorted(lines, found.lines)] = False
            lines, level = lines[left], None if level is None else level[left]
            times = ParsedTimes(times.end[left], times.us[left], times.is_valid[left], times.is_sure[left])


class PatternMatcher:
    """For other formats: one pattern matches the whole head. Each distinct second is parsed once by the row parser. Lines with what may be a
    zone behind the group ``stamp`` are left to the row parser."""

    def __init__(self, layout: LineLayout, pattern: GroupPattern) -> None:
        self._layout, self._pattern = layout, pattern
        self._columns = _Columns(layout, pattern)
        self.first = _table_of(pattern.first)

    def bound(self, time_parser: TimestampParser) -> BoundMatcher:
        """See ``LineMatcher``."""
        stamp = self._layout.stamp
        return partial(self._matches, time_parser.reader(stamp) if stamp else None)

    def _matches(self, read: ReadTimestamp | None, block: LineBlock, candidates: Ints) -> LineMatches:
        starts = block.starts[candidates]
        heads = _extracted(texts_from(block, candidates, starts), self._pattern.patterns)
        us, has_time = np.zeros(len(candidates), np.int64), np.zeros(len(candidates), np.bool_)
        is_sure: Bools | bool = True
        if "stamp" in self._pattern.groups:
            is_sure = ~begins_zone(block, starts + np.asarray(pc.fill_null(pc.binary_length(heads.field("stamp")), 0)))
        if read is not None:
            matched = np.flatnonzero(~np.asarray(heads.is_null()))
            us[matched], has_time[matched] = self._times(heads.take(pa.array(matched)), read)
        return self._columns.of(candidates, heads, us, has_time, starts, is_sure)

    def _times(self, heads: pa.StructArray, read: ReadTimestamp) -> tuple[Ints, Bools]:
        """Microseconds since the epoch, and whether the second is a valid one."""
        groups = self._pattern.groups
        texts = [heads.field(name) if name in groups else pa.repeat("", len(heads)) for name in ("second", "zone")]
        us, has_time = _read_seconds(texts[0], texts[1], read)
        if "fraction" in groups:
            digits = pc.utf8_slice_codeunits(pc.utf8_rpad(heads.field("fraction"), width=6, padding="0"), 0, 6)
            us += np.asarray(digits.cast(pa.int64()))
        return us, has_time


def read_iso(zone: tzinfo, texts: pa.StringArray) -> tuple[Ints, Bools]:
    """Microseconds since the epoch of the texts that are nothing but a time with digits in ISO's places, in UTC or with an offset, and whether they
    are such times. Others may be times, too."""
    block = LineBlock.of_texts(texts)
    us, is_time = np.zeros(len(block), np.int64), np.zeros(len(block), np.bool_)
    long = np.flatnonzero(block.ends - block.starts >= len(_ISO_PLACES))
    if not len(long):
        return us, is_time
    heads = RepeatedTexts.of(block.windows(block.starts[long], len(_ISO_PLACES)))
    fits = _fits(_ISO_PLACES, heads.runs)
    is_head = fits[heads.places]
    chosen = long[is_head]
    seconds = RepeatedTexts(heads.runs[fits], (np.cumsum(fits) - 1)[heads.places[is_head]])
    times = parse_times(block, seconds, block.starts[chosen] + len(_ISO_PLACES), ISO.placed[0][1], zone)
    last = block.octets[block.ends[chosen] - 1]
    is_numeric = _DIGITS[last] | (_ZULU[last] & _DIGITS[block.octets[block.ends[chosen] - 2]])
    us[chosen] = times.us
    is_time[chosen] = times.is_valid & times.is_sure & (times.end == block.ends[chosen]) & is_numeric
    return us, is_time


def _read_seconds(seconds: pa.StringArray, zones: pa.StringArray, read: ReadTimestamp) -> tuple[Ints, Bools]:
    """Microseconds since the epoch of seconds in zones, and whether they are valid."""
    (seconds, zones), places = _distinct([seconds, zones])
    us, is_valid = _read_hours(seconds, zones, read)
    others = np.flatnonzero(~is_valid)
    left = (each.take(pa.array(others)).to_pylist() for each in (seconds, zones))
    for at, text, zone in zip(others.tolist(), *left, strict=True):
        time = read(text, None, zone or None)
        us[at], is_valid[at] = time or 0, time is not None
    return us[places], is_valid[places]


def _read_hours(seconds: pa.StringArray, zones: pa.StringArray, read: ReadTimestamp) -> tuple[Ints, Bools]:
    """The same, of the seconds whose hour is a whole one: each distinct hour is read at its beginning and at its end."""
    us, is_valid = np.zeros(len(seconds), np.int64), np.zeros(len(seconds), np.bool_)
    clocks = pc.extract_regex(seconds, pattern=_CLOCK)
    known = np.flatnonzero(~np.asarray(clocks.is_null()))
    hour, minute, second, rest = (clocks.field(name).take(pa.array(known)) for name in ("hour", "minute", "second", "rest"))
    hours, places = _distinct([hour, rest, zones.take(pa.array(known))])
    rows = list(zip(*(column.to_pylist() for column in hours), strict=True))
    begins, lasts = (
        [read(f"{at}{time}{behind}", None, zone or None) for at, behind, zone in rows] for time in (":00:00", ":59:59")
    )
    is_even = [begin is not None and last == begin + _LAST_SECOND_US for begin, last in zip(begins, lasts, strict=True)]
    us[known] = np.array([begin or 0 for begin in begins], np.int64)[places]
    us[known] += (np.asarray(minute.cast(pa.int64())) * 60 + np.asarray(second.cast(pa.int64()))) * SECOND_US
    is_valid[known] = np.array(is_even, np.bool_)[places]
    return us, is_valid


def _distinct(columns: Sequence[pa.StringArray]) -> tuple[list[pa.StringArray], Ints]:
    """The distinct rows of some columns, as columns, and the place of each row among them."""
    encoded = [column.dictionary_encode() for column in columns]
    codes = np.zeros(len(columns[0]), np.int64)
    for values in encoded:
        codes = codes * max(len(values.dictionary), 1) + np.asarray(values.indices)
    _, first, places = np.unique(codes, return_index=True, return_inverse=True)
    return [column.take(pa.array(first)) for column in columns], places


def _fits(head: list[Bools], texts: Bytes) -> Bools:
    """Whether texts are what comes before a time, and the notation of its second."""
    fits = np.ones(len(texts), np.bool_)
    for place, allowed in enumerate(head):
        fits &= allowed[texts[:, place]]
    return fits


def _table_of(characters: frozenset[int]) -> Bools:
    table = np.zeros(256, np.bool_)
    table[list(characters - {FOREIGN})] = True
    table[FOREIGN:] = FOREIGN in characters
    return table


def texts_from(block: LineBlock, lines: Ints, at: Ints) -> pa.StringArray:
    """The texts of lines from some places on. Without carriage returns each text may go on to the next place, because patterns end at
    the end of a line: that saves a copy."""
    if block.ends_with_return.any():
        return spans(block.data, at, block.ends[lines])
    offsets = np.append(at, block.size).astype(np.int32)
    return pa.StringArray.from_buffers(len(at), pa.py_buffer(offsets), block.data)


def _extracted(texts: pa.StringArray, patterns: Sequence[str]) -> pa.StructArray:
    """The groups of each text by the first pattern that it matches; null for others."""
    groups = pc.extract_regex(texts, pattern=patterns[0])
    for pattern in patterns[1:]:
        if not groups.null_count:
            break
        other = np.flatnonzero(np.asarray(groups.is_null()))
        at = np.arange(len(texts))
        at[other] = np.arange(len(texts), len(texts) + len(other))
        groups = pa.concat_arrays([groups, pc.extract_regex(texts.take(pa.array(other)), pattern=pattern)]).take(pa.array(at))
    return groups


_ISO_PLACES = [_table_of(each) for each in fixed_places(ISO.placed[0][0])]
