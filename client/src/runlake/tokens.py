"""The source of the token: a value, a file, or a command that prints it."""

from __future__ import annotations

import shlex
import threading
from collections.abc import Callable
from pathlib import Path

from runlake.errors import SettingsError

_COMMAND_TIMEOUT_S = 30.0


class Token:
    """A bearer token, read when it is first needed, and again after the server refused it. None: no token is set."""

    def __init__(self, read: Callable[[], str | None]) -> None:
        self._read = read
        self._lock = threading.Lock()
        self._known = False
        self._value: str | None = None

    def value(self) -> str | None:
        """The token as last read. Raises SettingsError."""
        with self._lock:
            if not self._known:
                self._value, self._known = self._read(), True
            return self._value

    def is_renewed(self, refused: str) -> bool:
        """Whether there is another token at once after the server refused this one, with which the request is sent once more."""
        return False

    def forget(self) -> None:
        """Read it again the next time: the file may have been renewed, and a command may print a new token."""
        self._known = False


def token_from(value: str | None = None, file: str | None = None, command: str | None = None) -> Token:
    """The token of the first argument that is set. A value wins, since it is typed to override the rest."""
    if value:
        return Token(lambda: value)
    if file:
        return Token(lambda: _of_file(file))
    if command:
        return Token(lambda: _of_command(command))
    return Token(lambda: None)


def _of_file(path: str) -> str:
    try:
        return Path(path).expanduser().read_text().strip()
    except (OSError, ValueError, RuntimeError) as error:
        otherwise = "it is not text" if isinstance(error, ValueError) else "there is no such home"
        reason = error.strerror if isinstance(error, OSError) else otherwise
        raise SettingsError(f"the token's file cannot be read path={path} reason={reason}") from error


def _of_command(command: str) -> str:
    import subprocess

    try:
        done = subprocess.run(shlex.split(command), capture_output=True, text=True, check=True, timeout=_COMMAND_TIMEOUT_S)
    except (OSError, ValueError, IndexError, subprocess.SubprocessError) as error:  # IndexError: it is blank
        raise SettingsError(f"the token's command failed command={command!r} reason={error}") from error
    return done.stdout.strip()
