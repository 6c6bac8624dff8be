"""Matches the lines of a block against one format: level, logger, time and the place of the message, of all matching lines at once.

Made from the layout by which the row parser reads the format. Only matches are final: the row parser decides about all other lines.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import tzinfo
from functools import cache

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from chalicelib.lines.formats import LogFormat
from chalicelib.lines.layout import LineLayout
from chalicelib.lines.levels import LEVELS, ORDER
from chalicelib.lines.timestamps import Places
from glue_jobs.columnar.blocks import Bools, Ints, LineBlock, spans
from glue_jobs.columnar.patterns import GroupPattern, UntranslatableError, fixed_places, translated
from glue_jobs.columnar.timestamps import parse_times

_BEFORE_TRACES = frozenset(b"[0123456789")
"""No line that begins with one of these can be the exception of a stack trace."""
NO_LEVEL = len(ORDER)
"""The number of lines without a level; other levels have their place in ``ORDER``."""


@dataclass(frozen=True, slots=True)
class LineMatches:
    """Matching lines, ascending by number ``lines`` in the block, and their columns. ``message``: the place at which it begins.
    ``us`` counts where ``has_time``; ``loggers``: texts, null where a line has none."""

    lines: Ints
    us: Ints
    has_time: Bools
    level: npt.NDArray[np.int8]
    loggers: pa.StringArray
    message: Ints


NO_MATCHES = LineMatches(
    np.empty(0, np.int64),
    np.empty(0, np.int64),
    np.empty(0, np.bool_),
    np.empty(0, np.int8),
    pa.nulls(0, pa.string()),
    np.empty(0, np.int64),
)


class LineMatcher:
    """Matches the lines of one format."""

    def __init__(self, head: tuple[frozenset[int], ...], places: Places, layout: LineLayout, tail: GroupPattern) -> None:
        self._head = [_table_of(characters) for characters in head]
        self._places, self._tail = places, tail
        levels = LEVELS if layout.levels is None else layout.levels
        self._words = pa.array(levels)
        self._numbers = np.array([ORDER.index(level) for level in levels.values()], np.int8)

    @property
    def first(self) -> Bools:
        """For each byte: whether a line that matches can begin with it."""
        return self._head[0]

    def matches(self, block: LineBlock, candidates: Ints, zone: tzinfo) -> LineMatches:
        """The matching ones of some lines of a block."""
        lines = candidates[self._has_time(block, block.starts[candidates])]
        width = self._places[-1][1]
        times = parse_times(block, block.starts[lines] + (len(self._head) - width), width, self._places, zone)
        tails = _extracted(_tails(block, lines, times.end), self._tail.patterns)
        is_match = times.is_sure & ~np.asarray(tails.is_null())
        level, has_level = self._levels(tails)
        is_match &= has_level
        kept = np.flatnonzero(is_match)
        heads = np.asarray(pc.binary_length(tails.field("head")))[kept]
        loggers = self._loggers(tails)
        return LineMatches(
            lines[kept],
            times.us[kept],
            times.is_valid[kept],
            level[kept],
            loggers if len(kept) == len(lines) else loggers.take(pa.array(kept)),
            times.end[kept] + heads,
        )

    def _has_time(self, block: LineBlock, at: Ints) -> Bools:
        """Whether lines begin with what comes before a time, and the notation of its second."""
        text = block.windows(at, len(self._head))
        fits = np.ones(len(at), np.bool_)
        for place, allowed in enumerate(self._head):
            fits &= allowed[text[:, place]]
        return fits

    def _levels(self, tails: pa.StructArray) -> tuple[npt.NDArray[np.int8], Bools]:
        """Numbers of levels, and whether lines with a level have a known one."""
        if "level" not in self._tail.groups:
            return np.full(len(tails), NO_LEVEL, np.int8), np.ones(len(tails), np.bool_)
        words = tails.field("level")
        found = np.asarray(pc.fill_null(pc.index_in(words, value_set=self._words), -1))
        level = np.where(found < 0, NO_LEVEL, self._numbers[found]).astype(np.int8)
        is_absent = np.asarray(pc.equal(pc.binary_length(words), 0)) if "level" in self._tail.optional else False
        return level, (found >= 0) | is_absent

    def _loggers(self, tails: pa.StructArray) -> pa.StringArray:
        if "logger" not in self._tail.groups:
            return pa.nulls(len(tails), pa.string())
        texts = tails.field("logger")
        if "logger" not in self._tail.optional:
            return texts
        return pc.if_else(pc.equal(pc.binary_length(texts), 0), pa.scalar(None, pa.string()), texts)


def _table_of(characters: frozenset[int]) -> Bools:
    table = np.zeros(256, np.bool_)
    table[list(characters)] = True
    return table


def _tails(block: LineBlock, lines: Ints, at: Ints) -> pa.StringArray:
    """The texts of lines behind their times. Without carriage returns each text may go on to the next time, because patterns end at
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


@cache
def matcher_of(format: LogFormat) -> LineMatcher | None:
    """The matcher of a format; None: only the row parser reads it."""
    layout = format.layout
    if (
        layout is None
        or layout.around is None
        or layout.refine
        or format.rest
        or layout.stamp is None
        or layout.stamp.places is None
    ):
        return None
    before, tail = layout.around
    try:
        places, pattern = fixed_places(before + layout.stamp.pattern), translated(tail)
    except UntranslatableError:
        return None
    is_clear = not pattern.optional & pattern.may_be_empty  # else an absent group looks like an empty one
    return LineMatcher(places, layout.stamp.places, layout, pattern) if is_clear and places[0] <= _BEFORE_TRACES else None
