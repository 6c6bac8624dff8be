"""Logins that ``runlake login`` stored: one file for each profile and server, next to the settings file, readable by its owner alone.

Refresh tokens may be used once. Processes therefore renew a login one at a time, under a lock, and the file has the new tokens before any request
uses them. If a process dies between the issuer's answer and the write, the login is lost, and the next command asks to log in again.
"""

from __future__ import annotations

import json
import os
import stat
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from runlake.errors import AccessError, LoginError, SettingsError, UnavailableError
from runlake.names import file_name
from runlake.tokens import Token

if TYPE_CHECKING:
    from runlake.openid import LoginConfig, Provider, Tokens

FOLDER = "logins"
_EARLY_S = 60
"""Access tokens are renewed this long before they end."""
_ROOM_BYTES = 16_384
"""Of a new file before it has the login."""
_LEAST_AGE_S = 60
"""A token that is refused, for example since it lacks a scope, is not renewed more often."""


@dataclass(frozen=True)
class Login:
    """A stored login: who renews it, its tokens, and when these were issued, in seconds since 1970."""

    config: LoginConfig
    tokens: Tokens
    issued_s: float

    @property
    def person(self) -> str:
        """Who logged in, for people: an address of mail, a name, or the subject; "" if the issuer does not say."""
        claims = self.tokens.claims
        return next((str(claims[name]) for name in ("email", "preferred_username", "name", "sub") if claims.get(name)), "")

    def check(self) -> None:
        """Raises TypeError if a value has another type than it must have."""
        config, tokens = self.config, self.tokens
        texts = (config.issuer, config.client_id, config.redirect, config.scopes, tokens.access_token, tokens.refresh_token)
        kinds = [(each, str) for each in texts] + [(config.parameters, dict), (tokens.claims, dict)]
        if not all(isinstance(each, kind) for each, kind in kinds) or not isinstance(tokens.ends_s, (int, float, type(None))):
            raise TypeError("a value has another type")

    def ends_within(self, seconds: float, now_s: float) -> bool:
        """Whether the access token ends that soon."""
        return self.tokens.ends_s is not None and self.tokens.ends_s - now_s < seconds


class LoginFile:
    """The login of a profile ("": none) at the server with this address. ``open_provider``: the issuer of a login."""

    def __init__(
        self,
        folder: Path,
        profile: str,
        url: str,
        open_provider: Callable[[LoginConfig], Provider] | None = None,
        clock_s: Callable[[], float] = time.time,
    ) -> None:
        from hashlib import sha256

        key = sha256(f"{profile}\n{url.rstrip('/')}".encode("utf-8", "replace")).hexdigest()[:16]
        self.path = folder / f"{file_name(profile or 'default', 40)}-{key}.json"
        self._open_provider, self._clock_s = open_provider or _provider_of, clock_s

    def read(self) -> Login | None:
        """The login; None if there is none. Raises SettingsError if the file cannot be read."""
        try:
            self._check_folder()
            stored = json.loads(self.path.read_text())
            from runlake.openid import LoginConfig, Tokens

            login = Login(LoginConfig(**stored["config"]), Tokens(**stored["tokens"]), float(stored["issued_s"]))
            login.check()
            return login
        except (FileNotFoundError, NotADirectoryError):
            return None
        except (OSError, ValueError, TypeError, KeyError, RecursionError) as error:
            reason = error.strerror if isinstance(error, OSError) else "it is damaged"
            following = "log in again with `runlake login`, or delete the file"
            raise SettingsError(f"the login cannot be read path={self.path} reason={reason}", next_step=following) from error

    def store(self, config: LoginConfig, tokens: Tokens) -> Login:
        """Replace the login. Waits for a process that renews the one before. Raises OSError."""
        with self._locked(), self._replacement() as replace:
            return replace(config, tokens)

    def check_issuer(self, config: LoginConfig) -> None:
        """Raises LoginError if the stored login is of another issuer: a server that was taken over could send people to one of its own. A file
        that is damaged is of none. Raises SettingsError if a login cannot be stored safely."""
        with suppress(FileNotFoundError, NotADirectoryError):
            self._check_folder()
        login = self._if_readable()
        if login and login.config.issuer != config.issuer:
            raise LoginError(
                f"the server names another issuer than at your last login issuer={config.issuer} last={login.config.issuer}",
                next_step="ask the operator whether logins moved there; if so, run `runlake logout`, then log in again",
            )

    def remove(self) -> Login | None:
        """Forget the login, and return it. Its file goes even if it is damaged. Raises OSError."""
        if not self.path.exists():
            return None
        with self._locked():
            try:
                return self._if_readable()
            finally:
                self.path.unlink(missing_ok=True)

    def _if_readable(self) -> Login | None:
        try:
            return self.read()
        except SettingsError:
            return None

    def current(self, refused: str = "") -> Login | None:
        """The login with an access token that holds, renewed if necessary: if it ends soon, or is ``refused``. While the issuer does not respond,
        one that has not ended yet. Raises AccessError (log in again), UnavailableError, SettingsError."""
        login = self.read()
        if login is None or not self._is_stale(login, refused):
            return login
        try:
            with self._locked():
                latest = self.read()  # another process may have renewed it
                if latest is None or not self._is_stale(latest, refused):
                    return latest
                return self._renewed(latest)
        except OSError as error:
            if not login.ends_within(0, self._clock_s()):
                return login
            problem = f"the login cannot be renewed path={error.filename or self.path} reason={error.strerror or error}"
            raise SettingsError(problem, next_step="let this user write there, and make room on the disk") from error

    def _is_stale(self, login: Login, refused: str) -> bool:
        now_s = self._clock_s()
        is_new = 0 <= now_s - login.issued_s < _LEAST_AGE_S  # not if the clock was ahead, and was corrected since
        if refused and login.tokens.access_token == refused and not is_new:
            return True
        return login.ends_within(_EARLY_S, now_s)

    def _renewed(self, login: Login) -> Login:
        has_ended = login.ends_within(0, self._clock_s())
        if not login.tokens.refresh_token:
            if not has_ended:
                return login
            raise AccessError(401, "the login has ended", next_step="log in again with `runlake login`")
        try:
            with self._replacement() as replace:
                return replace(login.config, self._open_provider(login.config).renewed(login.tokens))
        except LoginError as error:  # such as the page of a network that asks for a login of its own
            if not has_ended:
                return login
            raise AccessError(401, f"the login cannot be renewed: {error}", next_step=error.next_step) from error
        except UnavailableError as error:
            if not has_ended:
                return login
            error.next_step = f"is {login.config.host} up, and reachable from here? The command works again as soon as it is"
            raise

    @contextmanager
    def _replacement(self) -> Iterator[Callable[[LoginConfig, Tokens], Login]]:
        """Replaces the login with another one. Until then its file has room: a full disk is noticed before a refresh token is used up."""
        temporary = self.path.with_suffix(f".{os.urandom(4).hex()}")
        try:
            with open(os.open(temporary, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600), "w") as file:

                def write(text: str) -> None:
                    file.seek(0)
                    file.write(text)
                    file.flush()
                    os.fsync(file.fileno())

                def replace(config: LoginConfig, tokens: Tokens) -> Login:
                    login = Login(config, tokens, self._clock_s())
                    write(json.dumps(asdict(login)))
                    temporary.replace(self.path)
                    return login

                write(" " * _ROOM_BYTES)
                yield replace
        finally:
            with suppress(FileNotFoundError):
                temporary.unlink()

    def _check_folder(self) -> None:
        """Raises SettingsError if other users can write to the folder: they could put a login of theirs there. Raises FileNotFoundError."""
        found = os.stat(self.path.parent)
        if found.st_uid != os.getuid() or stat.S_IMODE(found.st_mode) & 0o022:
            problem = f"other users can write to the folder of logins path={self.path.parent}"
            raise SettingsError(problem, next_step="make it yours alone: chown it, and chmod 700")

    @contextmanager
    def _locked(self) -> Iterator[None]:
        import fcntl

        self.path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        self._check_folder()
        with open(os.open(self.path.with_suffix(".lock"), os.O_CREAT | os.O_RDWR, 0o600)) as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            try:
                yield
            finally:
                fcntl.flock(file, fcntl.LOCK_UN)  # a process that was forked meanwhile has the file, too


class LoginToken(Token):
    """The access token of a stored login, which is renewed in time; None if nobody is logged in."""

    def __init__(self, file: LoginFile) -> None:
        super().__init__(lambda: None)
        self._file, self._refused = file, ""
        self._login: Login | None = None
        self._clock_s = time.time

    def value(self) -> str | None:
        """The token. Raises AccessError if the login has ended, UnavailableError, SettingsError."""
        with self._lock:
            if not self._known or (self._login and (self._refused or self._login.ends_within(_EARLY_S, self._clock_s()))):
                self._login, self._refused, self._known = self._file.current(self._refused), "", True
            return self._login.tokens.access_token if self._login else None

    def is_renewed(self, refused: str) -> bool:
        """Whether there is another token than the refused one now. Raises as ``value``."""
        with self._lock:
            if self._login and self._login.tokens.access_token == refused:
                self._refused = refused
        return self.value() not in (None, refused)

    def forget(self) -> None:
        """Renew it the next time, unless it is new; read it again if nobody was logged in."""
        self._known = False
        self._refused = self._login.tokens.access_token if self._login else ""


def _provider_of(config: LoginConfig) -> Provider:
    from runlake.openid import Provider

    return Provider(config)


def claims_of(token: str) -> Mapping[str, Any]:
    """What a token says, unverified; nothing if it is opaque."""
    from runlake.openid import parts_of

    return parts_of(token)[1]
