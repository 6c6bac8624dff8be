"""The policy: grants of principals whose tokens carry no grants, and of IAM roles::

    {"principals": {
        "ingestion-bot":                                       {"logs:write": ["*"]},
        "arn:aws:sts::111122223333:assumed-role/sales-*":      {"logs:read": ["svc_sales.*"], "archive:read": ["sales-*"]}},
     "groups": {"people:oncall": {"logs:read": ["*"]}},
     "denied": {"subjects": ["former-bot"], "token_ids": ["7f3a..."]}}

Principals and groups are patterns; a principal that several patterns match has the grants of all of them. ``groups`` and ``denied`` are
optional; ``denied`` overrides all grants, those of tokens included.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass

from chalicelib.access.grants import Grants, Scope
from chalicelib.access.patterns import ANY, MAX_PATTERN_CHARS, matches, matches_arn, matches_principal
from chalicelib.errors import IdentityUnavailableError

_KNOWN = frozenset(scope.value for scope in Scope)
_ROLE = re.compile(r"(arn:[^:]*:)iam(:[^:]*:[^:]*:)role/(?:.*/)?([^/]+)", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Policy:
    """Grants by pattern of principals. ``denied_subjects`` are patterns; ``denied_token_ids`` are ids of tokens (``jti``) or access
    keys."""

    principals: tuple[tuple[str, Grants], ...] = ()
    groups: tuple[tuple[str, Grants], ...] = ()
    denied_subjects: tuple[str, ...] = ()
    denied_token_ids: frozenset[str] = frozenset()

    @classmethod
    def parse(cls, text: str) -> Policy:
        """Parses the complete document, or raises IdentityUnavailableError with the reason, for example an unknown scope."""
        try:
            document = json.loads(text)
            _check(document.keys() <= {"principals", "groups", "denied"}, "its keys are principals, groups and denied")
            principals, groups = _granted(document["principals"]), _granted(document.get("groups", {}))
            return cls(principals, groups, *_denied(document.get("denied", {})))
        except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
            raise IdentityUnavailableError(f"the policy cannot be read reason={str(error)[:200]!r}") from error

    def grants_of(self, principal: str, *, is_signer: bool) -> Grants:
        """The union of all grants for a principal: a token's name, or the ARN of a signer."""
        merged = Grants()
        for pattern, grants in self.principals:
            if matches_principal(pattern, principal, is_signer=is_signer):
                merged |= grants
        return merged

    def grants_of_groups(self, groups: Sequence[str]) -> Grants:
        """The union of all grants for any of the groups."""
        merged = Grants()
        for pattern, grants in self.groups:
            if any(matches(pattern, group) for group in groups):
                merged |= grants
        return merged

    def denies(self, principal: str, token_id: str) -> bool:
        """Whether a principal or its token is on the deny list. A pattern denies every name that it matches in either way: part by part
        as an ARN, or as plain text."""
        if token_id and token_id in self.denied_token_ids:
            return True
        return any(matches_arn(pattern, principal) or matches(pattern, principal) for pattern in self.denied_subjects)


def _granted(entries: object) -> tuple[tuple[str, Grants], ...]:
    if not isinstance(entries, dict):
        raise ValueError("principals and groups must be objects")
    return tuple((pattern, _grants(pattern, granted)) for pattern, granted in entries.items())


def _denied(denied: object) -> tuple[tuple[str, ...], frozenset[str]]:
    if not isinstance(denied, dict) or not denied.keys() <= {"subjects", "token_ids"}:
        raise ValueError("denied must be an object with the lists subjects and token_ids")
    for texts in denied.values():
        _check(
            isinstance(texts, list) and all(_is_pattern(text) for text in texts), "subjects and token_ids must be lists of strings"
        )
    subjects = denied.get("subjects", ())
    return (*subjects, *filter(None, map(_sessions_of_role, subjects))), frozenset(denied.get("token_ids", ()))


def _sessions_of_role(pattern: str) -> str:
    """The pattern for the sessions of a role, which alone sign, if a pattern names the role itself as IAM does, maybe with a path; else ""."""
    named = _ROLE.fullmatch(pattern)
    return f"{named[1]}sts{named[2]}assumed-role/{named[3]}" if named else ""


def _is_pattern(text: object) -> bool:
    return isinstance(text, str) and 0 < len(text) <= MAX_PATTERN_CHARS


def _grants(pattern: str, granted: object) -> Grants:
    _check(0 < len(pattern) <= MAX_PATTERN_CHARS, "a principal or group is empty or too long")
    if not isinstance(granted, dict):
        raise ValueError(f"a principal's grants must be an object principal={pattern!r}")
    _check(granted.keys() <= _KNOWN, f"a scope must be one of {', '.join(sorted(_KNOWN))} principal={pattern!r}")
    for names in granted.values():
        _check(
            isinstance(names, list) and all(_is_pattern(name) for name in names),
            f"names must be a list of patterns, such as {ANY!r} principal={pattern!r}",
        )
    return Grants.parse(granted)


def _check(holds: bool, otherwise: str) -> None:
    if not holds:
        raise ValueError(otherwise)
