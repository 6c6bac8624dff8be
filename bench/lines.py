"""``python -m bench.lines FILE…``: recognized columns of logs, and parsing speed on one core. Without files: the speed of each
format.

Speed is processor time, the best of several runs, from lines in memory to events.
"""

from __future__ import annotations

import argparse
from collections import deque
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from time import process_time

from chalicelib.lines.events import LineEvent, events
from chalicelib.lines.format_detection import detect_format
from chalicelib.lines.formats import FORMATS, PLAIN, LogFormat
from chalicelib.lines.text import number_lines
from chalicelib.lines.timestamps import TimestampParser

_LINES = 20_000
_LINE_BYTES = 120
_RUNS = 7
_FILLING = " processed table warehouse.public.orders of the service in one go and without anything else to tell of it at all"
_TRACE = 'Traceback (most recent call last):\n  File "orders.py", line 12, in load\n    rows = source.fetch(table)\nValueError: no such table'
_INSIDE = ("json", "logfmt", "kafka")
"""Formats with delimited messages."""


def main() -> None:
    """Print a table."""
    parser = argparse.ArgumentParser(prog="python -m bench.lines", description=__doc__)
    parser.add_argument("files", nargs="*", type=Path, help="log files to analyze")
    files = parser.parse_args().files
    if missing := [path for path in files if not path.is_file()]:
        parser.error(f"no such file: {missing[0]}")
    print_files(files) if files else print_formats()


def print_files(files: Sequence[Path]) -> None:
    """For each file: format, and the share of events with each column."""
    print(f"{'file':24} {'format':20} {'lines':>8} {'events':>8} {'time':>7} {'level':>7} {'logger':>7} {'MB/s':>6}")
    for path in files:
        raw = path.read_bytes()
        lines = [line for _, line in number_lines([raw])]
        chosen = detect_format(lines)
        clock = TimestampParser(reference_us=int(path.stat().st_mtime) * 1_000_000)
        recognized = list(events(enumerate(lines), chosen, clock))
        shares = [_share(recognized, field) for field in ("timestamp", "level", "logger")]
        speed = len(raw) / 1e6 / max(_seconds(lines, chosen), 1e-9)
        print(f"{path.name:24} {chosen.name:20} {len(lines):8} {len(recognized):8} {' '.join(shares)} {speed:6.0f}")


def print_formats() -> None:
    """Each format on its own lines, then hard cases: no format, a format that was not detected, stack traces."""
    print(f"{'lines':28} {'bytes':>6} {'µs/line':>8} {'MB/s':>6}")
    for each in FORMATS:
        _print_speed(each.name, _lines_of(each), each)
    prints = [b"processed table warehouse.public.orders of the service, " * 2] * _LINES
    _print_speed("plain, prints", prints, PLAIN)
    python, spark = (_lines_of(each) for each in FORMATS if each.name in ("python", "spark"))
    mixed = [line for pair in zip(python, spark, strict=True) for line in pair]
    _print_speed("half python, half spark", mixed, detect_format(mixed))
    _print_speed("half of them prints", [line for pair in zip(python, prints, strict=True) for line in pair], detect_format(python))
    trace = _TRACE.encode().split(b"\n")
    _print_speed("a trace after each", [line for header in python for line in (header, *trace)], detect_format(python))


def _lines_of(each: LogFormat) -> list[bytes]:
    """Lines of 120 bytes where the format permits; groups of ten share a second."""
    start = datetime(2026, 11, 21, 3, 12, 45, tzinfo=UTC)
    lines = []
    for number in range(_LINES):
        moment = start + timedelta(seconds=number // 10)
        line = each.example.replace("03:12:45", f"{moment:%H:%M:%S}").replace("031245", f"{moment:%H%M%S}")
        if each.name in _INSIDE:
            line = line.replace("42 rows", ("42 rows" + _FILLING)[: 7 + _LINE_BYTES - len(line)])
        lines.append((line + _FILLING)[:_LINE_BYTES].encode() if each.name not in _INSIDE else line.encode())
    return lines


def _print_speed(name: str, lines: Sequence[bytes], chosen: LogFormat) -> None:
    seconds, size = _seconds(lines, chosen), sum(map(len, lines)) + len(lines)
    print(f"{name:28} {size // len(lines):6} {seconds / len(lines) * 1e6:8.2f} {size / 1e6 / seconds:6.0f}")


def _seconds(lines: Sequence[bytes], chosen: LogFormat) -> float:
    numbered = list(enumerate(lines))

    def once() -> float:
        started = process_time()
        deque(events(numbered, chosen, TimestampParser(reference_us=1_795_000_000_000_000)), maxlen=0)
        return process_time() - started

    return min(once() for _ in range(_RUNS))


def _share(recognized: Sequence[LineEvent], field: str) -> str:
    return f"{100 * sum(getattr(event.parsed, field) is not None for event in recognized) / max(len(recognized), 1):6.2f}%"


if __name__ == "__main__":
    main()
