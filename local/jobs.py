"""Runs a job of ``glue_jobs/`` as it would run beside AWS: in a process of its own, which knows nothing but the stack's name."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from typing import Any

from local.emulator import without_aws
from local.state import INTERRUPTED, PROJECT, LocalError, StackFolder

_STOP_WITHIN_S = 30.0


def run_job(name: str, port: int, arguments: Sequence[str]) -> int:
    """The job's exit code. Raises LocalError when there is no such job, or no stack. ^C goes to the job too, which says that it was
    stopped; it is waited for, so that nothing of it is printed later."""
    jobs = sorted(path.stem for path in (PROJECT / "glue_jobs").glob("*.py") if "def main(" in path.read_text())
    if name not in jobs:
        raise LocalError(f"no such job: name={name!r} jobs={','.join(jobs)}")
    stack = described_stack(port)
    command = [sys.executable, "-m", f"glue_jobs.{name}", "--stack-name", stack["stack_name"], *arguments]
    with subprocess.Popen(command, cwd=PROJECT, env=environment_of(stack)) as process:
        try:
            return process.wait()
        except KeyboardInterrupt:
            return _stopped(process)


def _stopped(process: subprocess.Popen[bytes]) -> int:
    """Give a job that was interrupted the time to end; another ^C kills it."""
    try:
        process.wait(_STOP_WITHIN_S)
    except (KeyboardInterrupt, subprocess.TimeoutExpired):
        process.kill()
    return INTERRUPTED


def described_stack(port: int) -> dict[str, Any]:
    """``stack.json`` of the stack that runs on a port. Raises LocalError."""
    stack = StackFolder(port).read()
    if stack is None:
        raise LocalError(f"no stack runs there, start one with make up PORT={port}: port={port}")
    return stack


def environment_of(stack: Mapping[str, Any]) -> dict[str, str]:
    """This process's, with the AWS of a stack (as ``stack.json`` describes it) and no other."""
    return without_aws(os.environ) | {
        "AWS_ENDPOINT_URL": stack["aws_endpoint_url"],
        "AWS_DEFAULT_REGION": stack["region"],
        "AWS_ACCESS_KEY_ID": stack["aws_access_key_id"],
        "AWS_SECRET_ACCESS_KEY": stack["aws_secret_access_key"],
    }
