"""The columnar parser against the row parser, both from the bytes of a log to Arrow columns, on one core.

``python -m bench.spark_columnar FILE…`` compares their events of log files, and prints which share of the lines the row parser still read.

All lines differ in time and message, so that the row parser's caches do not repeat themselves; every fiftieth record is an error with a
stack trace, whose lines are joined.
"""

from __future__ import annotations

import argparse
import random
import sys
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime
from functools import partial
from pathlib import Path

import numpy as np
import pyarrow as pa

from bench.measure import Measure, cpu_s
from chalicelib.lines.events import events
from chalicelib.lines.format_detection import detect_format
from chalicelib.lines.formats import LogFormat, format_named
from chalicelib.lines.text import number_lines
from chalicelib.lines.timestamps import TimestampParser
from glue_jobs.columnar.parser import ColumnarParser

_HEADS = {
    "python": "{time:%Y-%m-%d %H:%M:%S},{ms:03} - {logger} - {level} - ",
    "spark": "{time:%y/%m/%d %H:%M:%S} {level} {logger}: ",
    "log4j": "{time:%Y-%m-%d %H:%M:%S},{ms:03} {level} [main] org.example.{logger}: ",
    "openmetadata": "[{time:%Y-%m-%d %H:%M:%S}] {level:8} {{metadata.{logger}:ingestion:{ms}}} - ",
}
_LEVELS, _LOGGERS = ("INFO", "INFO", "INFO", "DEBUG", "WARNING"), ("orders.load", "orders.write", "shop.model.cache")
_TRACE = 'Traceback (most recent call last):\n  File "orders.py", line 12, in load\n    rows = source.fetch(table)\nValueError: no such table\n'
_FIRST_S, _EVERY = 1_800_000_000, 50
_GOAL = 6
_MB = 1e6


def measure(records: int = 60_000, runs: int = 5) -> list[Measure]:
    """The speed of each format."""
    return [_measured(name, records, runs) for name in _HEADS]


def log_of(name: str, records: int) -> bytes:
    """A log of a format, the same in every run."""
    return "".join(_records(_HEADS[name], records)).encode()


def _records(head: str, records: int) -> Iterator[str]:
    numbers = random.Random(1)
    for number in range(records):
        is_error = number % _EVERY == _EVERY - 1
        yield head.format(
            time=datetime.fromtimestamp(_FIRST_S + number, UTC),
            ms=numbers.randrange(1000),
            level="ERROR" if is_error else numbers.choice(_LEVELS),
            logger=numbers.choice(_LOGGERS),
        )
        yield f"loaded {numbers.randrange(10**6)} rows of table shop.orders_{numbers.randrange(999)} in {numbers.random():.3f} s from "
        yield f"s3://bucket/{numbers.randrange(10**9):x}\n{_TRACE if is_error else ''}"


def _measured(name: str, records: int, runs: int) -> Measure:
    body, format = log_of(name, records), format_named(name)
    parser = ColumnarParser(format, TimestampParser())
    row_s, columnar_s = (
        _best(work, runs) for work in (partial(_by_rows, body, format, TimestampParser()), partial(_by_columns, body, parser))
    )
    by_rows, by_columns = len(body) / _MB / row_s, len(body) / _MB / columnar_s
    share = f"{100 * parser.row_lines / parser.lines:.1f} % of lines by the row parser"
    return Measure(
        f"columnar parser over the row parser, both to Arrow columns, lines that differ, format {name}",
        f"at least {_GOAL}",
        f"{row_s / columnar_s:.1f} ({by_columns:.0f} over {by_rows:.1f} MB/s a core; {share})",
        row_s >= _GOAL * columnar_s,
    )


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
