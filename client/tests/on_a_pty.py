"""Run a command of the client on a pseudo-terminal, and return all bytes that it wrote there."""

from __future__ import annotations

import fcntl
import os
import pty
import struct
import subprocess
import sys
import termios
from collections.abc import Mapping, Sequence
from pathlib import Path

_SRC = Path(__file__).parents[1] / "src"
_FORWARDING = Path(__file__).parents[2] / "forwarding" / "src"
_TIMEOUT_S = 120


def on_a_pty(command: Sequence[str], environ: Mapping[str, str] | None = None, columns: int = 80) -> tuple[int, str]:
    """The exit code, and the text of stdout and stderr. Raises UnicodeDecodeError if that is not UTF-8."""
    code, written = bytes_on_a_pty(command, environ, columns)
    return code, written.decode()


def bytes_on_a_pty(command: Sequence[str], environ: Mapping[str, str] | None = None, columns: int = 80) -> tuple[int, bytes]:
    """``command``: arguments of Python. Its stdin is at the end of file."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
    usual = {name: value for name, value in os.environ.items() if name not in ("NO_COLOR", "COLUMNS", "LINES", "FORCE_COLOR")}
    process = subprocess.Popen(
        [sys.executable, *command],
        stdin=subprocess.DEVNULL,
        stdout=theirs,
        stderr=theirs,
        env={
            **usual,
            "PYTHONPATH": f"{_SRC}:{_FORWARDING}:{Path.cwd()}",
            "TERM": "xterm-256color",
            "LC_ALL": "C.UTF-8",
            **(environ or {}),
        },
    )
    os.close(theirs)
    written = bytearray()
    try:
        while data := _read(ours):
            written += data
        return process.wait(_TIMEOUT_S), bytes(written)
    finally:
        process.kill()
        process.wait()
        os.close(ours)


def _read(descriptor: int) -> bytes:
    try:
        return os.read(descriptor, 65536)
    except OSError:  # Linux: the child's end is closed
        return b""
