"""Jobs of ``glue_jobs/`` in one long-lived process for each environment: a JVM and Python's imports cost more than most jobs of
the tests.

A job runs like ``python -m glue_jobs.NAME``, by its ``main(argv)``, with its own Spark session on the existing JVM. Its changes
to the process (environment, services) are undone before the next job. Tests that kill jobs start real processes.
"""

from __future__ import annotations

import atexit
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from local.jobs import environment_of
from local.recording import recording
from local.state import PROJECT
from tests.integration.stacks import COMMAND_S

_SERVE = """
import contextlib, importlib, io, json, os, sys, traceback

import boto3
from chalicelib import composition

answers = os.fdopen(os.dup(1), "w")
os.dup2(2, 1)  # the JVM writes there too
before = dict(os.environ)
for line in sys.stdin:
    request = json.loads(line)
    os.environ.clear()
    os.environ.update(before)
    boto3.DEFAULT_SESSION = None
    composition.install(None)
    said, code = io.StringIO(), 1
    sys.argv = [request["name"], *request["arguments"]]
    with contextlib.redirect_stdout(said):
        try:
            code = importlib.import_module("glue_jobs." + request["name"]).main(request["arguments"]) or 0
        except SystemExit as end:
            code = end.code if isinstance(end.code, int) else 1 if end.code else 0
        except BaseException:
            traceback.print_exc()
    answers.write(json.dumps({"code": code, "stdout": said.getvalue()}) + "\\n")
    answers.flush()
"""


@dataclass(frozen=True, slots=True)
class Ended:
    """Like ``subprocess.CompletedProcess``. ``stderr`` is that of the process, for all its jobs: pytest shows it."""

    returncode: int
    stdout: str
    stderr: str = "see the captured output of the job's process"


def run_alone(stack: Mapping[str, object], name: str, *arguments: str) -> Ended:
    """Run a job as users do, with ``python -m local job`` in a separate process. Each job has a test that does this."""
    command = [sys.executable, "-m", "local", "job", "--port", str(stack["port"]), name, *arguments]
    done = subprocess.run(command, cwd=PROJECT, capture_output=True, text=True, timeout=COMMAND_S)
    return Ended(done.returncode, done.stdout, done.stderr)


CALLS_OF_JOBS = Path(tempfile.gettempdir(), f"runlake-calls-{os.getpid()}.jsonl")
"""File for the recorded AWS calls of all jobs: another environment would need another process."""
atexit.register(CALLS_OF_JOBS.unlink, missing_ok=True)
_running: dict[str, subprocess.Popen[str]] = {}


def run_job(stack: Mapping[str, object], name: str, *arguments: str) -> Ended:
    """Run a job against a stack, with the environment of this process."""
    given = environment_of(stack) | recording(CALLS_OF_JOBS)
    process = _process(given)
    assert process.stdin and process.stdout
    request = {"name": name, "arguments": ["--stack-name", str(stack["stack_name"]), *arguments]}
    process.stdin.write(json.dumps(request) + "\n")
    process.stdin.flush()
    line = process.stdout.readline()
    assert line, f"the process of the jobs ended exit_code={process.wait()}"
    answer = json.loads(line)
    return Ended(answer["code"], answer["stdout"])


def _process(environment: Mapping[str, str]) -> subprocess.Popen[str]:
    """The process of this environment; that of another environment is ended, because each holds a JVM."""
    key = json.dumps({name: value for name, value in environment.items() if name != "PYTEST_CURRENT_TEST"}, sort_keys=True)
    if key not in _running or _running[key].poll() is not None:
        stop()
        _running[key] = subprocess.Popen(
            [sys.executable, "-c", _SERVE],
            cwd=PROJECT,
            env=dict(environment),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
    return _running[key]


@atexit.register
def stop() -> None:
    """End the running processes."""
    while _running:
        _, process = _running.popitem()
        process.communicate()
