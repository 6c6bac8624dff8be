"""Prints text of servers, stacks and logs without control characters that a terminal would execute."""

from __future__ import annotations

import sys
from threading import Lock
from typing import TextIO

from chalicelib.runlog.layout import UNPRINTABLE

_printing = Lock()


def printable(text: str) -> str:
    """Replaces unprintable characters except line breaks and tabs, and lone surrogates, by U+FFFD."""
    return UNPRINTABLE.sub(lambda match: match[0] if match[0] in "\n\t" else "\ufffd", text.encode(errors="replace").decode())


def show(text: str, *, end: str = "\n", file: TextIO | None = None) -> None:
    """Print and flush text, by default to stdout. Concurrent threads do not mix their lines."""
    with _printing:
        print(printable(text) + end, end="", file=file or sys.stdout, flush=True)


def show_error(text: str) -> None:
    """Print the reason of a command's failure to stderr."""
    show(f"runlake: {text}", file=sys.stderr)
