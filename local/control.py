"""Starts and stops local stacks from another process: the command line, the demo, benchmarks and tests."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from typing import Any

from local import package
from local.state import PROJECT, LocalError, StackFolder

_UP_TIMEOUT_S = 900.0
_DOWN_TIMEOUT_S = 600.0  # it deletes the functions' unpacked code: tens of thousands of files
# By port: the process that started a stack must reap it.
_started: dict[int, subprocess.Popen[bytes]] = {}


def up(port: int, parameters: Mapping[str, str], *, private: bool = False) -> dict[str, Any]:
    """Package if necessary, start a stack in the background, and return its description once it answers.

    ``parameters`` are the template's. A ``private`` stack does not become the default stack of ``.local/stack.json``, and its
    folder is removed when the next stack starts. If it raises LocalError, nothing is left running.
    """
    folder = StackFolder(port)
    folder.refuse_if_running()
    package.ensure_packaged()
    folder.path.mkdir(parents=True, exist_ok=True)
    folder.description.unlink(missing_ok=True)
    options = [f"--parameter={name}={value}" for name, value in parameters.items()] + ["--private"] * private
    with open(folder.log, "wb") as log:
        _started[port] = subprocess.Popen(
            [sys.executable, "-m", "local", "serve", f"--port={port}", *options],
            cwd=PROJECT,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    try:
        return _wait_until_up(folder, _started[port])
    except BaseException:
        process = _started.pop(port)
        process.terminate()
        process.wait(_DOWN_TIMEOUT_S)
        raise


def _wait_until_up(folder: StackFolder, process: subprocess.Popen[bytes]) -> dict[str, Any]:
    give_up = time.monotonic() + _UP_TIMEOUT_S
    while time.monotonic() < give_up:
        if process.poll() is not None:
            last = (folder.log.read_text().strip().splitlines() or ["no output"])[-1]
            raise LocalError(last.removeprefix("runlake: "))
        if description := folder.read():
            return description
        time.sleep(0.05)
    raise LocalError(f"the stack did not start in time: timeout_s={_UP_TIMEOUT_S} log={folder.log}")


def down(port: int) -> bool:
    """Stop the stack on the port and wait until it has ended; False if no stack runs there."""
    folder = StackFolder(port)
    pid = folder.running_pid()
    if pid is None:
        return False
    os.kill(pid, signal.SIGTERM)
    give_up = time.monotonic() + _DOWN_TIMEOUT_S
    while folder.running_pid() == pid:
        if time.monotonic() > give_up:
            raise LocalError(f"the stack did not stop: pid={pid}")
        time.sleep(0.05)
    if process := _started.pop(port, None):
        process.wait(_DOWN_TIMEOUT_S)
    return True
