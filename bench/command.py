"""What commands that measure have in common: which measurements, and where the table goes."""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable, Sequence

from bench.measure import Measure
from bench.page import PAGE, keep, table


def parser_of(module: str, description: str | None, names: Sequence[str], long: Sequence[str] = ()) -> argparse.ArgumentParser:
    """``long``: measurements that are made only when they are named."""
    others = f"; and {', '.join(long)}" if long else ""
    parser = argparse.ArgumentParser(prog=f"python -m {module}", description=description)
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"which ones; all by default: {', '.join(names)}{others}")
    parser.add_argument("--write", action="store_true", help=f"keep the table in {PAGE.name}")
    return parser


def chosen(parser: argparse.ArgumentParser, names: Sequence[str], long: Sequence[str] = ()) -> argparse.Namespace:
    """What the command was given, with the names of what is to be measured. Ends the process where one is unknown."""
    given = parser.parse_args()
    if unknown := set(given.names) - {*names, *long}:
        parser.error(f"no such measurement: {', '.join(sorted(unknown))}")
    given.names = given.names or list(names)
    return given


def measured(names: Sequence[str], measure: Callable[[str], list[Measure]], part: str, *, write: bool) -> int:
    """Make the measurements, tell how long each took, print the table; with ``write`` keep it in ``part`` of the page. Exit code 1 when a
    figure was missed."""
    rows: list[Measure] = []
    for name in names:
        started_s = time.perf_counter()
        rows += measure(name)
        print(f"{name}: {time.perf_counter() - started_s:.0f} s", file=sys.stderr)
    print(table(rows))
    if write:
        keep(rows, part)
    return 0 if all(row.reached for row in rows) else 1
