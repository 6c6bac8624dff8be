"""``make bench-spark``: what the jobs on Spark are measured by; with ``--write`` kept in docs/performance.md.

Each measurement is a process of its own: Spark's session, its memory and what it has warmed up are no other's.
"""

from __future__ import annotations

import argparse
import importlib
import json
import subprocess
import sys
from dataclasses import asdict

from bench.command import chosen, measured, parser_of
from bench.measure import Measure

MODULES = ("spark_planning", "spark_dataset", "spark_compaction", "spark_upkeep", "spark_pipelines")
"""Each has ``measure() -> list[Measure]``."""


def main() -> int:
    """Exit code 1 when a figure was missed."""
    parser = parser_of("bench.spark", __doc__, MODULES)
    parser.add_argument("--alone", action="store_true", help=argparse.SUPPRESS)
    given = chosen(parser, MODULES)
    if given.alone:
        rows = importlib.import_module(f"bench.{given.names[0]}").measure()
        print(json.dumps([asdict(row) for row in rows]))
        return 0
    return measured(given.names, _in_a_process, "measured on Spark", write=given.write)


def _in_a_process(name: str) -> list[Measure]:
    command = [sys.executable, "-m", "bench.spark", name, "--alone"]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
    return [Measure(**row) for row in json.loads(done.stdout.splitlines()[-1])]


if __name__ == "__main__":
    sys.exit(main())
