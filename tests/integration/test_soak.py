"""A short soak test, and a test of its checks."""

from __future__ import annotations

import random
import re
import subprocess
import sys

import pytest

from bench.soak_connector import Connector
from local.state import PROJECT


@pytest.mark.behavior("No acknowledged line is lost while the store fails and is killed under load.")
@pytest.mark.thorough
def test_nothing_acknowledged_is_lost_while_the_store_fails_and_is_killed() -> None:
    options = ["--connectors=12", "--seconds=8", "--kills=1", "--at-once=3", "--faults=0.1"]
    done = subprocess.run([sys.executable, "-m", "bench.soak", *options], cwd=PROJECT, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    acknowledged = re.search(r"lines acknowledged\D+([\d,]+)", done.stdout)
    assert acknowledged and int(acknowledged[1].replace(",", "")) > 0
    assert "the store was killed" in done.stdout


@pytest.mark.parametrize(
    ("order", "finding"),
    [
        ([0, 1, 2, 3], None),
        ([0, 1, 2, 3, 4], None),
        ([0, 1, 3], "1 acknowledged lines are lost"),
        ([0, 1, 2, 2, 3], "a line is there twice"),
        ([0, 2, 1, 3], "lines are out of order"),
        ([0, 1, 2, 3, 9], "a line was never sent"),
    ],
)
def test_the_judge(order: list[int], finding: str | None) -> None:
    """Line 4 was sent and never acknowledged: it may be in the log or not."""
    writer, other = (Connector(number, "", random.Random(0), sent=5, acknowledged=[0, 1, 2, 3]) for number in (7, 8))
    lines = [line for number in order for line in (writer.line(number), other.line(number))]
    found = writer.violations(lines)
    assert found == [] if finding is None else any(finding in each for each in found)


def test_the_judge_reads_every_letter() -> None:
    writer = Connector(7, "", random.Random(0), sent=1, acknowledged=[0])
    assert writer.violations([writer.line(0) + "x"]) == ["connector 7: a line was changed"]
