"""The names, lines and times that a read selects, from the options and from the filters that Spark pushes down.

A selection only excludes rows that cannot match. Spark applies its filters to the rows again.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from functools import cached_property
from typing import Any

from pyspark.sql.datasource import (
    EqualNullSafe,
    EqualTo,
    Filter,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    LessThan,
    LessThanOrEqual,
    StringStartsWith,
)

from chalicelib.errors import InvalidConfigurationError
from chalicelib.ports import Run
from glue_jobs.datasource.options import Options, level_named

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_ONE_US = timedelta(microseconds=1)
_PIECE = re.compile(r"\\.|\*|\?|[^\\*?]+|\\$", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Pattern:
    """A name pattern: ``*`` matches any characters, ``?`` one, and a backslash escapes the next character."""

    text: str

    @property
    def literal(self) -> str:
        """The prefix of all matching names."""
        literal = ""
        for piece in _PIECE.findall(self.text):
            if piece in ("*", "?"):
                break
            literal += _plain(piece)
        return literal

    @property
    def name(self) -> str | None:
        """The only matching name, if there is one."""
        is_exact = not any(piece in ("*", "?") for piece in _PIECE.findall(self.text))
        return self.literal if is_exact else None

    def expression(self) -> str:
        """The equivalent regular expression."""
        return "".join(
            ".*" if piece == "*" else "." if piece == "?" else re.escape(_plain(piece)) for piece in _PIECE.findall(self.text)
        )


def _plain(piece: str) -> str:
    return piece[1:] if len(piece) == 2 and piece[0] == "\\" else piece


@dataclass(frozen=True)
class Names:
    """Names that match any of ``patterns`` (empty: all), are in ``among`` (None: all) and begin with each of ``prefixes``."""

    patterns: tuple[Pattern, ...] = ()
    among: frozenset[str] | None = None
    prefixes: tuple[str, ...] = ()

    @cached_property
    def exact(self) -> frozenset[str] | None:
        """All names that can match, if they are known."""
        names = [pattern.name for pattern in self.patterns]
        known = None if not names or None in names else frozenset(name for name in names if name is not None)
        candidates = self.among if known is None else known if self.among is None else self.among & known
        return None if candidates is None else frozenset(name for name in candidates if name in self)

    @cached_property
    def prefix(self) -> str:
        """A prefix of all matching names."""
        literals = [pattern.literal for pattern in self.patterns]
        shared = _shared_prefix(literals) if literals else ""
        return max((shared, *self.prefixes), key=len)

    def __contains__(self, name: str) -> bool:
        if self.among is not None and name not in self.among:
            return False
        return all(map(name.startswith, self.prefixes)) and self._matches(name)

    def only(self, names: Iterable[str]) -> Names:
        """Narrowed to these names."""
        allowed = frozenset(names)
        return replace(self, among=allowed if self.among is None else self.among & allowed)

    def starting(self, prefix: str) -> Names:
        """Narrowed to names with this prefix."""
        return replace(self, prefixes=(*self.prefixes, prefix))

    @cached_property
    def _expression(self) -> re.Pattern[str] | None:
        return re.compile("|".join(f"(?:{each.expression()})" for each in self.patterns), re.DOTALL) if self.patterns else None

    def _matches(self, name: str) -> bool:
        return self._expression is None or self._expression.fullmatch(name) is not None


@dataclass(frozen=True)
class Selection:
    """Lines [``first_line``, ``end_line``), times [``from_us``, ``to_us``); None: no bound. With a time bound, events without a
    time are excluded. ``levels``: selected levels, named as in ``lines.levels``; None: any, or none."""

    fqns: Names = Names()
    run_ids: Names = Names()
    first_line: int = 0
    end_line: int | None = None
    from_us: int | None = None
    to_us: int | None = None
    levels: frozenset[str] | None = None

    def wants(self, run: Run) -> bool:
        """Whether the run's names match."""
        return run.fqn in self.fqns and run.run_id in self.run_ids

    @property
    def is_empty(self) -> bool:
        """Whether no row can match."""
        lines = self.end_line is not None and self.end_line <= self.first_line
        times = self.from_us is not None and self.to_us is not None and self.to_us <= self.from_us
        return lines or times or self.levels == frozenset() or self.fqns.exact == frozenset() or self.run_ids.exact == frozenset()

    @property
    def bounds_time(self) -> bool:
        """Whether times are bounded."""
        return self.from_us is not None or self.to_us is not None

    @property
    def bounds_lines(self) -> bool:
        """Whether lines are bounded."""
        return self.first_line > 0 or self.end_line is not None

    def lines(self, first: int | None = None, end: int | None = None) -> Selection:
        """Narrowed to lines."""
        ends = [each for each in (self.end_line, end) if each is not None]
        return replace(self, first_line=max(self.first_line, first or 0), end_line=min(ends, default=None))

    def of_levels(self, levels: frozenset[str]) -> Selection:
        """Narrowed to levels."""
        return replace(self, levels=levels if self.levels is None else self.levels & levels)

    def times(self, from_us: int | None = None, to_us: int | None = None) -> Selection:
        """Narrowed to times."""
        starts = [each for each in (self.from_us, from_us) if each is not None]
        ends = [each for each in (self.to_us, to_us) if each is not None]
        return replace(self, from_us=max(starts, default=None), to_us=min(ends, default=None))


def selection_of(options: Options) -> Selection:
    """The selection of the options."""
    fqns, runs = (Names(tuple(map(Pattern, names))) for names in (options.fqn, options.run))
    return Selection(fqns, runs, from_us=options.from_us, to_us=options.to_us, levels=options.levels or None)


def narrowed(selection: Selection, filters: Iterable[Filter]) -> Selection:
    """The selection narrowed by all filters; unusable ones are left to Spark. Raises InvalidConfigurationError for an unknown
    level."""
    for each in filters:
        attribute: tuple[str, ...] = getattr(each, "attribute", ())
        column = ".".join(attribute)
        if column == "fqn":
            selection = replace(selection, fqns=_narrowed_names(selection.fqns, each))
        elif column == "run_id":
            selection = replace(selection, run_ids=_narrowed_names(selection.run_ids, each))
        elif column == "line":
            selection = _narrowed_lines(selection, each)
        elif column == "timestamp":
            selection = _narrowed_times(selection, each)
        elif (names := level_names(each)) is not None:
            selection = selection.of_levels(frozenset(map(_level, names)))
    return selection


def level_names(condition: Filter) -> list[str] | None:
    """The levels of a filter on levels, as spelled; None for other filters. The read applies these itself: a level has several
    names, and rows have one of them."""
    if getattr(condition, "attribute", ()) != ("level",) or not isinstance(condition, EqualTo | EqualNullSafe | In):
        return None
    values = condition.value if isinstance(condition, In) else (condition.value,)
    names = [value for value in values if isinstance(value, str)]
    return names if len(names) == len(values) else None


def _level(name: str) -> str:
    """Raises InvalidConfigurationError."""
    try:
        return level_named(name)
    except ValueError as error:
        raise InvalidConfigurationError(f"invalid filter: it {error}") from None


def _narrowed_names(names: Names, condition: Filter) -> Names:
    if isinstance(condition, EqualTo | EqualNullSafe) and isinstance(condition.value, str):
        return names.only([condition.value])
    if isinstance(condition, In):
        return names.only(value for value in condition.value if isinstance(value, str))
    if isinstance(condition, StringStartsWith):
        return names.starting(condition.value)
    return names


def _narrowed_lines(selection: Selection, condition: Filter) -> Selection:
    bounds = _bounds(condition, _integer)
    return selection if bounds is None else selection.lines(*bounds)


def _narrowed_times(selection: Selection, condition: Filter) -> Selection:
    bounds = _bounds(condition, _microseconds)
    return selection if bounds is None else selection.times(*bounds)


def _bounds(condition: Filter, number: Any) -> tuple[int | None, int | None] | None:
    """[first, end) of the integers that satisfy a comparison."""
    if isinstance(condition, In):
        values = [number(value) for value in condition.value if value is not None]
        return (min(values), max(values) + 1) if values and None not in values else None
    value = number(getattr(condition, "value", None))
    if value is None:
        return None
    if isinstance(condition, EqualTo | EqualNullSafe):
        return value, value + 1
    if isinstance(condition, GreaterThan | GreaterThanOrEqual):
        return value + isinstance(condition, GreaterThan), None
    if isinstance(condition, LessThan | LessThanOrEqual):
        return None, value + isinstance(condition, LessThanOrEqual)
    return None


def _integer(value: Any) -> int | None:
    return value if type(value) is int else None


def _microseconds(value: Any) -> int | None:
    if not isinstance(value, datetime) or value.tzinfo is None:
        return None
    return (value - _EPOCH) // _ONE_US


def _shared_prefix(texts: list[str]) -> str:
    first, last = min(texts), max(texts)
    for index, letter in enumerate(first):
        if index >= len(last) or last[index] != letter:
            return first[:index]
    return first
