"""A document that says what principals may do, for tokens that do not say it themselves, and for roles of IAM::

    {"principals": {
        "ingestion-bot":                                       {"logs:write": ["*"]},
        "arn:aws:sts::111122223333:assumed-role/sales-*":      {"logs:read": ["svc_sales.*"], "archive:read": ["sales-*"]}}}

Principals are patterns too; whoever several of them mean has what any of them grants. There is no way to forbid: leave it out.
"""

from __future__ import annotations

import json
from dataclasses import dataclass

from chalicelib.access.grants import Grants, Scope
from chalicelib.access.patterns import ANY, MAX_PATTERN_CHARS, matches
from chalicelib.errors import IdentityUnavailableError

_KNOWN = frozenset(scope.value for scope in Scope)


@dataclass(frozen=True, slots=True)
class Policy:
    """Grants by pattern of principals."""

    principals: tuple[tuple[str, Grants], ...] = ()

    @classmethod
    def parse(cls, text: str) -> Policy:
        """All of it, or nothing: a scope that is written wrong is told. Raises IdentityUnavailableError."""
        try:
            document = json.loads(text)
            given = document["principals"]
            _check(document.keys() == {"principals"} and isinstance(given, dict), "it is an object with the key principals alone")
            return cls(tuple((pattern, _grants(pattern, granted)) for pattern, granted in given.items()))
        except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
            raise IdentityUnavailableError(f"the policy cannot be read reason={str(error)[:200]!r}") from error

    def grants_of(self, principal: str) -> Grants:
        """What a principal is granted."""
        found = Grants()
        for pattern, grants in self.principals:
            if matches(pattern, principal):
                found |= grants
        return found


def _grants(pattern: str, granted: object) -> Grants:
    _check(0 < len(pattern) <= MAX_PATTERN_CHARS, "a principal is empty or too long")
    if not isinstance(granted, dict):
        raise ValueError(f"a principal's grants are an object principal={pattern!r}")
    _check(granted.keys() <= _KNOWN, f"a scope is one of {', '.join(sorted(_KNOWN))} principal={pattern!r}")
    for names in granted.values():
        _check(
            isinstance(names, list) and all(isinstance(name, str) and 0 < len(name) <= MAX_PATTERN_CHARS for name in names),
            f"names are a list of patterns, such as {ANY!r} principal={pattern!r}",
        )
    return Grants.read(granted)


def _check(holds: bool, otherwise: str) -> None:
    if not holds:
        raise ValueError(otherwise)
