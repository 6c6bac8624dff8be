"""What the commands of this machine print: text of servers, stacks and logs, without what a terminal would act on."""

from __future__ import annotations

import sys
from threading import Lock
from typing import TextIO

from chalicelib.runlog.layout import UNPRINTABLE

_printing = Lock()


def printable(text: str) -> str:
    """Text whose unprintable characters, but line breaks and tabs, became U+FFFD; so did lone surrogates."""
    return UNPRINTABLE.sub(lambda match: match[0] if match[0] in "\n\t" else "\ufffd", text.encode(errors="replace").decode())


def show(text: str, *, end: str = "\n", file: TextIO | None = None) -> None:
    """Print text, to stdout unless ``file`` says otherwise, at once. Of threads that print at the same time each has lines of its own."""
    with _printing:
        print(printable(text) + end, end="", file=file or sys.stdout, flush=True)


def show_error(text: str) -> None:
    """Print why a command failed, to stderr."""
    show(f"runlake: {text}", file=sys.stderr)
