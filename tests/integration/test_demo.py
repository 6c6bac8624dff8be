"""``make demo``, which checks every log itself and prints the stored objects."""

from __future__ import annotations

import os
import re
import subprocess
import sys

from local.state import PROJECT
from tests.integration.stacks import COMMAND_S


def test_the_demo_runs_the_main_job_and_finds_every_log_exact() -> None:
    environment = os.environ | {"COLUMNS": "140"}
    done = subprocess.run(
        [sys.executable, "-m", "local.demo"], cwd=PROJECT, env=environment, capture_output=True, text=True, timeout=COMMAND_S
    )
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    assert done.stdout.count("the same") == 5 and "DIFFERS" not in done.stdout
    assert len(re.findall(r"│ closed +│ whole", done.stdout)) == 4
    assert len(re.findall(r"│ abandoned +│ whole", done.stdout)) == 1
    assert '"status": "success"' in done.stdout
    counts = dict(re.findall(r"│ (API requests|S3 PUT, copy, LIST|DynamoDB write units|SNS reports) +│ ([\d,]+) ", done.stdout))
    assert len(counts) == 4 and all(int(count.replace(",", "")) > 20 for count in counts.values())
