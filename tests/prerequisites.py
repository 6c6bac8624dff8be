"""Prerequisites of some tests outside of ``.venv``: foreign clients, Chromium, nginx, syslog-ng. The first test that needs one installs
it."""

from __future__ import annotations

import fcntl
import subprocess
from functools import cache
from pathlib import Path

PROJECT = Path(__file__).parents[1]
OPENMETADATA, DATALAKE, AWSCLI = ".venv-openmetadata/ready", ".venv-datalake/ready", ".venv-awscli/ready"
BROWSER, AXE, NGINX, AGENTS, OIDC = "browser", "axe", "nginx", "agents", "oidc"
_INSTALL_S = 1200


@cache
def require(target: str) -> None:
    """Run a target of the Makefile, once in a process and in one process at a time; fast if already installed.

    Raises AssertionError with the output of ``make``.
    """
    with open(PROJECT / ".venv" / "prerequisites.lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        command = ["make", "--silent", "--no-print-directory", target]
        done = subprocess.run(command, cwd=PROJECT, capture_output=True, text=True, timeout=_INSTALL_S, stdin=subprocess.DEVNULL)
    assert done.returncode == 0, f"make {target}: {done.stdout[-2000:]}{done.stderr[-2000:]}"
