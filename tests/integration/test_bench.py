"""The measurements of ``make bench`` still work: a sample of them, at sizes that are not representative of speed."""

from __future__ import annotations

import subprocess
import sys

import pytest

from bench.measures import ALL
from local.state import PROJECT
from tests.integration.stacks import COMMAND_S
from tests.sampling import sample


def test_measurements_run_at_their_small_sizes() -> None:
    measured = sample(ALL, "measurements", default=5)
    names = [measurement.name for measurement in measured]
    done = subprocess.run(
        [sys.executable, "-m", "bench", "--small", *names],
        cwd=PROJECT,
        capture_output=True,
        text=True,
        timeout=COMMAND_S,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-4000:]
    rows = [line for line in done.stdout.splitlines() if line.startswith("| ") and line.endswith("| now |")]
    assert len(rows) >= len(names)
    assert all(f"{name}: " in done.stderr for name in names)


def test_simulation_of_shards_runs() -> None:
    command = [
        sys.executable,
        "-m",
        "bench.pipeline_shards",
        *["--shards", "1", "--runs", "10", "--seconds", "4", "--warm-up", "1"],
    ]
    done = subprocess.run(command, cwd=PROJECT, capture_output=True, text=True, timeout=COMMAND_S, check=False)
    assert done.returncode == 0, done.stderr[-4000:]
    assert len(done.stdout.splitlines()) == 2


def test_unknown_measurement_is_an_error_that_lists_the_others() -> None:
    done = subprocess.run([sys.executable, "-m", "bench", "nonsense"], cwd=PROJECT, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert "no such measurement: nonsense" in done.stderr


@pytest.mark.parametrize("measurement", ALL, ids=lambda measurement: measurement.name)
def test_every_measurement_has_small_sizes_or_is_small(measurement: object) -> None:
    assert measurement.small or measurement.name in {"requests_of_appends", "package_size"}  # type: ignore[attr-defined]
