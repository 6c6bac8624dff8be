"""Start time of the API function as on Lambda, relative to importing Chalice and boto3 alone; each in its own process, alternating."""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
from collections.abc import Mapping

from bench.bench_world import Function, lambda_variables
from bench.measure import Measure, reported

_ALONE = "import chalice, boto3"


def start_up(_: Function, rounds: int = 9) -> list[Measure]:
    """Import, settings, clients, services, and the issuer's keys; no request."""
    alone: list[float] = []
    started: list[float] = []
    for _round in range(rounds):
        alone.append(_seconds(_ALONE, {}))
        with lambda_variables("app.app") as variables:
            started.append(_seconds("import app", variables))
    alone_s, started_s = statistics.median(alone), statistics.median(started)
    figures = f"{started_s / alone_s:.2f} ({started_s * 1000:.0f} ms over {alone_s * 1000:.0f} ms)"
    return [reported(f"start of the function app over `{_ALONE}`, p50 of {rounds}", figures)]


def _seconds(statement: str, variables: Mapping[str, str]) -> float:
    code = f"import time; s = time.perf_counter(); {statement}; print(time.perf_counter() - s)"
    done = subprocess.run([sys.executable, "-c", code], env=os.environ | variables, check=True, capture_output=True, text=True)
    return float(done.stdout.splitlines()[-1])
