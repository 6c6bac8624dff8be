"""What a principal may do: scopes, each with the names that it holds for."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from chalicelib.access.patterns import ANY, Patterns


class Scope(StrEnum):
    """What can be granted. None brings another with it. Names are FQNs; of ``archive:…`` they are the file's ``what``."""

    LOGS_WRITE = "logs:write"
    LOGS_READ = "logs:read"
    ARCHIVE_WRITE = "archive:write"
    ARCHIVE_READ = "archive:read"
    ADMIN = "admin"


@dataclass(frozen=True, slots=True)
class Grants:
    """Names by scope. What is not there is not granted."""

    names: Mapping[Scope, Patterns] = field(default_factory=dict)

    @classmethod
    def of_all(cls) -> Grants:
        """Everything."""
        return cls({scope: Patterns((ANY,)) for scope in Scope})

    @classmethod
    def read(cls, given: object) -> Grants:
        """From a claim or a policy: ``{"logs:read": ["svc_sales.*"]}``, or ``"logs:read logs:write"`` (or a list of the two), which means
        all names. A scope that is not known, or whatever is written wrong, grants nothing."""
        if isinstance(given, str):
            return cls._of_scopes(given.split())
        if isinstance(given, list):
            return cls._of_scopes(given)
        if not isinstance(given, Mapping):
            return cls()
        return cls({scope: names for scope in Scope if (names := Patterns.read(given.get(scope.value)))})

    @classmethod
    def _of_scopes(cls, given: list[object] | list[str]) -> Grants:
        return cls({scope: Patterns((ANY,)) for scope in Scope if scope.value in given})

    def __or__(self, other: Grants) -> Grants:
        return Grants({scope: names for scope in Scope if (names := self[scope] | other[scope])})

    def __getitem__(self, scope: Scope) -> Patterns:
        return self.names.get(scope, Patterns())
