"""The allowlist of modules that a pipeline's file may name, and the resolution of a name to an object without calling anything.

The author of a pipeline's file names classes that the pipelines' function imports and calls with arguments of the file. So the
operator lists modules (``RUNLAKE_PIPELINE_MODULES``), and a name resolves to an object of a listed module or not at all:

- a module is imported only if it is listed: importing runs its code;
- no attribute that is itself a module is followed (``logging.os.system``), nor one that begins with an underscore;
- in the default modules, names resolve to handlers, formatters, filters and constants; in modules that the operator added, to anything
  that is defined in the module's own package, but not to what it imported from other packages.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from logging import Filter, Formatter, Handler
from pkgutil import resolve_name
from types import ModuleType
from typing import Any

from chalicelib.errors import InvalidConfigurationError

VARIABLE = "RUNLAKE_PIPELINE_MODULES"
DEFAULT_MODULES = ("logging", "logging.handlers", "chalicelib.*")
"""``package.*`` is a package with all its modules; any other entry is one module."""
_STREAMS = frozenset({"sys.stdout", "sys.stderr"})
_ENTRY = re.compile(r"[A-Za-z_][A-Za-z0-9_]*(\.[A-Za-z_][A-Za-z0-9_]*)*(\.\*)?")
_EXTERNAL = "ext://"
_MAX_NAME_CHARS = 500
_CONSTANTS = (str, bytes, int, float, tuple, frozenset, Enum, type(None))


@dataclass(frozen=True, slots=True)
class AllowedModules:
    """The default modules, and the ``added`` ones."""

    added: tuple[str, ...] = ()

    @classmethod
    def read(cls, text: str | None) -> AllowedModules:
        """Parse the setting: comma-separated entries. Raises InvalidConfigurationError."""
        entries = tuple(entry.strip() for entry in (text or "").split(",") if entry.strip())
        if wrong := next((entry for entry in entries if not _ENTRY.fullmatch(entry)), None):
            raise InvalidConfigurationError(f"an entry must be a module, or a package followed by .* {VARIABLE}={wrong[:100]!r}")
        return cls(entries)

    @property
    def listed(self) -> list[str]:
        """The modules and packages that a file may name."""
        return [entry.removesuffix(".*") for entry in (*DEFAULT_MODULES, *self.added)]

    def missing(self, names: Sequence[str]) -> list[str]:
        """The modules of these names that are not listed. Imports nothing."""
        return sorted({name.rpartition(".")[0] or name for name in names if not self._modules_of(name)})

    def is_added(self, name: str) -> bool:
        """Whether an added module may define this name: its import would run the operator's code."""
        beginnings = _beginnings(name)
        return any(_stands_for(entry, module) for entry in self.added for module in beginnings)

    def setting_with(self, missing: Sequence[str]) -> str:
        """The setting with these modules added."""
        return f"{VARIABLE}={','.join(dict.fromkeys((*self.added, *missing)))}"

    def resolve(self, name: str) -> Any:
        """The object of a dotted name. Imports listed modules and calls nothing. Raises InvalidConfigurationError, and any error
        of the module's import."""
        if name in _STREAMS:
            return getattr(sys, name.partition(".")[2])
        for module in self._modules_of(name):
            try:
                imported = resolve_name(f"{module}:")  # imports the module only
            except ModuleNotFoundError as error:
                if error.name and (module == error.name or module.startswith(f"{error.name}.")):
                    continue  # it may be a class: try a shorter name
                raise
            return self._attribute(imported, name.removeprefix(f"{module}.").split("."), name)
        if missing := self.missing([name]):
            raise InvalidConfigurationError(f"the module is not listed name={name[:200]!r}: set {self.setting_with(missing)}")
        raise InvalidConfigurationError(f"no such module name={name[:200]!r}")

    def _attribute(self, module: ModuleType, attributes: Sequence[str], name: str) -> Any:
        value: Any = module
        for attribute in attributes:
            value = None if attribute.startswith("_") else getattr(value, attribute, None)
            if value is None or isinstance(value, ModuleType):
                raise InvalidConfigurationError(f"the module has no such class name={name[:200]!r}")
        if isinstance(value, _CONSTANTS) or self._is_logging_class(value) or self._is_defined_in(module, value):
            return value
        raise InvalidConfigurationError(
            f"neither a handler, formatter or filter, nor defined in an added module's package name={name[:200]!r}"
        )

    def _is_logging_class(self, value: object) -> bool:
        """Whether a value is a handler, formatter or filter class that a listed module or package defines."""
        is_kind = isinstance(value, type) and issubclass(value, Handler | Formatter | Filter)
        return is_kind and self._is_package_listed(getattr(value, "__module__", ""), (*DEFAULT_MODULES, *self.added))

    def _is_defined_in(self, module: ModuleType, value: object) -> bool:
        if not any(_stands_for(entry, module.__name__) for entry in self.added):
            return False
        defined = getattr(value, "__module__", None) if hasattr(value, "__qualname__") else module.__name__
        return isinstance(defined, str) and self._is_package_listed(defined, self.added)

    @staticmethod
    def _is_package_listed(module: str, entries: Sequence[str]) -> bool:
        return module.partition(".")[0] in {entry.partition(".")[0] for entry in entries}

    def _modules_of(self, name: str) -> list[str]:
        """The prefixes of a name that are listed modules, longest first."""
        if name in _STREAMS:
            return ["sys"]
        if len(name) > _MAX_NAME_CHARS:
            return []
        return [
            module for module in _beginnings(name) if any(_stands_for(each, module) for each in (*DEFAULT_MODULES, *self.added))
        ]


DEFAULTS_ONLY = AllowedModules()


def _beginnings(name: str) -> list[str]:
    """The prefixes of a name that may be modules, longest first."""
    parts = name.split(".")
    return [".".join(parts[:count]) for count in range(len(parts) - 1, 0, -1)]


def _stands_for(entry: str, module: str) -> bool:
    package = entry.removesuffix(".*")
    return module == package or (entry.endswith(".*") and module.startswith(f"{package}."))


def names_in(definition: Mapping[str, Any]) -> Iterator[str]:
    """The dotted names that ``logging.config`` would resolve in the definition of a handler, formatter or filter."""
    for key in ("()", "class"):
        if isinstance(name := definition.get(key), str):
            yield name.removeprefix(_EXTERNAL)
    yield from _external_names({key: value for key, value in definition.items() if key not in ("()", "class")})


def _external_names(value: Any) -> Iterator[str]:
    """The names after ``ext://`` in a value, at any depth."""
    if isinstance(value, str):
        if value.startswith(_EXTERNAL):
            yield value.removeprefix(_EXTERNAL)
    elif isinstance(value, Mapping):
        for each in value.values():
            yield from _external_names(each)
    elif isinstance(value, list | tuple):
        for each in value:
            yield from _external_names(each)
