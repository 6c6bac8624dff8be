"""Files of local stacks, and their discovery by other processes.

``.local/{port}/`` belongs to the stack on that port: ``stack.json`` (its public description), ``stack.log``, ``emulator.log``,
``lock``. ``.local/stack.json`` is a copy of the description of the last started stack. A stack runs exactly as long as its process
holds the lock, so a reused pid is never signalled.
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
"""Exit code of a command that was stopped by ^C, as in shells."""
PATIENCE_S = 300
"""Timeout of a request to the stack and of its effects: a busy machine takes tens of seconds to start a function."""


class LocalError(Exception):
    """A command of the local stack failed. The message is one line for the user."""


@dataclass(frozen=True, slots=True)
class StackFolder:
    """The files of one local stack."""

    port: int

    @property
    def path(self) -> Path:
        """The folder."""
        return ROOT / str(self.port)

    @property
    def description(self) -> Path:
        """``stack.json``; exists while the stack serves."""
        return self.path / "stack.json"

    @property
    def log(self) -> Path:
        """Output of the stack's own process."""
        return self.path / "stack.log"

    @property
    def emulator_log(self) -> Path:
        """Output of the emulator and of the functions."""
        return self.path / "emulator.log"

    @property
    def scratch(self) -> Path:
        """Temporary files of the emulator, including unpacked functions."""
        return self.path / "tmp"

    def read(self) -> dict[str, Any] | None:
        """The description, or None if the stack does not serve."""
        try:
            description: dict[str, Any] = json.loads(self.description.read_text())
        except FileNotFoundError:
            return None
        return description

    def publish(self, description: dict[str, Any]) -> None:
        """Write the description; also as the default stack, unless the stack is private."""
        text = json.dumps(description, indent=2) + "\n"
        _replace(self.description, text)
        if not description["private"]:
            _replace(ROOT / "stack.json", text)

    def withdraw(self) -> None:
        """Delete the description, and the default one if it is this stack's."""
        self.description.unlink(missing_ok=True)
        default = ROOT / "stack.json"
        if default.exists() and json.loads(default.read_text())["port"] == self.port:
            default.unlink()

    def acquire(self, *, private: bool) -> IO[str]:
        """Take the lock until the returned file is closed, and write the pid to it. Raises LocalError if another process holds it."""
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
        """Raises LocalError if a stack runs here."""
        if self.running_pid():
            raise self._already_running()

    def running_pid(self) -> int | None:
        """Process id of the lock's holder, or None."""
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
        return LocalError(f"a stack already runs on the port, stop it with make down PORT={self.port}: port={self.port}")


def running_stacks() -> list[StackFolder]:
    """The running stacks of this project."""
    return [folder for folder in _folders() if folder.running_pid()]


def prune() -> None:
    """Remove the folders of private stacks that have ended."""
    for folder in _folders():
        if (folder.path / "private").exists() and not folder.running_pid():
            shutil.rmtree(folder.path, ignore_errors=True)


def _folders() -> list[StackFolder]:
    return [StackFolder(int(path.name)) for path in sorted(ROOT.glob("*")) if path.name.isdigit()]


def _replace(target: Path, text: str) -> None:
    draft = target.with_suffix(f".{os.getpid()}")
    draft.write_text(text)
    draft.replace(target)
