"""``python -m bench [NAME …]``: measure, print the table, and with ``--write`` keep it in docs/performance.md."""

from __future__ import annotations

import argparse
import contextlib
import io
import sys
import time

from bench.bench_world import bench_world
from bench.measure import Measure
from bench.measures import ALL
from bench.page import PAGE, keep, table


def main() -> int:
    """Exit code 1 when a figure was missed."""
    names = [measure.__name__ for measure in ALL]
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"which ones; all by default: {', '.join(names)}")
    parser.add_argument("--write", action="store_true", help=f"keep the table in {PAGE.name}")
    arguments = parser.parse_args()
    if unknown := set(arguments.names) - set(names):
        parser.error(f"no such measurement: {', '.join(sorted(unknown))}")
    rows: list[Measure] = []
    with bench_world() as function:
        for measure in ALL:
            if not arguments.names or measure.__name__ in arguments.names:
                started_s = time.perf_counter()
                with contextlib.redirect_stdout(io.StringIO()):  # the function's own logs and metrics
                    rows += measure(function)
                print(f"{measure.__name__}: {time.perf_counter() - started_s:.0f} s", file=sys.stderr)
    print(table(rows))
    if arguments.write:
        keep(rows, "measured")
    return 0 if all(row.reached for row in rows) else 1


if __name__ == "__main__":
    sys.exit(main())
