"""Settings: arguments, then ``RUNLAKE_*`` of the environment, then the file, then defaults."""

from __future__ import annotations

import os
import tempfile
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from runlake.errors import SettingsError
from runlake.tokens import Token, token_from

PREFIX = "RUNLAKE_"
_SECRET = frozenset({"token"})


@dataclass(frozen=True, slots=True)
class Settings:
    """What the client needs to know. Each field is a key of the file and, in capitals with ``RUNLAKE_``, of the environment."""

    url: str = field(default="", metadata={"help": "the stack's address, as https://logs.example.com/api"})
    token: str = field(default="", metadata={"help": "a bearer token"})
    token_file: str = field(default="", metadata={"help": "a file that holds the token; read again when the token is refused"})
    token_command: str = field(default="", metadata={"help": "a command that prints the token; run again when it is refused"})
    timeout_s: float = field(default=30.0, metadata={"help": "seconds for an answer to begin"})
    spool_dir: str = field(
        default="", metadata={"help": "where lines wait on disk; empty: runlake-spool-UID of the temporary files"}
    )
    spool_bytes: int = field(default=256 * 1024 * 1024, metadata={"help": "bytes that may wait on disk for each run; 0: none"})
    memory_bytes: int = field(default=8 * 1024 * 1024, metadata={"help": "bytes that may wait in memory for each run"})
    batch_bytes: int = field(default=1024 * 1024, metadata={"help": "bytes that are sent at once, at most, but for a longer line"})
    interval_s: float = field(default=0.5, metadata={"help": "seconds a line may wait for others to be sent with"})
    exit_s: float = field(default=10.0, metadata={"help": "seconds an exiting program waits for its lines to be stored"})
    origins: Mapping[str, str] = field(default_factory=dict, metadata={"help": ""})

    @property
    def bearer(self) -> Token:
        """The token, from the most specific origin."""
        return token_from(self.token, self.token_file, self.token_command)

    @property
    def spool_root(self) -> Path:
        """The folder below which each run has its own."""
        if self.spool_dir:
            return Path(self.spool_dir).expanduser()
        return Path(tempfile.gettempdir()) / f"runlake-spool-{os.getuid()}"

    def required_url(self) -> str:
        """The address without a slash at its end. Raises SettingsError when there is none, or it is not a URL of HTTP."""
        if not self.url:
            raise SettingsError(f"the server's address is missing: give --url, RUNLAKE_URL, or url in {settings_path()}")
        if problem := _problem_of(self.url):
            raise SettingsError(f"the server's address {problem}: write it as https://logs.example.com/api url={self.url!r}")
        return self.url.rstrip("/")

    def shown(self) -> dict[str, Any]:
        """Names and values for people to see: secrets are not among them."""
        return {name: ("(set)" if name in _SECRET and getattr(self, name) else getattr(self, name)) for name in NAMES}


NAMES = tuple(each.name for each in fields(Settings) if each.name != "origins")
_TYPES: dict[str, type[Any]] = {each.name: type(each.default) for each in fields(Settings) if each.name != "origins"}


def help_of(name: str) -> str:
    """What a setting means."""
    return next(str(each.metadata["help"]) for each in fields(Settings) if each.name == name)


def settings_path(environ: Mapping[str, str] = os.environ) -> Path:
    """The settings' file: ``RUNLAKE_CONFIG``, or ``runlake/config.toml`` where configuration lives."""
    if named := environ.get(PREFIX + "CONFIG"):
        return Path(named)
    home = environ.get("XDG_CONFIG_HOME") or Path.home() / ".config"
    return Path(home) / "runlake" / "config.toml"


def load_settings(arguments: Mapping[str, Any] | None = None, environ: Mapping[str, str] = os.environ) -> Settings:
    """The settings in force. Arguments that are None count as not given. Raises SettingsError."""
    path = settings_path(environ)
    layers = [
        ("argument", {name: value for name, value in (arguments or {}).items() if value is not None}),
        ("environment", {name: environ[PREFIX + name.upper()] for name in NAMES if environ.get(PREFIX + name.upper())}),
        (str(path), _of_file(path)),
    ]
    _let_a_token_hide_the_others(layers)
    values: dict[str, Any] = {}
    origins: dict[str, str] = {}
    for origin, layer in layers:
        for name, value in layer.items():
            if name not in values:
                values[name], origins[name] = _typed(name, value, origin), origin
    return Settings(**values, origins=origins)


def _let_a_token_hide_the_others(layers: list[tuple[str, dict[str, Any]]]) -> None:
    """A token's file as an argument wins over a token's value in the environment: they are one setting in three forms."""
    forms = {"token", "token_file", "token_command"}
    seen = False
    for _, layer in layers:
        given = forms & layer.keys()
        if seen:
            for name in given:
                del layer[name]
        seen = seen or bool(given)


def _of_file(path: Path) -> dict[str, Any]:
    try:
        found = tomllib.loads(path.read_text())
    except FileNotFoundError:
        return {}
    except (OSError, ValueError) as error:
        raise SettingsError(f"the settings cannot be read path={path} reason={error}") from error
    if unknown := sorted(found.keys() - set(NAMES)):
        raise SettingsError(f"there is no such setting: {', '.join(unknown)} path={path}")
    return found


def _problem_of(url: str) -> str:
    """Why a text is no base address; empty for one that is."""
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError as error:
        return f"is not a URL ({error})"
    if parts.scheme not in ("http", "https") or "://" not in url:
        return "has no scheme http:// or https://"
    if not parts.hostname or port == 0 or not url.isprintable() or " " in url:
        return "has no valid host and port"
    return "has a query or a fragment" if parts.query or parts.fragment else ""


def _typed(name: str, value: Any, origin: str) -> Any:
    try:
        return _TYPES[name](value)
    except (TypeError, ValueError) as error:
        raise SettingsError(f"{name} is {_TYPES[name].__name__}, not {value!r} origin={origin}") from error
