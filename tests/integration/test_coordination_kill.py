"""Killed workers, different clocks and a failing store: ``bench.coordination_kill`` checks the logs of the workers."""

from __future__ import annotations

import re
import subprocess
import sys

import pytest

from local.state import PROJECT
from tests.integration.stacks import COMMAND_S


@pytest.mark.behavior("Processes that are killed lose no partition, and none has two holders.")
@pytest.mark.thorough
def test_no_partition_is_lost_or_held_twice() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "bench.coordination_kill"], cwd=PROJECT, capture_output=True, text=True, timeout=COMMAND_S
    )
    print(done.stdout)  # contains the seed
    assert done.returncode == 0, done.stdout + done.stderr[-3000:]
    told = {name: int(count) for count, name in re.findall(r"(\d+) (killed|acquired|completed|taken over|faults)", done.stdout)}
    assert told["faults"] == 0 and told["completed"] >= 200 - told["killed"]
    assert told["killed"] >= 5 and told["taken over"] >= 1 and told["acquired"] > 200, "there was something to survive"
