"""Random days against the deployed local stack; ``make soak`` has more of them."""

from __future__ import annotations

from pathlib import Path

import pytest

from client.tests.mortal_program import Program
from client.tests.random_days import Day
from tests.integration.stacks import Stack

SEEDS = 10


@pytest.mark.slow
@pytest.mark.behavior("Over kills, signals, disk errors and outages each line is stored once, counted, or drainable.")
@pytest.mark.parametrize("seed", range(SEEDS))
def test_random_day_loses_no_line_silently(seed: int, stack: Stack, program: Program, tmp_path: Path) -> None:
    Day(seed, stack.api_url, program, str(tmp_path / "spool")).check()
