"""Patterns of names: ``svc_sales.*``. A ``*`` matches any characters, dots and slashes included, or none; other characters match
themselves.

Matching is case-sensitive and linear in the length of the name for any pattern: the pieces between stars are searched from left to right,
each after the previous one, without backtracking.

ARNs of principals are matched part by part, since callers choose some of the parts: see ``matches_arn``.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

ANY = "*"
MAX_PATTERN_CHARS = 512
_ARN, _ASSUMED_ROLE = "arn:", ":assumed-role"
_PARTS_OF_A_ROLE = 2


def matches(pattern: str, name: str) -> bool:
    """Whether a pattern matches a name."""
    first, *pieces = pattern.split(ANY)
    if not pieces:
        return name == pattern
    last = pieces.pop()
    if len(name) < len(first) + len(last) or not name.startswith(first) or not name.endswith(last):
        return False
    at, end = len(first), len(name) - len(last)
    for piece in pieces:
        found = name.find(piece, at, end)
        if found < 0:
            return False
        at = found + len(piece)
    return True


def matches_principal(pattern: str, principal: str, *, is_signer: bool) -> bool:
    """Whether a pattern that grants matches a principal: a token's name, or with ``is_signer`` the ARN of a verified signature.

    Grants match by kind. A pattern that begins with ``arn:`` matches signers alone, any other one tokens alone, and no name of a token that
    spells an ARN. ``*`` matches every principal.
    """
    if pattern == ANY:
        return True
    if is_signer:
        return pattern.startswith(_ARN) and matches_arn(pattern, principal)
    return not principal.startswith(_ARN) and matches(pattern, principal)


def matches_arn(pattern: str, arn: str) -> bool:
    """Whether a pattern matches an ARN part by part: a ``*`` does not match slashes.

    The ARN of an assumed role, ``arn:aws:sts::ACCOUNT:assumed-role/ROLE/SESSION``, ends in a session name that the caller chooses. A pattern
    for a role, ``…:assumed-role/ROLE``, matches all its sessions, and no session name makes a role match as another one.
    """
    pattern_parts, parts = pattern.split("/"), arn.split("/")
    if parts[0].endswith(_ASSUMED_ROLE) and len(pattern_parts) == _PARTS_OF_A_ROLE:
        parts = parts[:_PARTS_OF_A_ROLE]
    return len(pattern_parts) == len(parts) and all(map(matches, pattern_parts, parts))


@dataclass(frozen=True, slots=True)
class Patterns:
    """The names that match any of ``patterns``."""

    patterns: tuple[str, ...] = ()

    @classmethod
    def parse(cls, value: object) -> Patterns:
        """Parses a pattern or a list of them. Malformed values match no name, so mistakes grant nothing."""
        listed = [value] if isinstance(value, str) else value
        if not isinstance(listed, list):
            return cls()
        return cls(tuple(each for each in listed if isinstance(each, str) and 0 < len(each) <= MAX_PATTERN_CHARS))

    def __contains__(self, name: str) -> bool:
        return any(matches(pattern, name) for pattern in self.patterns)

    def __or__(self, other: Patterns) -> Patterns:
        return Patterns(tuple(dict.fromkeys((*self.patterns, *other.patterns))))

    def __bool__(self) -> bool:
        return bool(self.patterns)

    @property
    def matches_all(self) -> bool:
        """Whether every name matches."""
        return ANY in self.patterns


def union(many: Iterable[Patterns]) -> Patterns:
    """Names that any of them matches."""
    found = Patterns()
    for each in many:
        found |= each
    return found
