"""``make bench-spark``: what the jobs on Spark are measured by; with ``--write`` kept in docs/performance.md.

Each measurement is a process of its own: Spark's session, its memory and what it has warmed up are no other's.
"""

from __future__ import annotations

import argparse
import importlib
import json
import subprocess
import sys
import time
from dataclasses import asdict

from bench.measure import Measure
from bench.page import PAGE, keep, table

MODULES = ("spark_planning", "spark_dataset", "spark_compaction", "spark_upkeep", "spark_pipelines")
"""Each has ``measure() -> list[Measure]``."""


def main() -> int:
    """Exit code 1 when a figure was missed."""
    parser = argparse.ArgumentParser(prog="python -m bench.spark", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"which ones; all by default: {', '.join(MODULES)}")
    parser.add_argument("--write", action="store_true", help=f"keep the table in {PAGE.name}")
    parser.add_argument("--alone", action="store_true", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if unknown := set(arguments.names) - set(MODULES):
        parser.error(f"no such measurement: {', '.join(sorted(unknown))}")
    if arguments.alone:
        rows = importlib.import_module(f"bench.{arguments.names[0]}").measure()
        print(json.dumps([asdict(row) for row in rows]))
        return 0
    measured = [row for name in arguments.names or MODULES for row in _measured(name)]
    print(table(measured))
    if arguments.write:
        keep(measured, "measured on Spark")
    return 0 if all(row.reached for row in measured) else 1


def _measured(name: str) -> list[Measure]:
    started_s = time.perf_counter()
    command = [sys.executable, "-m", "bench.spark", name, "--alone"]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
    print(f"{name}: {time.perf_counter() - started_s:.0f} s", file=sys.stderr)
    return [Measure(**row) for row in json.loads(done.stdout.splitlines()[-1])]


if __name__ == "__main__":
    sys.exit(main())
