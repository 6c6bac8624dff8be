"""Patterns of names: ``svc_sales.*``. A ``*`` stands for any letters, none too, dots and slashes among them; all else for itself.

Case matters. Matching takes a time that is linear in the name, whatever the pattern: pieces between stars are looked for from left to
right, each behind the one before, and never again.

ARNs of principals are matched part by part, since a caller chooses some of their parts: see ``matches_principal``.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

ANY = "*"
MAX_PATTERN_CHARS = 512
_ARN, _ASSUMED_ROLE = "arn:", ":assumed-role"
_PARTS_OF_A_ROLE = 2


def matches(pattern: str, name: str) -> bool:
    """Whether a pattern stands for a name."""
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


def matches_principal(pattern: str, principal: str) -> bool:
    """Whether a policy's pattern stands for a principal: a token's ``sub``, or an ARN.

    In an ARN a ``*`` ends at the next slash. The ARN of an assumed role, ``arn:aws:sts::ACCOUNT:assumed-role/ROLE/SESSION``, ends in a
    name that whoever assumes the role chooses. A pattern of a role, ``…:assumed-role/ROLE``, means every session of it, and no session name
    makes a role another one. ``*`` alone is everybody."""
    if pattern == ANY or not principal.startswith(_ARN):
        return matches(pattern, principal)
    wanted, parts = pattern.split("/"), principal.split("/")
    if parts[0].endswith(_ASSUMED_ROLE) and len(wanted) == _PARTS_OF_A_ROLE:
        parts = parts[:_PARTS_OF_A_ROLE]
    return len(wanted) == len(parts) and all(map(matches, wanted, parts))


@dataclass(frozen=True, slots=True)
class Patterns:
    """Names that any of some patterns stands for."""

    of: tuple[str, ...] = ()

    @classmethod
    def read(cls, given: object) -> Patterns:
        """A pattern, or a list of them. Whatever is none stands for no name: what is written wrong grants nothing."""
        listed = [given] if isinstance(given, str) else given
        if not isinstance(listed, list):
            return cls()
        return cls(tuple(each for each in listed if isinstance(each, str) and 0 < len(each) <= MAX_PATTERN_CHARS))

    def __contains__(self, name: str) -> bool:
        return any(matches(pattern, name) for pattern in self.of)

    def __or__(self, other: Patterns) -> Patterns:
        return Patterns(tuple(dict.fromkeys((*self.of, *other.of))))

    def __bool__(self) -> bool:
        return bool(self.of)

    @property
    def is_of_all(self) -> bool:
        """Whether every name is among them."""
        return ANY in self.of


def union(many: Iterable[Patterns]) -> Patterns:
    """Names of any of them."""
    found = Patterns()
    for each in many:
        found |= each
    return found
