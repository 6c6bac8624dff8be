"""``cfg://`` references of a pipeline's file, resolved as ``logging.config`` does, without building anything.

``logging.config`` resolves a reference when a value is used, so handlers get what they refer to. The schema of a file needs some of
these values before anything is built: the handlers of loggers, the keys of files, the addresses of targets.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from logging.config import BaseConfigurator
from typing import Any, TypeVar

from chalicelib.errors import InvalidConfigurationError

_REFERENCE = re.compile(r"cfg://\s*(\w+)")
T = TypeVar("T")
MAX_RESOLVED_VALUES = 20_000
MAX_RESOLVED_CHARS = 256 * 1024
MAX_RESOLVED_DEPTH = 50
"""Of a value with its references: they repeat values as the aliases of YAML do, so the limits of a file apply to both."""


def referenced_keys(value: Any) -> Iterator[str]:
    """The top-level keys that the references in a value begin with."""
    if isinstance(value, str):
        if match := _REFERENCE.match(value):
            yield match[1]
    elif isinstance(value, Mapping):
        for each in value.values():
            yield from referenced_keys(each)
    elif isinstance(value, list):
        for each in value:
            yield from referenced_keys(each)


def plain(value: Any) -> Any:
    """A plain copy of an argument that ``logging.config`` gave to a handler. Copying such a dictionary in another way, ``{**value}``
    too, copies its references unresolved."""
    if isinstance(value, dict):
        return {key: plain(value[key]) for key in value}
    if isinstance(value, list):
        return [plain(value[at]) for at in range(len(value))]
    return value


class References(BaseConfigurator):
    """The references into one document, the ``logging`` section of a file. The document is not changed."""

    def __init__(self, document: Mapping[str, Any]) -> None:
        super().__init__(dict(document))

    def ext_convert(self, value: str) -> str:
        """Leaves names after ``ext://`` as they are: resolving one imports its module."""
        return f"ext://{value}"

    def resolved(self, value: Any) -> Any:
        """A plain copy of a value, with what its references refer to. Raises InvalidConfigurationError for a reference that leads nowhere
        or to itself, or to more than the limits above."""
        return self._or_error(lambda: _Copy(self).of(value, 0))

    def values_of(self, logger: Mapping[str, Any]) -> Mapping[str, Any]:
        """The values of a logger, with what they refer to; ``logging.config`` takes the items of their lists as they are. Raises as
        ``resolved``."""
        return self._or_error(lambda: {name: self.convert(value) for name, value in logger.items()})

    def definitions(self, section: Any) -> Any:
        """A section whose definitions may be references, or that is one itself. Raises as ``resolved``."""
        found = self.resolved(section) if isinstance(section, str) else section
        if not isinstance(found, dict):
            return found
        return {name: self.resolved(each) if isinstance(each, str) else each for name, each in found.items()}

    @staticmethod
    def _or_error(resolve: Callable[[], T]) -> T:
        try:
            return resolve()
        except (ValueError, TypeError, LookupError, RecursionError) as error:
            raise InvalidConfigurationError(f"a reference cannot be resolved: {type(error).__name__}: {str(error)[:200]}") from None


class _Copy:
    """One copy of a value, within the limits."""

    def __init__(self, references: References) -> None:
        self._references = references
        self._values = self._chars = 0

    def of(self, value: Any, depth: int) -> Any:
        value = self._references.convert(value)
        self._values += 1
        self._chars += len(value) if isinstance(value, str) else 0
        if depth > MAX_RESOLVED_DEPTH or self._values > MAX_RESOLVED_VALUES or self._chars > MAX_RESOLVED_CHARS:
            raise ValueError("the references expand to too much")
        if isinstance(value, dict):
            return {key: self.of(value[key], depth + 1) for key in value}
        if isinstance(value, list):
            return [self.of(value[at], depth + 1) for at in range(len(value))]
        return value
