"""All output of the command line. No other module here writes to stdout or stderr, and all text is sanitized by ``terminal``.

Terminals get tables and colours, pipes rows with tabs and unchanged lines, and both get the same JSON.
"""

from __future__ import annotations

import os
import sys
import time
import unicodedata
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain, islice, repeat
from typing import Any, TextIO

import click

from runlake.errors import RunlakeError
from runlake.terminal import MAX_LINE_CHARS, RESET, from_last_state, json_text, label, last_state, sanitize, without_styles

_RED, _GREEN, _YELLOW, _MAGENTA, _DIM, _HIT = "31", "32", "33", "35", "2", "1;31"
_LEVEL_COLOURS = {"ERROR": _RED, "CRITICAL": _RED, "FATAL": _RED, "WARNING": _YELLOW, "WARN": _YELLOW}
_MAX_PADDING = 60  # a longer cell moves the rest of its own row only
_REDRAW_S = 0.1


def is_terminal() -> bool:
    """Whether stdout is a terminal."""
    return sys.stdout.isatty()


def show_json(value: Any) -> None:
    """Print a JSON value on one line."""
    import json

    _write(sys.stdout, json_text(json.dumps(value, ensure_ascii=False)))


def show_rows(
    heads: Sequence[str], rows: Iterable[Sequence[str]], *, optional: int = 0, notes: Iterable[Sequence[str]] = ()
) -> None:
    """A table on a terminal; rows with tabs, without heads, in a pipe, as they come. No cell is shortened to fit the window. On a terminal,
    ``optional`` is how many of the last columns are left out where the window is too narrow, and ``notes`` are lines below each row, cut to it."""
    import shutil

    cells = ([label(cell) for cell in row] for row in rows)
    if not is_terminal():
        for row in cells:
            _write(sys.stdout, "\t".join(row))
        return
    table = [list(heads), *cells]
    widths = [min(max(map(_width, column)), _MAX_PADDING) for column in zip(*table)]
    window = shutil.get_terminal_size().columns
    while optional and sum(widths) + 2 * len(widths) - 2 > window:
        widths, optional = widths[:-1], optional - 1
    for row, note in zip(table, chain(((),), notes, repeat(()))):
        if row is table[0] and not any(heads):
            continue
        padded = [cell + " " * (width - _width(cell)) for cell, width in zip(row, widths)]
        _write(sys.stdout, "  ".join(padded).rstrip())
        for line in filter(None, note):
            _write(sys.stdout, _coloured(_fitted(f"  {label(line)}", window), _DIM))


def show_table(rows: Iterable[Any], heads: Sequence[str], row: Callable[[Any], Sequence[str]], *, as_json: bool) -> None:
    """Rows as a table whose cells are made by ``row``, or as lines of JSON."""
    if not as_json:
        return show_rows(heads, map(row, rows))
    for each in rows:
        show_json(each)


def first_rows(rows: Iterable[dict[str, Any]], limit: int) -> tuple[list[dict[str, Any]], bool]:
    """Up to ``limit`` rows, and whether these are all. Reads one more."""
    listed = list(islice(rows, limit + 1))
    return listed[:limit], len(listed) <= limit


def report_rest(is_all: bool, limit: int) -> None:
    """Report that there are more than ``limit`` rows, unless these are all."""
    if not is_all:
        report(f"there are more than these {limit}: -n {limit * 5} lists more")


def show_line(line: str, earlier: int = 0) -> None:
    """A line of a log. A terminal gets its colours and its last state, without other control sequences. ``earlier``: see ``last_state``."""
    if not is_terminal():
        _write(sys.stdout, line)
    elif _has_colours(sys.stdout):
        _write(sys.stdout, sanitize(last_state(line, earlier), styles=True))
    else:
        _write(sys.stdout, sanitize(without_styles(last_state(line, earlier))))


def show_log(pieces: Iterable[bytes], *, raw: bool = False) -> None:
    """A log that comes in pieces, byte for byte; a terminal gets sanitized lines, or the bytes with ``raw``."""
    if raw or not is_terminal():
        sys.stdout.flush()
        for piece in pieces:
            sys.stdout.buffer.write(piece)
        sys.stdout.buffer.flush()
        return
    begun, earlier = bytearray(), 0
    for piece in pieces:
        begun += piece
        *lines, rest = begun.split(b"\n") if b"\n" in piece or len(begun) > MAX_LINE_CHARS else [begun]
        for line in lines:
            show_line(line.decode("utf-8", "replace"), earlier)
            earlier = 0
        if len(rest) > MAX_LINE_CHARS and b"\r" in rest:
            overwritten, last = from_last_state(rest.decode("latin-1"))
            earlier, rest = earlier + overwritten, bytearray(last, "latin-1")
        if len(rest) > MAX_LINE_CHARS:
            show_line(rest.decode("utf-8", "replace"), earlier)
            earlier, rest = 0, bytearray()
        begun = rest
    if begun:
        show_line(begun.decode("utf-8", "replace"), earlier)


def show_event(event: Mapping[str, Any]) -> None:
    """Time, level, step and message. An event of a plain line has no time, level or step."""
    timestamp, message = event["timestamp"], str(event["message"])
    words = ["-" if timestamp is None else clock_of(timestamp), event["level"] or "-", event["step"] or "-"]
    time_, level, step = (label(str(word)) for word in words)
    if not is_terminal():
        _write(sys.stdout, "\t".join([time_, level, step, message]))
        return
    colour = _LEVEL_COLOURS.get(level.upper(), "")
    _write(sys.stdout, " ".join([_coloured(time_, _DIM), _coloured(level, colour), _coloured(step, _DIM), ""]), end="")
    for line in message.split("\n"):
        show_line(line)


def show_result(name: str | None, number: int | None, text: str, spans: Sequence[Sequence[int]] | None) -> None:
    """A line that matched, with coloured matches, or with ``spans=None`` one around it. ``name`` of the run and ``number``, from 1, are before
    it if they are not None, each with a colon, or with a hyphen before a line that did not match, as of grep."""
    sign = "-" if spans is None else ":"
    head = "" if name is None else _coloured(label(name), _MAGENTA) + sign
    head += "" if number is None else _coloured(str(number), _GREEN) + sign
    _write(sys.stdout, head + (_marked(text, spans or ()) if is_terminal() else text))


def show_numbered(number: int, line: str, *, is_marked: bool) -> None:
    """A line of a log with its number, from 1, and a mark if it is the one in question; without control sequences, in a pipe too."""
    text = f"{'>' if is_marked else ' '} {number:6} {sanitize(without_styles(last_state(line)))}"
    _write(sys.stdout, _coloured(text, _HIT) if is_marked else text)


def show_text(text: str) -> None:
    """A sentence for a person, or a number for a program."""
    _write(sys.stdout, sanitize(text))


def show_script(text: str) -> None:
    """Lines of this program for a shell to read."""
    for line in text.split("\n"):
        show_text(line)


def report(text: str) -> None:
    """A message on stderr."""
    _write(sys.stderr, sanitize(f"runlake: {text}"))


def show_help(text: str) -> None:
    """How to call a command, on stderr, for a call without a command."""
    _write(sys.stderr, text)


def report_error(error: RunlakeError) -> None:
    """The problem, and the next step."""
    report(str(error))
    if error.next_step:
        _write(sys.stderr, sanitize(f"next: {error.next_step}"))


@dataclass
class ProgressLine:
    """Progress of a transfer or a search, on one line of stderr if that is a terminal. The line is erased at the end."""

    name: str
    clock_s: Callable[[], float] = time.monotonic
    _drawn_s: float = field(default=float("-inf"))
    _is_drawn: bool = False

    def update(self, done_bytes: int, total_bytes: int | None) -> None:
        """Draw it again with a size."""
        total = f" of {size_of(total_bytes)} ({done_bytes * 100 // total_bytes} %)" if total_bytes else ""
        self.show(f"  {size_of(done_bytes)}{total}")

    def show(self, figures: str) -> None:
        """Draw it again, ten times a second at most."""
        import shutil

        now_s = self.clock_s()
        if now_s - self._drawn_s < _REDRAW_S or not sys.stderr.isatty() or os.environ.get("TERM") == "dumb":
            return
        self._drawn_s, self._is_drawn = now_s, True
        room = max(shutil.get_terminal_size().columns - 1 - len(figures), 0)
        _write(sys.stderr, "\r" + _fitted(label(self.name), room) + figures + "\x1b[K", end="")

    def report(self, text: str) -> None:
        """A message on stderr; the progress continues below it."""
        self.erase()
        report(text)

    def erase(self) -> None:
        """Make room for other output."""
        if self._is_drawn:
            _write(sys.stderr, "\r\x1b[K", end="")
            self._is_drawn, self._drawn_s = False, float("-inf")

    def __enter__(self) -> ProgressLine:
        return self

    def __exit__(self, *_: object) -> None:
        self.erase()


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


def ago_of(at_ms: int) -> str:
    """How long ago a time was, as ``5 min ago``."""
    seconds = max(0, int(time.time() - at_ms / 1000))
    size, unit = next(((size, unit) for size, unit in ((86_400, "d"), (3_600, "h"), (60, "min")) if seconds >= size), (1, "s"))
    return f"{seconds // size} {unit} ago"


def clock_of(at_ms: int) -> str:
    """A time to the millisecond: ISO 8601, UTC."""
    return f"{time_of(at_ms)[:-1]}.{at_ms % 1000:03d}Z"


def short_duration_of(span_ms: int) -> str:
    """A short duration for people, as ``0.250 s``; from a minute on as ``0:01:02``."""
    return f"{span_ms / 1000:.3f} s" if span_ms < 60_000 else duration_of(span_ms)


def _write(stream: TextIO, text: str, end: str = "\n") -> None:
    """Characters that the stream's encoding lacks are replaced. Flushed, so that a reader sees each line at once."""
    encoding = stream.encoding or "utf-8"
    click.echo((text + end).encode(encoding, "replace").decode(encoding, "replace"), file=stream, nl=False, color=True)


def _has_colours(stream: TextIO) -> bool:
    """See https://no-color.org."""
    return stream.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


def _coloured(text: str, parameters: str) -> str:
    return f"\x1b[{parameters}m{text}{RESET}" if text and parameters and _has_colours(sys.stdout) else text


def _marked(text: str, spans: Sequence[Sequence[int]]) -> str:
    """Without the overwritten states, unless a match is in one."""
    earlier, last = from_last_state(text) if "\r" in text else (0, text)
    hidden = len(text) - len(last)
    shown, at = "", 0
    if earlier and all(begin >= hidden for begin, _ in spans):
        shown, text = f"[{earlier} overwritten] ", last.partition("\r")[0]
        spans = [(begin - hidden, end - hidden) for begin, end in spans]
    for begin, end in ((max(begin, 0), end) for begin, end in spans):
        if begin < at or end <= begin:
            continue
        shown += sanitize(without_styles(text[at:begin])) + _coloured(sanitize(without_styles(text[begin:end])), _HIT)
        at = end
    return shown + sanitize(without_styles(text[at:]))


def _width(text: str) -> int:
    """Columns of a terminal that a text occupies."""
    return len(text) if text.isascii() else sum(map(_char_width, text))


def _char_width(char: str) -> int:
    if unicodedata.category(char) in ("Mn", "Me", "Cf"):
        return 0
    return 2 if unicodedata.east_asian_width(char) in ("W", "F") else 1


def _fitted(text: str, columns: int) -> str:
    if _width(text) <= columns:
        return text
    while text and _width(text) >= columns:
        text = text[:-1]
    return f"{text}…" if columns > 0 else ""
