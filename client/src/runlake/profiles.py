"""The settings file: settings at its top level, and ``[profiles.NAME]``, which holds those of one server."""

from __future__ import annotations

import stat
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from runlake._python import read_toml
from runlake.errors import SettingsError

TOKEN_FORMS = ("token", "token_file", "token_command")
"""Settings that count as one."""
_OF_AN_ADDRESS = (*TOKEN_FORMS, "auth", "page_url")
"""Settings that belong to the ``url`` with which they stand."""
_DEFAULT, _PROFILES = "default_profile", "profiles"
METHOD_TABLES = ("methods", "locators")
"""Tables of the top level, or of a profile."""


@dataclass(frozen=True)
class SettingsFile:
    """The parsed file; empty if there is none. ``default``: the profile to use if none is chosen, or ""."""

    path: Path
    values: Mapping[str, Any] = field(default_factory=dict)
    profiles: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    default: str = ""

    def profile(self, name: str) -> dict[str, Any]:
        """The settings of a profile. Raises SettingsError, with the names that exist."""
        if name in self.profiles:
            return dict(self.profiles[name])
        there_are = f"the profiles are: {', '.join(sorted(self.profiles))}" if self.profiles else "the file has no profiles"
        raise SettingsError(
            f"there is no profile {name!r}: {there_are} path={self.path}",
            next_step=f"choose another with --profile or RUNLAKE_PROFILE, or add [profiles.{name}] to {self.path}",
        )

    def inherited(self, profile: Mapping[str, Any]) -> dict[str, Any]:
        """The top level as a profile inherits it: a profile with a server of its own does not send it the token of another."""
        return without_address(self.values) if "url" in profile else dict(self.values)

    def is_exposed(self) -> bool:
        """Whether the file holds a token, or options of logging methods, and other users can read it."""
        if not any({"token", "methods"} & each.keys() for each in (self.values, *self.profiles.values())):
            return False
        with suppress(OSError):
            return bool(self.path.stat().st_mode & (stat.S_IRGRP | stat.S_IROTH))
        return False


@dataclass(frozen=True)
class MethodTables:
    """``[methods.NAME]``, the options of logging methods, and ``[[locators]]``, which choose one: pairs of ``pattern`` and ``method``."""

    methods: Mapping[str, Mapping[str, Any]]
    locators: tuple[tuple[str, str], ...]

    @classmethod
    def pop_from(cls, path: Path, *layers: dict[str, Any]) -> MethodTables:
        """Removes the tables from the layers; those of the first layer that has them count. Raises SettingsError."""
        methods, locators = [[layer.pop(name) for layer in layers if name in layer][:1] for name in METHOD_TABLES]
        for each in methods:
            if not isinstance(each, dict) or not all(isinstance(options, dict) for options in each.values()):
                raise SettingsError(f"methods must be tables, as [methods.target] path={path}", next_step=correction_of(path))
        for each in locators:
            if not isinstance(each, list) or not all(map(_is_locator, each)):
                problem = f"locators must be tables [[locators]] with pattern and method path={path}"
                raise SettingsError(problem, next_step=correction_of(path))
        pairs = ((each["pattern"], each["method"]) for each in (locators[0] if locators else ()))
        return cls(methods[0] if methods else {}, tuple(pairs))


def _is_locator(table: object) -> bool:
    if not isinstance(table, dict) or table.keys() != {"pattern", "method"}:
        return False
    return all(isinstance(value, str) and value for value in table.values()) and not table["pattern"].startswith("!")


def without_address(layer: Mapping[str, Any]) -> dict[str, Any]:
    """Settings without those that belong to one ``url``."""
    return {name: value for name, value in layer.items() if name not in _OF_AN_ADDRESS}


def without_token(layer: Mapping[str, Any]) -> dict[str, Any]:
    """Settings without a token in any of its forms."""
    return {name: value for name, value in layer.items() if name not in TOKEN_FORMS}


def read_settings_file(path: Path, *, must_exist: bool) -> SettingsFile:
    """The file at ``path``. Raises SettingsError if it is missing although it ``must_exist``, unreadable, or not of this form."""
    try:
        values = read_toml(path.read_text())
    except (OSError, ValueError) as error:
        if isinstance(error, FileNotFoundError) and not must_exist:
            return SettingsFile(path)
        reason = error.strerror if isinstance(error, OSError) else error
        raise SettingsError(f"the settings cannot be read path={path} reason={reason}", next_step=correction_of(path)) from error
    profiles, default = values.pop(_PROFILES, {}), values.pop(_DEFAULT, "")
    if not isinstance(profiles, dict) or not all(isinstance(each, dict) for each in profiles.values()):
        raise SettingsError(f"profiles must be tables, as [profiles.test] path={path}", next_step=correction_of(path))
    if not isinstance(default, str):
        raise SettingsError(f"{_DEFAULT} must be the name of a profile, not {default!r} path={path}", next_step=correction_of(path))
    return SettingsFile(path, values, profiles, default)


def correction_of(path: object) -> str:
    """What to do about a mistake in the file."""
    return f"correct {path}, or name another file with RUNLAKE_CONFIG"
