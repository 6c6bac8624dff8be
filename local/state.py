"""Where a local stack keeps its files, and how others find it.

``.local/{port}/`` belongs to the stack whose friendly address is on that port: ``stack.json`` (what others need to know),
``stack.log``, ``emulator.log``, ``lock``. ``.local/stack.json`` is a copy of the one that was started last. A stack is running
exactly as long as its process holds the lock, so a pid that the system gave to somebody else is never signalled.
"""

from __future__ import annotations

import fcntl
import json
import os
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

PROJECT = Path(__file__).resolve().parent.parent
ROOT = PROJECT / ".local"
DEFAULT_PORT = 4566
INTERRUPTED = 130
"""Exit code of a command that was stopped by ^C, as shells have it."""
PATIENCE_S = 300
"""For a request of the stack, and for what follows one: a busy machine starts a function in tens of seconds."""


class LocalError(Exception):
    """The local stack cannot do what was asked. The message is one line for the person at the keyboard."""


@dataclass(frozen=True, slots=True)
class StackFolder:
    """The files of one local stack."""

    port: int

    @property
    def path(self) -> Path:
        """The folder itself."""
        return ROOT / str(self.port)

    @property
    def description(self) -> Path:
        """``stack.json``: there while the stack serves."""
        return self.path / "stack.json"

    @property
    def log(self) -> Path:
        """What the stack's own process prints."""
        return self.path / "stack.log"

    @property
    def emulator_log(self) -> Path:
        """What the emulator prints, the functions' output included."""
        return self.path / "emulator.log"

    @property
    def scratch(self) -> Path:
        """Temporary files of the emulator, unpacked functions among them."""
        return self.path / "tmp"

    def read(self) -> dict[str, Any] | None:
        """The description, or None when the stack does not serve."""
        try:
            description: dict[str, Any] = json.loads(self.description.read_text())
        except FileNotFoundError:
            return None
        return description

    def publish(self, description: dict[str, Any]) -> None:
        """Tell others that the stack serves; unless it is private, as the default one."""
        text = json.dumps(description, indent=2) + "\n"
        _replace(self.description, text)
        if not description["private"]:
            _replace(ROOT / "stack.json", text)

    def withdraw(self) -> None:
        """Take the description back; the default one too, if it is ours."""
        self.description.unlink(missing_ok=True)
        default = ROOT / "stack.json"
        if default.exists() and json.loads(default.read_text())["port"] == self.port:
            default.unlink()

    def acquire(self, *, private: bool) -> IO[str]:
        """Hold the lock until the returned file is closed, with our pid in it. Raises LocalError when it is held."""
        self.path.mkdir(parents=True, exist_ok=True)
        lock = open(self.path / "lock", "a+")  # noqa: SIM115 the caller closes it
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            lock.close()
            raise self._already_running() from None
        lock.truncate(0)
        lock.write(str(os.getpid()))
        lock.flush()
        if private:
            (self.path / "private").touch()
        return lock

    def refuse_if_running(self) -> None:
        """Raises LocalError when a stack runs here."""
        if self.running_pid():
            raise self._already_running()

    def running_pid(self) -> int | None:
        """The process that holds the lock, or None."""
        try:
            with open(self.path / "lock") as lock:
                try:
                    fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
                except BlockingIOError:
                    return int(lock.read() or 0) or None
        except FileNotFoundError:
            pass
        return None

    def _already_running(self) -> LocalError:
        return LocalError(f"a stack already runs there, stop it with make down PORT={self.port}: port={self.port}")


def running_stacks() -> list[StackFolder]:
    """The stacks of this project that run now."""
    return [folder for folder in _folders() if folder.running_pid()]


def prune() -> None:
    """Remove what private stacks of the past left behind."""
    for folder in _folders():
        if (folder.path / "private").exists() and not folder.running_pid():
            shutil.rmtree(folder.path, ignore_errors=True)


def _folders() -> list[StackFolder]:
    return [StackFolder(int(path.name)) for path in sorted(ROOT.glob("*")) if path.name.isdigit()]


def _replace(target: Path, text: str) -> None:
    draft = target.with_suffix(f".{os.getpid()}")
    draft.write_text(text)
    draft.replace(target)
