"""Settings, in order of precedence: arguments, ``RUNLAKE_*`` environment variables, the file's profile, its top level, defaults."""

from __future__ import annotations

import math
import os
from collections.abc import Mapping, Set
from dataclasses import dataclass, field, fields, replace
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from runlake.errors import SettingsError
from runlake.logins import FOLDER as LOGINS
from runlake.logins import LoginFile, LoginToken
from runlake.names import is_same_address, public_url
from runlake.profiles import (
    METHOD_TABLES,
    TOKEN_FORMS,
    MethodTables,
    SettingsFile,
    correction_of,
    read_settings_file,
    without_address,
    without_token,
)
from runlake.signing import IAM, Signer, is_signed
from runlake.tokens import Token, token_from

PREFIX = "RUNLAKE_"
PROFILE_VARIABLE = PREFIX + "PROFILE"
_CONFIG = PREFIX + "CONFIG"
RUN_LOG = "runlog"
"""The logging method that writes to the archive."""
MAX_S = 1_000_000_000
"""The longest timeout in seconds that the operating system accepts."""
MIN_HEARTBEAT_S, MAX_HEARTBEAT_S = 10, 86_400
"""The archive accepts no other interval."""
_SECRET = frozenset({"token"})
_ARGUMENT, _ENVIRONMENT = "argument", "environment"


@dataclass(frozen=True)
class Settings:
    """All settings. Each field is a key of the file and, in upper case with ``RUNLAKE_``, an environment variable; ``profile`` is
    ``default_profile`` in the file. ``methods``: options of logging methods by name; ``locators``: pairs of a pattern of FQNs and the method of
    their runs, of which the first that matches counts. ``notices``: what a person should know about where they come from."""

    url: str = field(default="", metadata={"help": "the stack's address, as https://logs.example.com/api"})
    auth: str = field(
        default="",
        metadata={
            "help": "`iam`: requests are signed with AWS credentials; `token`: they have a token; empty: `iam` for a function URL of Lambda,"
            " else `token`",
            "words": ("", IAM, "token"),
        },
    )
    token: str = field(default="", metadata={"help": "a bearer token"})
    token_file: str = field(default="", metadata={"help": "a file that holds the token; read again when the token is refused"})
    token_command: str = field(default="", metadata={"help": "a command that prints the token; run again when it is refused"})
    page_url: str = field(
        default="", metadata={"help": "the address with the web page, for `runlake open` and links, if that is not `url`"}
    )
    timeout_s: float = field(default=30.0, metadata={"help": "seconds until the first byte of a response", "least": 0.001})
    spool_dir: str = field(
        default="",
        metadata={"help": "folder of unsent lines and unfinished uploads; empty: runlake-spool-UID of the temporary files"},
    )
    spool_bytes: int = field(
        default=256 * 1024 * 1024, metadata={"help": "bytes that may wait on disk for each run; 0: none", "least": 0}
    )
    memory_bytes: int = field(default=8 * 1024 * 1024, metadata={"help": "bytes that may wait in memory for each run", "least": 1})
    batch_bytes: int = field(
        default=1024 * 1024, metadata={"help": "bytes of one request at most, except for a longer line", "least": 1}
    )
    interval_s: float = field(default=0.5, metadata={"help": "seconds a line may wait to be sent with later ones", "least": 0})
    heartbeat_s: int = field(
        default=300,
        metadata={
            "help": f"seconds without lines until a heartbeat is sent, {MIN_HEARTBEAT_S} to {MAX_HEARTBEAT_S}; 0: none",
            "least": MIN_HEARTBEAT_S,
            "most_or_0": MAX_HEARTBEAT_S,
        },
    )
    exit_s: float = field(
        default=10.0, metadata={"help": "seconds an exiting program waits for its lines to be stored", "least": 0}
    )
    method: str = field(
        default=RUN_LOG, metadata={"help": "the logging method of new runs, unless a locator of the file names their pipeline"}
    )
    mask: bool = field(
        default=True,
        metadata={
            "help": "whether passwords and keys are masked by their shape before lines leave the host; given values always are"
        },
    )
    profile: str = field(default="", metadata={"help": "the profile of the file; `default_profile` in the file"})
    methods: Mapping[str, Mapping[str, Any]] = field(default_factory=dict, metadata={"help": ""})
    locators: tuple[tuple[str, str], ...] = field(default=(), metadata={"help": ""})
    origins: Mapping[str, str] = field(default_factory=dict, metadata={"help": ""})
    notices: tuple[str, ...] = field(default=(), metadata={"help": ""})

    def __post_init__(self) -> None:
        """Raises SettingsError for a number that is out of range, or an unknown word."""
        for name in NAMES:
            if not _is_in_range(name, getattr(self, name)):
                raise _wrong(name, getattr(self, name), self.origins.get(name, _ARGUMENT))

    @property
    def bearer(self) -> Token:
        """The token from the level with the highest precedence."""
        return token_from(self.token, self.token_file, self.token_command)

    def token_for(self, url: str) -> Token:
        """The token of the settings, or without one that of the login at this server."""
        return self.bearer if self.token_form else LoginToken(self.login_file(url))

    @property
    def token_form(self) -> str:
        """The name of the setting with a token; "" if none is set."""
        return next((name for name in TOKEN_FORMS if getattr(self, name)), "")

    def login_file(self, url: str) -> LoginFile:
        """The file of the login at this server, of the profile."""
        return LoginFile(settings_path().parent / LOGINS, self.profile, url)

    @property
    def spool_root(self) -> Path:
        """The folder that has a subfolder for each run. Raises SettingsError."""
        import tempfile

        if self.spool_dir:
            try:
                return Path(self.spool_dir).expanduser()
            except RuntimeError as error:
                origin = self.origins.get("spool_dir", _ARGUMENT)
                raise SettingsError(f"spool_dir has no home to begin with: {error} origin={origin}") from error
        try:
            folder = tempfile.gettempdir()
        except OSError:  # none can be written, as with a read-only root: then lines wait in memory
            folder = os.sep + "tmp"
        return Path(folder) / f"runlake-spool-{os.getuid()}"

    @property
    def uploads_folder(self) -> Path:
        """The folder of the states of unfinished uploads."""
        return self.spool_root / "uploads"

    def signer(self, url: str) -> Signer | None:
        """What signs the requests to an address; None if they have the token. A function URL takes signed requests only."""
        return Signer(url) if is_signed(self.auth, url) else None

    def page_address(self) -> str:
        """The address with the web page, which browsers cannot sign requests for; "" if it is unknown. Raises SettingsError."""
        if self.page_url:
            return _checked_url("page_url", self.page_url)
        url = self.required_url()
        return "" if self.signer(url) else url

    def method_of(self, fqn: str) -> str:
        """The name of the logging method of a pipeline's runs: an argument or a variable overrides the locators."""
        if self.origins.get("method") in (_ARGUMENT, _ENVIRONMENT):
            return self.method
        return next((method for pattern, method in self.locators if fnmatchcase(fqn, pattern)), self.method)

    def required_url(self) -> str:
        """The address without a trailing slash. Raises SettingsError if it is missing, or not an HTTP URL."""
        if not self.url:
            raise SettingsError(f"the server's address is missing: give --url, RUNLAKE_URL, or url in {settings_path()}")
        return _checked_url("url", self.url)

    def display_values(self) -> dict[str, Any]:
        """Names and values to print, without secrets."""
        return {name: ("(set)" if name in _SECRET and getattr(self, name) else getattr(self, name)) for name in NAMES}


NAMES = tuple(each.name for each in fields(Settings) if each.metadata["help"])
_TYPES: dict[str, type[Any]] = {each.name: type(each.default) for each in fields(Settings) if each.metadata["help"]}
_LEAST: dict[str, float] = {each.name: each.metadata["least"] for each in fields(Settings) if "least" in each.metadata}
_WORDS: dict[str, tuple[str, ...]] = {each.name: each.metadata["words"] for each in fields(Settings) if "words" in each.metadata}
_MOST_OR_0: dict[str, int] = {each.name: each.metadata["most_or_0"] for each in fields(Settings) if "most_or_0" in each.metadata}
_MOST: dict[type[Any], float] = {float: MAX_S, int: math.inf}
_SWITCH = {"true": True, "on": True, "yes": True, "1": True, "false": False, "off": False, "no": False, "0": False}
_KINDS: dict[type[Any], str] = {
    bool: "true or false",
    str: "text",
    int: "a whole number from {} on",
    float: f"a number from {{}} to {MAX_S}",
}


def help_of(name: str) -> str:
    """The meaning of a setting."""
    return next(str(each.metadata["help"]) for each in fields(Settings) if each.name == name)


def settings_path(environ: Mapping[str, str] = os.environ) -> Path:
    """The settings file: ``RUNLAKE_CONFIG``, or ``runlake/config.toml`` in the user's configuration folder."""
    if named := environ.get(_CONFIG):
        return Path(named).expanduser()
    try:
        home = environ.get("XDG_CONFIG_HOME") or Path.home() / ".config"
    except RuntimeError:  # a user without a home, as in some containers
        home = Path(os.sep) / "etc"
    return Path(home) / "runlake" / "config.toml"


def load_settings(arguments: Mapping[str, Any] | None = None, environ: Mapping[str, str] = os.environ) -> Settings:
    """The settings in force. Arguments that are None count as absent. Raises SettingsError."""
    file = settings_file(environ)
    typed = (_ARGUMENT, _of_arguments(arguments or {}))
    exported = (_ENVIRONMENT, {name: environ[PREFIX + name.upper()] for name in NAMES if environ.get(PREFIX + name.upper())})
    chosen = next((str(layer["profile"]) for _, layer in (typed, exported) if "profile" in layer), file.default)
    of_profile = file.profile(chosen) if chosen else {}
    top_level = _top_level(file, of_profile)
    tables = MethodTables.pop_from(file.path, of_profile, top_level)
    layers = [typed, exported, (f"{file.path} [profiles.{chosen}]", of_profile), (str(file.path), top_level)]
    _check_names(of_profile.keys(), layers[2][0])
    _check_names(file.values.keys() - set(METHOD_TABLES), layers[3][0])
    notices = (*_notices(file, layers), *_drop_tokens_of_other_servers(layers, chosen))
    _drop_less_specific_tokens(layers)
    values: dict[str, Any] = {}
    origins: dict[str, str] = {}
    for origin, layer in layers:
        for name, value in layer.items():
            if name not in values:
                values[name], origins[name] = _typed(name, value, origin), origin
    settings = Settings(**values, methods=tables.methods, locators=tables.locators, origins=origins, notices=notices)
    return replace(settings, notices=(*notices, *_notices_of_unsent_tokens(settings)))


def settings_file(environ: Mapping[str, str] = os.environ) -> SettingsFile:
    """The settings file. One that is named by RUNLAKE_CONFIG must exist; the usual one need not. Raises SettingsError."""
    return read_settings_file(settings_path(environ), must_exist=bool(environ.get(_CONFIG)))


def _drop_tokens_of_other_servers(layers: list[tuple[str, dict[str, Any]]], chosen: str) -> list[str]:
    """The file's tokens belong to the file's URL, as do ``auth`` and ``page_url``. A token of the environment overrides them, unless a profile
    with a token is chosen explicitly: processes that ``runlake exec`` starts get that profile in the environment. Returns notices."""
    (_, typed), (exported_origin, exported), (_, of_profile), (file_path, top_level) = layers
    overriding = exported | typed
    url = str(overriding.get("url", ""))
    own_url = str(of_profile.get("url", top_level.get("url", "")))
    forms = set(TOKEN_FORMS)
    if url and own_url and not is_same_address(url, own_url):
        layers[2:] = [(origin, without_address(layer)) for origin, layer in layers[2:]]
        if forms & overriding.keys() or not any(of_profile.get(name) or top_level.get(name) for name in forms):
            return []
        owner = f"the profile {chosen!r}" if forms & of_profile.keys() else file_path
        return [f"the token of {owner} is not sent to {public_url(url)}: it belongs to {public_url(own_url)}"]
    is_explicit = bool(chosen) and "profile" in overriding
    if is_explicit and forms & of_profile.keys() and forms & exported.keys() and not forms & typed.keys():
        layers[1] = (exported_origin, without_token(exported))
        return [
            f"{PREFIX}{name.upper()} is not used: the profile {chosen!r} has a token of its own"
            for name in TOKEN_FORMS
            if name in exported
        ]
    return []


def _drop_less_specific_tokens(layers: list[tuple[str, dict[str, Any]]]) -> None:
    """A token's file as an argument overrides a token's value in the environment: the three forms are one setting."""
    seen = False
    for _, layer in layers:
        set_here = set(TOKEN_FORMS) & layer.keys()
        if seen:
            for name in set_here:
                del layer[name]
        seen = seen or bool(set_here)


def _notices_of_unsent_tokens(settings: Settings) -> list[str]:
    """A token beside AWS credentials, which win."""
    name = settings.token_form
    if not name or settings.signer(settings.url) is None:
        return []
    why = f"auth is {IAM}" if settings.auth else "it is a function URL"
    return [f"the {name} ({settings.origins[name]}) is not sent to {public_url(settings.url)}: requests are signed, since {why}"]


def _of_arguments(arguments: Mapping[str, Any]) -> dict[str, Any]:
    if unknown := sorted(arguments.keys() - set(NAMES)):
        following = "correct the argument's name: `runlake config` lists the settings"
        raise SettingsError(f"there is no such option or setting: {', '.join(unknown)}", next_step=following)
    return {name: value for name, value in arguments.items() if value is not None}


def _top_level(file: SettingsFile, profile: Mapping[str, Any]) -> dict[str, Any]:
    return file.inherited(profile) | ({"profile": file.default} if file.default else {})


def _check_names(names: Set[str], origin: str) -> None:
    if unknown := sorted(names - (set(NAMES) - {"profile"})):
        raise SettingsError(f"there is no such setting: {', '.join(unknown)} path={origin}", next_step=correction_of(origin))


def _notices(file: SettingsFile, layers: list[tuple[str, dict[str, Any]]]) -> tuple[str, ...]:
    """``layers``: those of arguments, of the environment and of the profile come first."""
    (_, typed), (_, exported), (_, of_profile), *_ = layers
    notices = []
    if file.is_exposed():
        notices.append(f"other users can read the secrets in {file.path}: chmod 600 it")
    if typed.get("profile"):
        overriding = [name for name in exported if name in of_profile.keys() - set(TOKEN_FORMS) and name not in typed]
        notices += [
            f"{PREFIX}{name.upper()} overrides the profile {typed['profile']!r}: unset it to use the profile's"
            for name in overriding
        ]
    return tuple(notices)


def _checked_url(name: str, url: str) -> str:
    """Without a trailing slash. Raises SettingsError if it is not an HTTP URL."""
    if problem := _problem_of(url):
        what = "the server's address" if name == "url" else "the page's address"
        raise SettingsError(f"{what} {problem}: write it as https://logs.example.com/api {name}={url!r}")
    return url.rstrip("/")


def _problem_of(url: str) -> str:
    """Why a text is not a base URL; empty if it is one."""
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
    kind = _TYPES[name]
    if isinstance(value, (dict, list)):  # it may contain secrets, as [method] in place of [methods]
        raise SettingsError(f"{name} must be a single value, not a table origin={origin}", next_step=_correction(origin, name))
    if kind is bool:
        if (switch := _SWITCH.get(str(value).lower())) is None:
            raise _wrong(name, value, origin)
        return switch
    try:
        typed = kind(value)
    except (TypeError, ValueError, OverflowError) as error:
        raise _wrong(name, value, origin) from error
    if kind is not str and (isinstance(value, bool) or (isinstance(value, float) and kind is int and typed != value)):
        raise _wrong(name, value, origin)
    return typed


def _is_in_range(name: str, value: Any) -> bool:
    if name in _WORDS:
        return value in _WORDS[name]
    if name not in _LEAST or (name in _MOST_OR_0 and value == 0):
        return True
    return bool(_LEAST[name] <= value <= _MOST_OR_0.get(name, _MOST[_TYPES[name]]))  # nan is in no range


def _wrong(name: str, value: Any, origin: str) -> SettingsError:
    expected = " or ".join(filter(None, _WORDS.get(name, ()))) or _KINDS[_TYPES[name]].format(_LEAST.get(name))
    if name in _MOST_OR_0:
        expected = f"0, or a whole number from {_LEAST[name]} to {_MOST_OR_0[name]}"
    return SettingsError(f"{name} must be {expected}, not {value!r} origin={origin}", next_step=_correction(origin, name))


def _correction(origin: str, name: str = "") -> str:
    """How to correct a value from this origin."""
    if origin == _ARGUMENT:
        return f"correct the argument {name}"
    if origin == _ENVIRONMENT:
        return f"correct {PREFIX}{name.upper()}"
    return correction_of(origin)
