"""Matches the lines of a block against one format: level, logger, time and the place of the message, of all matching lines at once.

Made from the layout by which the row parser reads the format. Only matches are final: the row parser decides about all other lines.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import tzinfo
from functools import partial
from typing import Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from chalicelib.lines.layout import LineLayout
from chalicelib.lines.levels import LEVELS, ORDER
from chalicelib.lines.timestamps import Places, ReadTimestamp, TimestampParser
from glue_jobs.columnar.blocks import Bools, Bytes, Ints, LineBlock, spans
from glue_jobs.columnar.patterns import FOREIGN, GroupPattern
from glue_jobs.columnar.timestamps import RepeatedTexts, parse_times

NO_LEVEL = len(ORDER)
"""The number of lines without a level; other levels have their place in ``ORDER``."""


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
        self, lines: Ints, matches: pa.StructArray, us: Ints, has_time: Bools, tail_at: Ints, is_sure: Bools | bool = True
    ) -> LineMatches:
        """The lines with a match and a known level. ``tail_at``: the places from which the patterns match."""
        is_match = is_sure & ~np.asarray(matches.is_null())
        level, has_level = self.levels(matches)
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


class LineMatcher(Protocol):
    """Matches the lines of one format."""

    first: Bools
    """For each byte: whether a line that matches can begin with it."""

    def bound(self, time_parser: TimestampParser) -> BoundMatcher:
        """The matcher for one log."""


class FixedMatcher:
    """For formats whose times are digits in fixed places: times are read from these, and a pattern matches the rest of the head."""

    def __init__(self, head: tuple[frozenset[int], ...], places: Places, layout: LineLayout, tail: GroupPattern) -> None:
        self._head = [_table_of(characters) for characters in head]
        self._places, self._tail = places, tail
        self._columns = _Columns(layout, tail)
        self.first = self._head[0]

    def bound(self, time_parser: TimestampParser) -> BoundMatcher:
        """See ``LineMatcher``."""
        return partial(self._matches, time_parser.zone)

    def _matches(self, zone: tzinfo, block: LineBlock, candidates: Ints) -> LineMatches:
        starts = block.starts[candidates]
        heads = RepeatedTexts.of(block.windows(starts, len(self._head)))
        fits = self._fits(heads.runs)
        if not fits.all():
            is_head = fits[heads.places]
            candidates, starts = candidates[is_head], starts[is_head]
            heads = RepeatedTexts(heads.runs, heads.places[is_head])
        seconds = RepeatedTexts(heads.runs[:, len(self._head) - self._places[-1][1] :], heads.places)
        times = parse_times(block, seconds, starts + len(self._head), self._places, zone)
        tails = _extracted(texts_from(block, candidates, times.end), self._tail.patterns)
        return self._columns.of(candidates, tails, times.us, times.is_valid, times.end, times.is_sure)

    def _fits(self, heads: Bytes) -> Bools:
        """Whether texts are what comes before a time, and the notation of its second."""
        fits = np.ones(len(heads), np.bool_)
        for place, allowed in enumerate(self._head):
            fits &= allowed[heads[:, place]]
        return fits


class PatternMatcher:
    """For other formats: one pattern matches the whole head. Each distinct second is parsed once by the row parser."""

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
        if read is not None:
            matched = np.flatnonzero(~np.asarray(heads.is_null()))
            us[matched], has_time[matched] = self._times(heads.take(pa.array(matched)), read)
        return self._columns.of(candidates, heads, us, has_time, starts)

    def _times(self, heads: pa.StructArray, read: ReadTimestamp) -> tuple[Ints, Bools]:
        """Microseconds since the epoch, and whether the second is a valid one."""
        groups = self._pattern.groups
        texts = [heads.field(name) if name in groups else pa.repeat("", len(heads)) for name in ("second", "zone")]
        seconds, zones = (text.dictionary_encode() for text in texts)
        codes = np.asarray(seconds.indices).astype(np.int64) * max(len(zones.dictionary), 1) + np.asarray(zones.indices)
        distinct, places = np.unique(codes, return_inverse=True)
        second_of, zone_of = seconds.dictionary.to_pylist(), zones.dictionary.to_pylist()
        read_us = [read(second_of[code // len(zone_of)], None, zone_of[code % len(zone_of)] or None) for code in distinct.tolist()]
        us = np.array([time or 0 for time in read_us], np.int64)[places]
        if "fraction" in groups:
            digits = pc.utf8_slice_codeunits(pc.utf8_rpad(heads.field("fraction"), width=6, padding="0"), 0, 6)
            us += np.asarray(digits.cast(pa.int64()))
        return us, np.array([time is not None for time in read_us], np.bool_)[places]


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
