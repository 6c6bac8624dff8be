"""Start time of each function as on Lambda, relative to importing Chalice and boto3 alone; each in its own process, alternating."""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
from collections.abc import Mapping

from bench.bench_world import Function, lambda_variables
from bench.measure import Measure, reported

_HANDLERS = ("app", "authorize", "ingest", "compact", "sweep", "pipelines")
_ALONE = "import chalice, boto3"


def start_up(_: Function, rounds: int = 9) -> list[Measure]:
    """Import, settings, clients, services, and the issuer's keys; no request."""
    alone: list[float] = []
    spent: dict[str, list[float]] = {handler: [] for handler in _HANDLERS}
    for _round in range(rounds):
        alone.append(_seconds(_ALONE, {}))
        for handler, times in spent.items():
            with lambda_variables(f"app.{handler}") as variables:
                times.append(_seconds("import app", variables))
    alone_s = statistics.median(alone)
    return [
        reported(
            f"start of the function {handler} over `{_ALONE}`, p50 of {rounds}",
            f"{statistics.median(times) / alone_s:.2f} ({statistics.median(times) * 1000:.0f} ms over {alone_s * 1000:.0f} ms)",
        )
        for handler, times in spent.items()
    ]


def _seconds(statement: str, variables: Mapping[str, str]) -> float:
    code = f"import time; s = time.perf_counter(); {statement}; print(time.perf_counter() - s)"
    done = subprocess.run([sys.executable, "-c", code], env=os.environ | variables, check=True, capture_output=True, text=True)
    return float(done.stdout.splitlines()[-1])
