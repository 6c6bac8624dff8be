"""The command line of measurements: which ones, at which size, and where the rows are stored."""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable, Sequence
from typing import TextIO

from bench import figures
from bench.measure import Measure, Measurement

Run = Callable[[Measurement, bool], list[Measure]]
"""Runs one measurement; True: at its small sizes."""


def parser_of(module: str, description: str | None, names: Sequence[str], long: Sequence[str] = ()) -> argparse.ArgumentParser:
    """``long``: measurements that run only when named."""
    others = f"; and {', '.join(long)}" if long else ""
    parser = argparse.ArgumentParser(prog=f"python -m {module}", description=description)
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"measurements to run; default all: {', '.join(names)}{others}")
    size = parser.add_mutually_exclusive_group()
    size.add_argument("--write", action="store_true", help="store the rows in docs/figures.json; then run python -m docs.generate")
    size.add_argument("--small", action="store_true", help="use sizes that only show that the measurements work; ignore goals")
    return parser


def parse_selection(parser: argparse.ArgumentParser, names: Sequence[str], long: Sequence[str] = ()) -> argparse.Namespace:
    """Parse the arguments, with the names of the measurements to run. Exits if a name is unknown."""
    arguments = parser.parse_args()
    if unknown := set(arguments.names) - {*names, *long}:
        parser.error(f"no such measurement: {', '.join(sorted(unknown))}")
    arguments.names = arguments.names or list(names)
    return arguments


def measure_all(
    measurements: Sequence[Measurement], run: Run, table: str, *, write: bool, small: bool, out: TextIO = sys.stdout
) -> int:
    """Run the measurements and print their rows as they arrive; with ``write`` store them in a table of the page.

    Exit code 1 if a goal was missed or a measurement failed; the remaining ones still run.
    """
    failed: list[str] = []
    print("\n".join(figures.HEAD), file=out, flush=True)
    for measurement in measurements:
        started_s = time.perf_counter()
        try:
            rows = run(measurement, small)
        except Exception as error:
            failed.append(measurement.name)
            print(f"{measurement.name} failed: {type(error).__name__}: {error}", file=sys.stderr)
            continue
        if not small:
            failed += [row.what for row in rows if row.reached is False]
        print(f"{measurement.name}: {time.perf_counter() - started_s:.0f} s", file=sys.stderr)
        for row in rows:
            print(figures.line(row), file=out, flush=True)
        if write:
            figures.save(rows, table, measurement.name, measurement.code)
    if failed:
        print(f"missed or failed: {'; '.join(failed)}", file=sys.stderr)
    return 1 if failed else 0
