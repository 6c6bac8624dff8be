"""Translates the patterns of line layouts into the syntax of RE2, in which Arrow matches many texts at once.

A translation matches the same texts with the same groups. RE2 has no possessive repetitions and no assertions: a possessive one becomes
a greedy one where no character that it could give back can begin what follows, so that it would never have given one back. Patterns for
which that cannot be shown are not translated.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from re import _constants as op  # type: ignore[attr-defined]
from re import _parser as parser  # type: ignore[attr-defined]
from typing import Any

FOREIGN = 128
"""Stands for all characters beyond ASCII in a set of characters: patterns do not distinguish them."""
_ALL = frozenset(range(FOREIGN + 1))
_SPACES, _DIGITS = frozenset(b" \t\n\r\f\v"), frozenset(b"0123456789")
_WORDS = frozenset(b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ_") | _DIGITS
_CATEGORIES = {
    op.CATEGORY_SPACE: _SPACES,
    op.CATEGORY_NOT_SPACE: _ALL - _SPACES,
    op.CATEGORY_DIGIT: _DIGITS,
    op.CATEGORY_NOT_DIGIT: _ALL - _DIGITS,
    op.CATEGORY_WORD: _WORDS,
    op.CATEGORY_NOT_WORD: _ALL - _WORDS,
}
_NEWLINE = 10
_PLACES = {op.AT_END: "(?m:$)", op.AT_BOUNDARY: r"\b"}
_REPEATS = (op.MAX_REPEAT, op.MIN_REPEAT, op.POSSESSIVE_REPEAT)


class UntranslatableError(Exception):
    """RE2 cannot express a pattern with the same results."""


@dataclass(frozen=True, slots=True)
class _After:
    """What follows a part of a pattern: the characters that can begin it, and whether it may be empty."""

    first: frozenset[int]
    may_be_empty: bool

    def behind(self, other: _After) -> _After:
        """What follows if ``other`` comes before this."""
        return _After(other.first | self.first, self.may_be_empty) if other.may_be_empty else other

    def or_again(self, first: frozenset[int], least: int, most: int) -> _After:
        """What follows each pass of a repetition before this: another pass, which begins with one of ``first``, or this."""
        return _After(first | self.first, self.may_be_empty and least < 2) if most > 1 else self


_END = _After(frozenset(), True)
_ANYTHING_FITS = _After(_ALL, False)
_NOTHING_FITS = _After(frozenset(), False)


@dataclass(frozen=True, slots=True)
class GroupPattern:
    """Patterns for RE2 that match at the start of a text, or of a line of it, in the group ``head``: the first one that matches counts.
    ``optional``: names of groups that need not take part in a match; they are empty then, and never else. ``first``: the characters with
    which a match can begin."""

    patterns: tuple[str, ...]
    groups: tuple[str, ...]
    optional: frozenset[str]
    first: frozenset[int]


def translated(pattern: str) -> GroupPattern:
    """The pattern for RE2. A line ends at a newline or at the end of the text. Raises UntranslatableError."""
    tree = _parsed(pattern)
    names = {number: name for name, number in tree.state.groupdict.items()}
    translation = _Translation(names)
    texts = tuple(f"^(?P<head>{translation.sequence(items, _END)})" for items in translation.choices(list(tree)))
    groups = tuple(name for number, name in sorted(names.items()))
    optional, first = frozenset(groups) - translation.certain(tree), translation.first_of(tree)
    if optional & translation.may_be_empty:
        raise UntranslatableError("an absent group looks like an empty one")
    return GroupPattern(texts, groups, optional, _ALL if first.may_be_empty else first.first)


def _has_groups(items: Any) -> bool:
    return any(
        (kind is op.SUBPATTERN and (value[0] is not None or _has_groups(value[3])))
        or (kind is op.BRANCH and any(map(_has_groups, value[1])))
        or (kind in _REPEATS and _has_groups(value[2]))
        for kind, value in items
    )


def fixed_places(pattern: str) -> tuple[frozenset[int], ...]:
    """The characters that each place of a matching text can have, for a pattern whose texts all have one length. Raises
    UntranslatableError for others."""
    return tuple(_places(_parsed(pattern)))


def _parsed(pattern: str) -> Any:
    return parser.parse(pattern, re.ASCII)


def _places(items: Any) -> Sequence[frozenset[int]]:
    places: list[frozenset[int]] = []
    for kind, value in items:
        if kind in _REPEATS and value[0] == value[1]:
            places += list(_places(value[2])) * value[0]
        else:
            characters = _characters(kind, value)
            if characters is None or FOREIGN in characters:
                raise UntranslatableError(f"a part without a fixed length, or with foreign characters: {kind}")
            places.append(characters)
    return places


def _characters(kind: Any, value: Any) -> frozenset[int] | None:
    """The characters that a part matches; None if it does not match exactly one."""
    if kind is op.ANY:
        return _ALL - {_NEWLINE}
    if kind is op.LITERAL:
        return frozenset({min(value, FOREIGN)})
    if kind is op.NOT_LITERAL:
        if value >= FOREIGN:
            raise UntranslatableError(f"a character beyond ASCII: {value}")
        return _ALL - {value}
    if kind is not op.IN:
        return None
    is_negated = bool(value) and value[0][0] is op.NEGATE
    members: frozenset[int] = frozenset().union(*map(_member, value[is_negated:]))
    return _ALL - members if is_negated else members


def _member(item: Any) -> frozenset[int]:
    kind, value = item
    if kind is op.CATEGORY and value in _CATEGORIES:
        return _CATEGORIES[value]
    if kind is op.RANGE and value[1] < FOREIGN:
        return frozenset(range(value[0], value[1] + 1))
    if kind is op.LITERAL and value < FOREIGN:
        return frozenset({value})
    raise UntranslatableError(f"a member of a set: {kind} {value}")


def _set(characters: frozenset[int]) -> str:
    """A set for RE2, never with the newline, which no line contains."""
    is_foreign = FOREIGN in characters
    members = (_ALL - characters if is_foreign else characters) - {_NEWLINE}
    text = "".join(f"\\x{member:02x}" for member in sorted(members))
    return f"[^\\n{text}]" if is_foreign else f"[{text}]"


class _Translation:
    """Translates one pattern, from its end on, since what follows decides."""

    def __init__(self, names: dict[int, str]) -> None:
        self._names = names
        self.may_be_empty: set[str] = set()

    def sequence(self, items: Any, after: _After) -> str:
        """Parts one after the other, before ``after``."""
        texts: list[str] = []
        for kind, value in reversed(list(items)):
            texts.append(self._part(kind, value, after))
            after = after.behind(self._first(kind, value))
        return "".join(reversed(texts))

    def choices(self, items: Sequence[Any]) -> Sequence[Sequence[Any]]:
        """A pattern as two, the first of which is tried first: without the optional part at its beginning that it prefers to leave out, or
        with fewer alternatives at its end. RE2 takes half the time for one-pass patterns."""
        for kind, value in items[:1]:
            if kind is op.MIN_REPEAT and value[:2] == (0, 1) and not _has_groups(value[2]):
                return [items[1:], [*value[2], *items[1:]]]
        for kind, value in items[-1:]:
            end = self.first_of(items[-1:])
            if kind is not op.BRANCH or end.may_be_empty or any(map(_has_groups, value[1])):
                continue
            if not self._is_one_pass(items[:-1], end) or self._is_one_pass(items, _END):
                continue
            for count in range(len(value[1]) - 1, 0, -1):
                fewer = [*items[:-1], (op.BRANCH, (None, value[1][:count]))]
                if self._is_one_pass(fewer, _END):
                    return [fewer, items]
        return [items]

    def _is_one_pass(self, items: Any, after: _After) -> bool:
        """Whether each character of a text that is followed by ``after`` determines the next step, so that there is one way to match it."""
        for kind, value in reversed(list(items)):
            if kind is op.BRANCH:
                firsts = [self.first_of(each) for each in value[1]]
                distinct = frozenset().union(*(each.first for each in firsts))
                if any(each.may_be_empty for each in firsts) or len(distinct) < sum(len(each.first) for each in firsts):
                    return False
                parts, behind = value[1], after
            elif kind in _REPEATS:
                first = self.first_of(value[2])
                if value[0] != value[1] and first.first & after.first:
                    return False
                parts, behind = [value[2]], after.or_again(first.first, *value[:2])
            else:
                parts, behind = ([value[3]] if kind is op.SUBPATTERN else []), after
            if not all(self._is_one_pass(part, behind) for part in parts):
                return False
            after = after.behind(self._first(kind, value))
        return True

    def certain(self, items: Any) -> set[str]:
        """The groups that take part in every match."""
        names: set[str] = set()
        for kind, value in items:
            if kind is op.SUBPATTERN:
                names |= self.certain(value[3]) | ({self._names[value[0]]} if value[0] in self._names else set())
            elif kind in _REPEATS and value[0] > 0:
                names |= self.certain(value[2])
        return names

    def _part(self, kind: Any, value: Any, after: _After) -> str:
        if kind is op.LITERAL and value >= FOREIGN:
            return f"\\x{{{value:x}}}"
        characters = _characters(kind, value)
        if characters is not None:
            if not characters:
                raise UntranslatableError("a set without characters")
            return _set(characters)
        if kind is op.AT and value in _PLACES:
            return _PLACES[value]
        if kind is op.BRANCH:
            return f"(?:{'|'.join(self.sequence(items, after) for items in value[1])})"
        if kind is op.SUBPATTERN:
            return self._group(value, after)
        if kind in _REPEATS:
            return self._repetition(kind, value, after)
        raise UntranslatableError(f"a part of a pattern: {kind}")

    def _group(self, value: Any, after: _After) -> str:
        number, added, removed, items = value
        if added or removed:
            raise UntranslatableError("flags within a pattern")
        text = self.sequence(items, after)
        if number not in self._names:
            return f"(?:{text})"
        if items.getwidth()[0] == 0:
            self.may_be_empty.add(self._names[number])
        return f"(?P<{self._names[number]}>{text})"

    def _repetition(self, kind: Any, value: Any, after: _After) -> str:
        least, most, items = value
        first = self.first_of(items)
        if kind is op.POSSESSIVE_REPEAT:
            characters = _characters(*items[0]) if len(items) == 1 else None
            if characters is None or not (after.may_be_empty or characters.isdisjoint(after.first)):
                raise UntranslatableError("a possessive repetition that could give back characters")
        elif first.may_be_empty:
            raise UntranslatableError("a repetition of what may be empty")
        bounds = f"{{{least},}}" if most is op.MAXREPEAT else f"{{{least},{most}}}"
        return f"(?:{self._pass(value, after, after.or_again(first.first, least, most))}){bounds}{'?' if kind is op.MIN_REPEAT else ''}"

    def _pass(self, repeated: Any, after: _After, again: _After) -> str:
        """One pass of a repetition, before ``again``, or before ``after`` if it is the last one. An alternative that is nothing but a possessive
        run may give back what only a pass of its own can take: the run goes on there."""
        least, most, items = repeated
        alternatives = items[0][1][1] if len(items) == 1 and items[0][0] is op.BRANCH else [items]
        firsts = [self.first_of(each).first for each in alternatives]
        is_any_number = least < 2 and most is op.MAXREPEAT
        if not is_any_number or _has_groups(items) or len(frozenset().union(*firsts)) < sum(map(len, firsts)):
            return self.sequence(items, again)
        texts = []
        for alternative, first in zip(alternatives, firsts, strict=True):
            is_run = len(alternative) == 1 and alternative[0][0] is op.POSSESSIVE_REPEAT
            behind = _After((again.first - first) | after.first, again.may_be_empty) if is_run else again
            text = self.sequence(alternative, behind)
            texts.append(self.sequence(alternative[0][1][2], behind) if is_run and alternative[0][1][0] == 1 else text)
        return "|".join(texts) if len(texts) == 1 else f"(?:{'|'.join(texts)})"

    def first_of(self, items: Any) -> _After:
        """What can begin a match of a part."""
        after = _END
        for kind, value in reversed(list(items)):
            after = after.behind(self._first(kind, value))
        return after

    def _first(self, kind: Any, value: Any) -> _After:
        characters = _characters(kind, value)
        if characters is not None:
            return _After(characters, False)
        if kind is op.BRANCH:
            branches = [self.first_of(items) for items in value[1]]
            return _After(frozenset().union(*(each.first for each in branches)), any(each.may_be_empty for each in branches))
        if kind is op.SUBPATTERN:
            return self.first_of(value[3])
        if kind in _REPEATS:
            first = self.first_of(value[2])
            return _After(first.first, first.may_be_empty or value[0] == 0)
        if kind is op.AT and value is op.AT_END:
            return _NOTHING_FITS
        if kind is op.AT and value is op.AT_BOUNDARY:
            return _ANYTHING_FITS
        raise UntranslatableError(f"a part of a pattern: {kind}")
