"""How things are shown: tables and colours to people at a terminal, plain text to programs, JSON to those who ask for it."""

from __future__ import annotations

import json
import re
import sys
import time
from collections.abc import Iterable, Sequence
from typing import Any

import click
from rich.console import Console
from rich.table import Table
from rich.text import Text

_COLOURS = re.compile(r"(\x1b\[[0-9;]*m)")
_CONTROLS = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")


def is_terminal() -> bool:
    """Whether a person reads our output."""
    return sys.stdout.isatty()


def show_json(value: Any) -> None:
    """One JSON text on a line of its own."""
    click.echo(json.dumps(value, ensure_ascii=False))


def show_rows(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
    """A table at a terminal; rows with tabs, without heads, to a program, as they come."""
    if not is_terminal():
        for row in rows:
            click.echo("\t".join(row))
        return
    table = Table(*heads, box=None, pad_edge=False)
    for row in rows:
        table.add_row(*map(Text, row))
    Console().print(table)


def show_line(line: str) -> None:
    """A line of a log. A terminal gets its colours, and nothing else that would move, hide or type anything."""
    click.echo(harmless(line) if is_terminal() else line, color=True)


def harmless(text: str) -> str:
    """Text without control characters, which are shown as U+FFFD; colours stay, and are ended."""
    pieces = _COLOURS.split(text)
    shown = "".join(piece if at % 2 else _CONTROLS.sub("\ufffd", piece) for at, piece in enumerate(pieces))
    return shown + "\x1b[0m" if len(pieces) > 1 else shown


def marked(text: str, spans: Sequence[Sequence[int]]) -> str:
    """A line with the places of its matches in colour, for a terminal."""
    shown, at = "", 0
    for begin, end in spans:
        shown += harmless(text[at:begin]) + click.style(harmless(text[begin:end]), fg="red", bold=True)
        at = end
    return shown + harmless(text[at:])


def size_of(count: int) -> str:
    """Bytes for people, as ``1.5 MiB``."""
    size = float(count)
    for unit in ("B", "KiB", "MiB", "GiB"):
        if size < 1024:
            return f"{size:.0f} {unit}" if unit == "B" else f"{size:.1f} {unit}"
        size /= 1024
    return f"{size:.1f} TiB"


def time_of(at_ms: int) -> str:
    """A time for people and programs: ISO 8601, UTC."""
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(at_ms / 1000))


def duration_of(span_ms: int) -> str:
    """A duration for people, as ``1:02:03``."""
    minutes, seconds = divmod(span_ms // 1000, 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{seconds:02d}"


def clock_of(at_ms: int) -> str:
    """A time to the millisecond: ISO 8601, UTC."""
    return f"{time_of(at_ms)[:-1]}.{at_ms % 1000:03d}Z"


def took(span_ms: int) -> str:
    """A short duration for people, as ``0.250 s``; from a minute on as ``0:01:02``."""
    return f"{span_ms / 1000:.3f} s" if span_ms < 60_000 else duration_of(span_ms)
