"""A document that says what principals may do, for tokens that do not say it themselves, and for roles of IAM::

    {"principals": {
        "ingestion-bot":                                       {"logs:write": ["*"]},
        "arn:aws:sts::111122223333:assumed-role/sales-*":      {"logs:read": ["svc_sales.*"], "archive:read": ["sales-*"]}},
     "denied": {"subjects": ["former-bot"], "token_ids": ["7f3a..."]}}

Principals are patterns too; a principal that several of them match has the grants of all. ``denied`` is optional and prevails over every
grant, also those of tokens.
"""

from __future__ import annotations

import json
from dataclasses import dataclass

from chalicelib.access.grants import Grants, Scope
from chalicelib.access.patterns import ANY, MAX_PATTERN_CHARS, matches, matches_principal
from chalicelib.errors import IdentityUnavailableError

_KNOWN = frozenset(scope.value for scope in Scope)


@dataclass(frozen=True, slots=True)
class Policy:
    """Grants by pattern of principals. ``denied_subjects`` are patterns; ``denied_token_ids``: of tokens (``jti``), or of access keys."""

    principals: tuple[tuple[str, Grants], ...] = ()
    denied_subjects: tuple[str, ...] = ()
    denied_token_ids: frozenset[str] = frozenset()

    @classmethod
    def parse(cls, text: str) -> Policy:
        """All of it, or nothing: a scope that is written wrong is told. Raises IdentityUnavailableError."""
        try:
            document = json.loads(text)
            given = document["principals"]
            _check(document.keys() <= {"principals", "denied"} and isinstance(given, dict), "its keys are principals and denied")
            grants = tuple((pattern, _grants(pattern, granted)) for pattern, granted in given.items())
            return cls(grants, *_denied(document.get("denied", {})))
        except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
            raise IdentityUnavailableError(f"the policy cannot be read reason={str(error)[:200]!r}") from error

    def grants_of(self, principal: str) -> Grants:
        """What a principal is granted."""
        found = Grants()
        for pattern, grants in self.principals:
            if matches_principal(pattern, principal):
                found |= grants
        return found

    def denies(self, principal: str, token_id: str) -> bool:
        """Whether a principal, or the one token that it presents, is on the deny list. A pattern that could mean an ARN in either way of
        matching does."""
        if token_id and token_id in self.denied_token_ids:
            return True
        return any(matches_principal(pattern, principal) or matches(pattern, principal) for pattern in self.denied_subjects)


def _denied(given: object) -> tuple[tuple[str, ...], frozenset[str]]:
    if not isinstance(given, dict) or not given.keys() <= {"subjects", "token_ids"}:
        raise ValueError("denied is an object with lists: subjects, token_ids")
    for texts in given.values():
        _check(isinstance(texts, list) and all(_is_pattern(text) for text in texts), "subjects and token_ids are lists of texts")
    return tuple(given.get("subjects", ())), frozenset(given.get("token_ids", ()))


def _is_pattern(text: object) -> bool:
    return isinstance(text, str) and 0 < len(text) <= MAX_PATTERN_CHARS


def _grants(pattern: str, granted: object) -> Grants:
    _check(0 < len(pattern) <= MAX_PATTERN_CHARS, "a principal is empty or too long")
    if not isinstance(granted, dict):
        raise ValueError(f"a principal's grants are an object principal={pattern!r}")
    _check(granted.keys() <= _KNOWN, f"a scope is one of {', '.join(sorted(_KNOWN))} principal={pattern!r}")
    for names in granted.values():
        _check(
            isinstance(names, list) and all(_is_pattern(name) for name in names),
            f"names are a list of patterns, such as {ANY!r} principal={pattern!r}",
        )
    return Grants.read(granted)


def _check(holds: bool, otherwise: str) -> None:
    if not holds:
        raise ValueError(otherwise)
