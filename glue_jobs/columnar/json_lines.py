"""Matches lines of JSON objects by their shape: the names of an object in order, and the types of their values.

The lines of a log have few shapes. Each becomes one pattern, in which all values are texts without escapes, numbers, or literals. Other
objects, such as nested ones, are left to the row parser, whose functions also read each distinct time and level.
"""

from __future__ import annotations

import json
import re
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from chalicelib.lines.field_names import NAMES_OF_STREAMS, READINGS, Scale
from chalicelib.lines.fields import time_of, without_place, word_level
from chalicelib.lines.levels import ORDER
from chalicelib.lines.text import decode_line
from chalicelib.lines.timestamps import TimestampParser
from glue_jobs.columnar.blocks import Bools, Ints, LineBlock, bytes_among, spans
from glue_jobs.columnar.matching import NO_LEVEL, BoundMatcher, LineMatches, joined_matches, read_iso, texts_from
from glue_jobs.columnar.printed import PrintedTexts, with_printed

_MAX_SHAPES, _NEW_SHAPES, _FEW_LINES = 8, 4, 8
"""Shapes that are kept for a log, that a block can add, and lines that are too few for a pattern."""
_MAX_NAMES = 64
"""The row parser is faster for objects with more names: the cost of a pattern for a line grows with its length."""
_TEXT, _NUMBER, _LITERAL = (
    r'"({0}[^"\\\n]*)"',
    r"({0}-?(?:0|[1-9][0-9]{{0,39}})(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?)",  # Python refuses integers of thousands of digits
    "({0}true|false|null)",
)
_PRINTED = r'"({0}[^"\\\n]*)(?:\\n)?"'
"""A text that a program printed, without its newline."""
_NO_NAME = re.compile('["\\\\\n\ud800-\udfff]')
"""Names with these are escaped in the text. Lone surrogates are in no text of Arrow."""
_SPACE = "[ \\t]*"
_decode = json.JSONDecoder(strict=False, object_pairs_hook=tuple).raw_decode


@dataclass(frozen=True, slots=True)
class _Shape:
    """``pattern`` has a group for each named value. Groups of times; of levels that are words and of those that are numbers, with their functions,
    in order of precedence; of the logger and of the message, which are texts; None: there is none. ``level``: see ``Reading``."""

    pattern: str
    times: tuple[str, ...]
    words: tuple[str, ...]
    numbers: tuple[tuple[str, Scale], ...]
    logger: str | None
    message: str | None
    level: str | None
    texts: frozenset[str]
    is_printed: bool


class JsonMatcher:
    """Matches JSON lines. See ``matching.LineMatcher``. ``printed``: makes the matcher for the texts within records of a container's runtime;
    None: these are not matched."""

    first: Bools = bytes_among(b"{")

    def __init__(self, printed: Callable[[], PrintedTexts] | None = None) -> None:
        self._printed = printed

    def bound(self, time_parser: TimestampParser) -> BoundMatcher:
        """The matcher for one log, which remembers its shapes."""
        return partial(_matches, deque(maxlen=_MAX_SHAPES), time_parser, self._printed and self._printed())


def _matches(
    shapes: deque[_Shape], time_parser: TimestampParser, printed: PrintedTexts | None, block: LineBlock, candidates: Ints
) -> LineMatches:
    matched: list[LineMatches] = []
    for shape in tuple(shapes):
        candidates = _by_shape(shape, time_parser, printed, block, candidates, matched)
    for _ in range(_NEW_SHAPES):
        if len(candidates) < _FEW_LINES:
            break
        new = _shape_of(decode_line(block.line(int(candidates[0]))))
        if new is None or new in shapes or (new.is_printed and printed is None):
            candidates = candidates[1:]
        else:
            shapes.append(new)
            candidates = _by_shape(new, time_parser, printed, block, candidates, matched)
    return joined_matches(matched)


def _shape_of(text: str) -> _Shape | None:
    """The shape of an object without nested values; None for other texts, and for objects that are no log lines."""
    try:
        pairs, _ = _decode(text)
    except (ValueError, RecursionError):
        return None
    names = tuple(name for name, _ in pairs)
    if (
        not 0 < len(names) <= _MAX_NAMES
        or len(set(names)) < len(names)
        or _NO_NAME.search("".join(names))
        or any(isinstance(value, tuple | list) for _, value in pairs)
    ):
        return None
    groups = {name: f"v{number}" for number, name in enumerate(names)}
    texts = {name for name, value in pairs if isinstance(value, str)}
    reading = READINGS[names]
    logger, message = (next((name for name in known if name in texts), None) for known in (reading.loggers, reading.messages))
    stream = None
    if reading.printed:
        message, stream = reading.printed[0]
        if len(reading.printed) > 1 or not {message, stream} <= texts or reading.words or reading.numbers or reading.level:
            return None
    used = {*reading.times, *reading.words, *dict(reading.numbers), logger, message}
    if not used - {None} or reading.has_nanos:
        return None
    kinds = {name: f"?P<{group}>" if name in used else "?:" for name, group in groups.items()}
    values = {name: _value(value).format(kinds[name]) for name, value in pairs}
    if stream is not None and message is not None:
        values |= {message: _PRINTED.format(kinds[message]), stream: f'"(?:{"|".join(sorted(NAMES_OF_STREAMS))})"'}
    parts = (f'"{re.escape(name)}"{_SPACE}:{_SPACE}{values[name]}' for name in names)
    pattern = rf"^\{{{_SPACE}{f'{_SPACE},{_SPACE}'.join(parts)}{_SPACE}\}}{_SPACE}(?m:$)"
    return _Shape(
        pattern,
        tuple(groups[name] for name in reading.times),
        tuple(groups[name] for name in reading.words),
        tuple((groups[name], scale) for name, scale in reading.numbers),
        groups[logger] if logger else None,
        groups[message] if message else None,
        reading.level,
        frozenset(groups[name] for name in texts),
        stream is not None,
    )


def _value(value: Any) -> str:
    if isinstance(value, str):
        return _TEXT
    return _LITERAL if value is None or isinstance(value, bool) else _NUMBER


def _by_shape(
    shape: _Shape,
    time_parser: TimestampParser,
    printed: PrintedTexts | None,
    block: LineBlock,
    lines: Ints,
    matched: list[LineMatches],
) -> Ints:
    """Adds the columns of lines that have a shape to ``matched``; returns the other lines."""
    if len(lines) < _FEW_LINES:
        return lines
    groups = pc.extract_regex(texts_from(block, lines, block.starts[lines]), pattern=shape.pattern)
    fits = ~np.asarray(groups.is_null())
    if fits.any():
        found = _columns(shape, time_parser, block, lines[fits], groups.filter(pa.array(fits)))
        if shape.is_printed and printed is not None and found.messages is not None:
            found = with_printed(found, found.messages, printed)
            found = replace(found, loggers=_loggers(found.loggers))
        matched.append(found)
    others: Ints = lines[~fits]
    return others


def _columns(shape: _Shape, time_parser: TimestampParser, block: LineBlock, lines: Ints, groups: pa.StructArray) -> LineMatches:
    """The columns of lines with these groups, without lines that have neither time, level nor message."""
    times = [(group, partial(time_of, time_parser=time_parser)) for group in shape.times]
    us, has_time = _first(shape, groups, times, partial(read_iso, time_parser.zone))
    level, has_level = _levels(shape, groups, has_time)
    is_line = has_time | has_level | (shape.message is not None)
    taken, at = lines[is_line], pa.array(np.flatnonzero(is_line))
    messages = groups.field(shape.message).take(at) if shape.message else spans(block.data, block.starts[taken], block.ends[taken])
    loggers = _loggers(groups.field(shape.logger).take(at)) if shape.logger else pa.nulls(len(taken), pa.string())
    levels = np.where(has_level, level, NO_LEVEL)[is_line].astype(np.int8)
    return LineMatches(taken, us[is_line], has_time[is_line], levels, loggers, block.starts[taken], messages)


def _levels(shape: _Shape, groups: pa.StructArray, has_time: Bools) -> tuple[Ints, Bools]:
    """The numbers of the levels, and whether there is one."""
    level, has_level = _first(
        shape, groups, [(group, partial(_number, partial(word_level, has_letters=bool(shape.times)))) for group in shape.words]
    )
    for group, scale in shape.numbers:
        number, is_number = _first(shape, groups, [(group, partial(_number, scale.level))])
        is_new = is_number & ~has_level & (has_time | (not scale.is_timed))
        level[is_new] = number[is_new]
        has_level |= is_new
    if shape.level is not None:
        level[~has_level] = ORDER.index(shape.level)
        has_level[:] = True
    return level, has_level


def _first(
    shape: _Shape,
    groups: pa.StructArray,
    fields: Sequence[tuple[str, Callable[[Any], int | None]]],
    read_texts: Callable[[pa.StringArray], tuple[Ints, Bools]] | None = None,
) -> tuple[Ints, Bools]:
    """The first valid number of some fields, and whether there is one. Each distinct value is read once, most texts at once by ``read_texts``."""
    numbers, is_valid = np.zeros(len(groups), np.int64), np.zeros(len(groups), np.bool_)
    for group, read in fields:
        values = groups.field(group).dictionary_encode()
        count = len(values.dictionary)
        if read_texts is not None and group in shape.texts:
            number, is_number = read_texts(values.dictionary)
        else:
            number, is_number = np.zeros(count, np.int64), np.zeros(count, np.bool_)
        others = np.flatnonzero(~is_number)
        for at, text in zip(others.tolist(), values.dictionary.take(pa.array(others)).to_pylist(), strict=True):
            found = read(text if group in shape.texts else json.loads(text))
            number[at], is_number[at] = found or 0, found is not None
        place = np.asarray(values.indices)
        is_new = ~is_valid & is_number[place]
        numbers[is_new] = number[place][is_new]
        is_valid |= is_new
    return numbers, is_valid


def _number(level_of: Callable[[Any], str | None], value: Any) -> int | None:
    level = level_of(value)
    return None if level is None else ORDER.index(level)


def _loggers(texts: pa.StringArray) -> pa.StringArray:
    values = texts.dictionary_encode()
    return pa.array([without_place(text or None) for text in values.dictionary.to_pylist()], pa.string()).take(values.indices)
