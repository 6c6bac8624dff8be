"""From ``pip install`` to the first stored line of a job with an IAM role: ``python -m bench.first_line``; ``--write`` stores the row for
docs/performance.md.

A new virtual environment, the client with its extra ``aws`` and nothing of pip's cache, temporary credentials of the emulator's STS, a command
under ``runlake exec``, and its line read back: at the address for jobs of a private stack, which is up before the clock starts.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from contextlib import closing
from pathlib import Path
from typing import Any

from bench.figures import PROJECT, print_rows, save
from bench.measure import Measure, Measurement
from local import control, deploy
from local.emulator import free_port

GOAL_S = 120
_POLICY, _ROLE = "/runlake/policy", "first"
_FQN, _LINE = "nightly.orders", "hello"


def first_line(stack: Mapping[str, Any], folder: Path) -> list[Measure]:
    """Seconds until the line is read back."""
    environment = _environment_of_a_job(stack, folder)
    began_s, before = time.perf_counter(), os.times()
    venv = folder / "venv"
    _run([sys.executable, "-m", "venv", str(venv)], environment)
    _run([str(venv / "bin" / "pip"), "install", "-q", "--no-cache-dir", "./client[aws]"], environment)
    installed_s = time.perf_counter()
    runlake = str(venv / "bin" / "runlake")
    _run([runlake, "exec", _FQN, "--run-id", "1", "--", "echo", _LINE], environment)
    stored = _run([runlake, "cat", _FQN, "1"], environment).splitlines()
    ended_s, after = time.perf_counter(), os.times()
    cpu_s = (after.children_user + after.children_system) - (before.children_user + before.children_system)
    assert stored[0] == _LINE, stored
    return [
        Measure(
            "from `pip install` to the first stored line of a job with a role, read back",
            f"below {GOAL_S} s",
            f"{ended_s - began_s:.1f} s, of which installing {installed_s - began_s:.1f} s; {cpu_s:.1f} s of processor time",
            ended_s - began_s < GOAL_S,
        )
    ]


def _environment_of_a_job(stack: Mapping[str, Any], folder: Path) -> dict[str, str]:
    """As on a machine of AWS with the role, which the policy of the stage grants its pipelines."""
    names = {scope: [f"{_FQN.partition('.')[0]}.*"] for scope in ("logs:write", "logs:read")}
    policy = {"principals": {f"arn:aws:sts::000000000000:assumed-role/{_ROLE}": names}}
    endpoint = stack["aws_endpoint_url"]
    with closing(deploy.client("ssm", endpoint)) as ssm, closing(deploy.client("sts", endpoint)) as sts:
        ssm.put_parameter(Name=_POLICY, Value=json.dumps(policy), Type="String", Overwrite=True)
        role = f"arn:aws:iam::000000000000:role/{_ROLE}"
        key = sts.assume_role(RoleArn=role, RoleSessionName="job-1")["Credentials"]
    return {
        "PATH": os.environ["PATH"],
        "HOME": str(folder),
        **{name: value for name, value in os.environ.items() if name.startswith(("PIP_", "SSL_")) or "proxy" in name.lower()},
        "AWS_ACCESS_KEY_ID": key["AccessKeyId"],
        "AWS_SECRET_ACCESS_KEY": key["SecretAccessKey"],
        "AWS_SESSION_TOKEN": key["SessionToken"],
        "AWS_REGION": stack["region"],
        "RUNLAKE_URL": stack["job_url"],
        "RUNLAKE_AUTH": "iam",  # the address of a function URL says it by itself
    }


def _run(command: list[str], environment: Mapping[str, str]) -> str:
    done = subprocess.run(command, cwd=PROJECT, env=environment, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"{' '.join(command)}: {done.stderr[-3000:]}")
    return done.stdout


_CODE = ("client/src/runlake", "client/pyproject.toml", "chalicelib/routes/function_url.py", "local/job_url.py")
MEASUREMENT = Measurement("first-line", first_line, _CODE)


def main() -> int:
    """Exit code 1 if it took too long."""
    parser = argparse.ArgumentParser(prog="python -m bench.first_line", description=__doc__)
    parser.add_argument("--write", action="store_true", help="store the row in docs/figures.json; then run python -m docs.generate")
    arguments = parser.parse_args()
    port = free_port()
    try:
        stack = control.up(port, {"JobUrl": "iam", "PolicyParameter": _POLICY}, private=True)
        with tempfile.TemporaryDirectory(prefix="runlake-first-") as folder:
            rows = first_line(stack, Path(folder))
    finally:
        control.down(port)
    if arguments.write:
        save(rows, "live", MEASUREMENT.name, MEASUREMENT.code)
    return print_rows(rows)


if __name__ == "__main__":
    sys.exit(main())
