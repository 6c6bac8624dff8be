"""``python -m bench.spark_columnar FILE…``: the columnar parser against the row parser, both from the bytes of log files to Arrow columns.

Compares all columns, and prints the speeds on one core and the share of lines that the row parser still read.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

import numpy as np
import pyarrow as pa

from bench.measure import cpu_s
from chalicelib.lines.events import events
from chalicelib.lines.format_detection import detect_format
from chalicelib.lines.formats import LogFormat
from chalicelib.lines.text import number_lines
from chalicelib.lines.timestamps import TimestampParser
from glue_jobs.columnar.parser import ColumnarParser

_MB = 1e6


def _best(work: Callable[[], object], runs: int) -> float:
    return min(cpu_s(work) for _ in range(runs))


def _by_rows(body: bytes, format: LogFormat, clock: TimestampParser) -> list[pa.Array]:
    rows = [(event.line, *event.parsed, event.raw + b"\n") for event in events(number_lines([body]), format, clock)]
    types = (pa.int64(), pa.timestamp("us", "UTC"), pa.string(), pa.string(), pa.string(), pa.binary())
    return [pa.array(column, type_) for column, type_ in zip(zip(*rows, strict=True), types, strict=True)]


def _by_columns(body: bytes, parser: ColumnarParser) -> list[pa.Array]:
    columns = parser.parse(body)
    places = np.arange(len(columns))
    texts = (columns.levels(places), columns.loggers(places), columns.messages(places), columns.raws(places))
    return [pa.array(columns.line), columns.timestamps(places), *texts]


def compare(paths: Sequence[Path]) -> bool:
    """Print each file's format and speeds; whether all columns of all files are the same. Times without a year take the file's."""
    print("| log | format | lines by the row parser | MB/s a core, columnar and row by row | |\n|---|---|---|---|---|")
    is_same = True
    for path in paths:
        body = path.read_bytes()
        format, clock = detect_format(body.split(b"\n")), TimestampParser(reference_us=int(path.stat().st_mtime) * 1_000_000)
        parser = ColumnarParser(format, clock)
        body += b"" if body.endswith(b"\n") else b"\n"
        equal = all(map(pa.Array.equals, _by_rows(body, format, clock), _by_columns(body, parser)))
        row_s, columnar_s = _best(partial(_by_rows, body, format, clock), 5), _best(partial(_by_columns, body, parser), 5)
        rates = f"{len(body) / _MB / columnar_s:.0f} and {len(body) / _MB / row_s:.1f}"
        share = parser.row_lines / max(parser.lines, 1)
        print(f"| {path.name} | `{format.name}` | {share:.1%} | {rates} | {'the same' if equal else '**DIFFERENT**'} |", flush=True)
        is_same &= equal
    return is_same


def main() -> int:
    """Exit code 1 if any column differs."""
    parser = argparse.ArgumentParser(prog="python -m bench.spark_columnar", description=__doc__)
    parser.add_argument("files", nargs="+", type=Path, help="log files")
    return 0 if compare(parser.parse_args().files) else 1


if __name__ == "__main__":
    sys.exit(main())
