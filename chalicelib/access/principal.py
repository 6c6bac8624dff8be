"""Authenticated principals."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from chalicelib.access.grants import Grants, Scope


class Kind(StrEnum):
    """How a principal was authenticated."""

    TOKEN = "jwt"
    IAM = "iam"
    ANONYMOUS = "none"


@dataclass(frozen=True, slots=True)
class Principal:
    """``name``: a token's ``sub``, or the ARN of the signer. ``token_id``: the token's ``jti``, or the id of the access key; empty if
    there is none."""

    name: str
    kind: Kind
    grants: Grants
    token_id: str = ""

    def may(self, scope: Scope, name: str) -> bool:
        """Whether the scope is granted for this name."""
        return name in self.grants[scope]

    def may_all(self, *scopes: Scope) -> bool:
        """Whether all scopes are granted for all names."""
        return all(self.grants[scope].matches_all for scope in scopes)

    def may_any(self, *scopes: Scope) -> bool:
        """Whether any of the scopes is granted for any name."""
        return any(self.grants[scope] for scope in scopes)


ANONYMOUS = Principal("anybody", Kind.ANONYMOUS, Grants.of_all())
"""The principal of all requests if ``RUNLAKE_AUTH`` is ``none``."""
