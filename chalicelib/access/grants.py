"""Grants of a principal: scopes, each with the names that it covers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from chalicelib.access.patterns import ANY, Patterns


class Scope(StrEnum):
    """Permissions. None implies another. Names are FQNs; for ``archive:…`` they are the ``what`` of files."""

    LOGS_WRITE = "logs:write"
    LOGS_READ = "logs:read"
    LOGS_DELETE = "logs:delete"
    ARCHIVE_WRITE = "archive:write"
    ARCHIVE_READ = "archive:read"
    ADMIN = "admin"


@dataclass(frozen=True, slots=True)
class Grants:
    """Names by scope. A missing scope is not granted."""

    names: Mapping[Scope, Patterns] = field(default_factory=dict)

    @classmethod
    def of_all(cls) -> Grants:
        """All scopes on all names."""
        return cls({scope: Patterns((ANY,)) for scope in Scope})

    @classmethod
    def parse(cls, value: object, prefix: str = "") -> Grants:
        """Parses a claim or a policy's entry: ``{"logs:read": ["svc_sales.*"]}``, or ``"logs:read logs:write"`` (or a list of the
        two), which means all names. There each scope begins with ``prefix``. Unknown scopes and malformed values grant nothing."""
        if isinstance(value, str):
            return cls._of_scopes(value.split(), prefix)
        if isinstance(value, list):
            return cls._of_scopes(value, prefix)
        if not isinstance(value, Mapping):
            return cls()
        return cls({scope: names for scope in Scope if (names := Patterns.parse(value.get(scope.value)))})

    @classmethod
    def _of_scopes(cls, value: list[object] | list[str], prefix: str) -> Grants:
        return cls({scope: Patterns((ANY,)) for scope in Scope if prefix + scope.value in value})

    def __or__(self, other: Grants) -> Grants:
        return Grants({scope: names for scope in Scope if (names := self[scope] | other[scope])})

    def __getitem__(self, scope: Scope) -> Patterns:
        return self.names.get(scope, Patterns())
