"""Runs a job of ``glue_jobs/`` as on AWS: in its own process, configured only by the stack's name."""

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
    """Run a job and return its exit code. Raises LocalError if the job or the stack does not exist. SIGINT also reaches the job.
    The function waits for the job's exit, so that its output precedes the prompt."""
    jobs = sorted(path.stem for path in (PROJECT / "glue_jobs").glob("*.py") if "def main(" in path.read_text())
    if name not in jobs:
        raise LocalError(f"no such job: name={name!r} jobs={','.join(jobs)}")
    stack = read_stack_description(port)
    command = [sys.executable, "-m", f"glue_jobs.{name}", "--stack-name", stack["stack_name"], *arguments]
    with subprocess.Popen(command, cwd=PROJECT, env=environment_of(stack)) as process:
        try:
            return process.wait()
        except KeyboardInterrupt:
            return _stopped(process)


def _stopped(process: subprocess.Popen[bytes]) -> int:
    """Wait for an interrupted job to end; a second ^C kills it."""
    try:
        process.wait(_STOP_WITHIN_S)
    except (KeyboardInterrupt, subprocess.TimeoutExpired):
        process.kill()
    return INTERRUPTED


def read_stack_description(port: int) -> dict[str, Any]:
    """``stack.json`` of the stack that runs on a port. Raises LocalError."""
    stack = StackFolder(port).read()
    if stack is None:
        raise LocalError(f"no stack runs on the port, start one with make up PORT={port}: port={port}")
    return stack


def environment_of(stack: Mapping[str, Any]) -> dict[str, str]:
    """This process's environment, with the AWS settings replaced by those of a stack (``stack.json``)."""
    return without_aws(os.environ) | {
        "AWS_ENDPOINT_URL": stack["aws_endpoint_url"],
        "AWS_DEFAULT_REGION": stack["region"],
        "AWS_ACCESS_KEY_ID": stack["aws_access_key_id"],
        "AWS_SECRET_ACCESS_KEY": stack["aws_secret_access_key"],
    }
