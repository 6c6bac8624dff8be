"""A job of ``glue_jobs/`` in its own process, with Spark on two cores."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import Any

from local.state import PROJECT

PROCESSES = 2


def job(*arguments: str, name: str = "bulk_compact", check: bool = True) -> dict[str, Any]:
    """Run a job and return its summary. Raises RuntimeError if the job fails and ``check`` is set."""
    done = subprocess.run(
        command(*arguments, name=name), env=environment(), cwd=PROJECT, capture_output=True, text=True, timeout=1800
    )
    if not done.stdout or (check and done.returncode):
        raise RuntimeError(f"exit_code={done.returncode}\n{done.stdout}\n{done.stderr[-5000:]}")
    return summary_of(done.stdout)


def summary_of(printed: str) -> dict[str, Any]:
    """The summary of a job, the last line that it prints."""
    return dict(json.loads(printed.splitlines()[-1]))


def command(*arguments: str, name: str = "bulk_compact") -> list[str]:
    """The command that starts a job."""
    return [sys.executable, "-m", f"glue_jobs.{name}", *arguments]


def environment() -> dict[str, str]:
    """The environment of a job: Spark repeats a task whose worker died, as Glue does."""
    return os.environ | {"SPARK_MASTER": f"local[{PROCESSES},4]"}
