"""Who asks."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from chalicelib.access.grants import Grants, Scope


class Kind(StrEnum):
    """How a principal showed who it is."""

    TOKEN = "jwt"
    IAM = "iam"
    NOBODY_ASKED = "none"


@dataclass(frozen=True, slots=True)
class Principal:
    """``name``: a token's ``sub``, or the ARN that signed. ``token_id``: the token's ``jti``, or the id of the access key; "" if it has none."""

    name: str
    kind: Kind
    grants: Grants
    token_id: str = ""

    def may(self, scope: Scope, name: str) -> bool:
        """Whether it was granted."""
        return name in self.grants[scope]

    def may_all(self, *scopes: Scope) -> bool:
        """Whether it was granted for whatever name."""
        return all(self.grants[scope].is_of_all for scope in scopes)

    def may_any(self, *scopes: Scope) -> bool:
        """Whether one of them was granted for some name."""
        return any(self.grants[scope] for scope in scopes)


ANYBODY = Principal("anybody", Kind.NOBODY_ASKED, Grants.of_all())
"""Where ``RUNLAKE_AUTH`` is ``none``."""
