"""``python -m bench.lines FILE…``: what is recognized of logs, and how fast, on one core. Without files: the speed of each format.

Speed is of the process's own time, the best of some runs, from lines in memory to events.
"""

from __future__ import annotations

import argparse
from collections import deque
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from time import process_time

from chalicelib.lines.choice import choose
from chalicelib.lines.clock import Clock
from chalicelib.lines.events import Event, events
from chalicelib.lines.formats import FORMATS, PLAIN, Format
from chalicelib.lines.text import numbered

_LINES = 20_000
_LINE_BYTES = 120
_RUNS = 7
_FILLING = " processed table warehouse.public.orders of the service in one go and without anything else to tell of it at all"
_TRACE = 'Traceback (most recent call last):\n  File "orders.py", line 12, in load\n    rows = source.fetch(table)\nValueError: no such table'
_INSIDE = ("json", "logfmt", "kafka")
"""Their messages have an end."""


def main() -> None:
    """Print a table."""
    parser = argparse.ArgumentParser(prog="python -m bench.lines", description=__doc__)
    parser.add_argument("files", nargs="*", type=Path, help="logs to look at")
    files = parser.parse_args().files
    if missing := [path for path in files if not path.is_file()]:
        parser.error(f"no such file: {missing[0]}")
    print_files(files) if files else print_formats()


def print_files(files: Sequence[Path]) -> None:
    """What each file's lines say, in shares of its events."""
    print(f"{'file':24} {'format':20} {'lines':>8} {'events':>8} {'time':>7} {'level':>7} {'logger':>7} {'MB/s':>6}")
    for path in files:
        raw = path.read_bytes()
        lines = [line for _, line in numbered([raw])]
        chosen = choose(lines)
        clock = Clock(reference_us=int(path.stat().st_mtime) * 1_000_000)
        found = list(events(enumerate(lines), chosen, clock))
        shares = [_share(found, field) for field in ("timestamp", "level", "logger")]
        speed = len(raw) / 1e6 / max(_seconds(lines, chosen), 1e-9)
        print(f"{path.name:24} {chosen.name:20} {len(lines):8} {len(found):8} {' '.join(shares)} {speed:6.0f}")


def print_formats() -> None:
    """Each format on lines of its own, then the hard cases: nothing known, another format chosen, stack traces."""
    print(f"{'lines':28} {'bytes':>6} {'µs/line':>8} {'MB/s':>6}")
    for each in FORMATS:
        _print_speed(each.name, _lines_of(each), each)
    prints = [b"processed table warehouse.public.orders of the service, " * 2] * _LINES
    _print_speed("plain, prints", prints, PLAIN)
    python, spark = (_lines_of(each) for each in FORMATS if each.name in ("python", "spark"))
    mixed = [line for pair in zip(python, spark, strict=True) for line in pair]
    _print_speed("half python, half spark", mixed, choose(mixed))
    _print_speed("half of them prints", [line for pair in zip(python, prints, strict=True) for line in pair], choose(python))
    trace = _TRACE.encode().split(b"\n")
    _print_speed("a trace after each", [line for header in python for line in (header, *trace)], choose(python))


def _lines_of(each: Format) -> list[bytes]:
    """Lines of 120 bytes where they can be as long as one likes. Ten of them share a second."""
    start = datetime(2026, 11, 21, 3, 12, 45, tzinfo=UTC)
    lines = []
    for number in range(_LINES):
        moment = start + timedelta(seconds=number // 10)
        line = each.example.replace("03:12:45", f"{moment:%H:%M:%S}").replace("031245", f"{moment:%H%M%S}")
        if each.name in _INSIDE:
            line = line.replace("42 rows", ("42 rows" + _FILLING)[: 7 + _LINE_BYTES - len(line)])
        lines.append((line + _FILLING)[:_LINE_BYTES].encode() if each.name not in _INSIDE else line.encode())
    return lines


def _print_speed(name: str, lines: Sequence[bytes], chosen: Format) -> None:
    seconds, size = _seconds(lines, chosen), sum(map(len, lines)) + len(lines)
    print(f"{name:28} {size // len(lines):6} {seconds / len(lines) * 1e6:8.2f} {size / 1e6 / seconds:6.0f}")


def _seconds(lines: Sequence[bytes], chosen: Format) -> float:
    numbered = list(enumerate(lines))

    def once() -> float:
        started = process_time()
        deque(events(numbered, chosen, Clock(reference_us=1_795_000_000_000_000)), maxlen=0)
        return process_time() - started

    return min(once() for _ in range(_RUNS))


def _share(found: Sequence[Event], field: str) -> str:
    return f"{100 * sum(getattr(event.parsed, field) is not None for event in found) / max(len(found), 1):6.2f}%"


if __name__ == "__main__":
    main()
