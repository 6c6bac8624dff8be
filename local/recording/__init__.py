"""Records the AWS calls of processes for tests of roles, and what AWS would bill for them, one line of JSON each."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

HOOK = Path(__file__).parent / "hook"


def recording(path: Path) -> dict[str, str]:
    """Environment variables that make a process and its children append their calls to ``path``."""
    return {"RECORDED_CALLS": str(path), **_hooked()}


def metering(path: Path) -> dict[str, str]:
    """Environment variables that make functions append their invocations and what their calls consume to ``path``."""
    return {"RECORDED_USAGE": str(path), **_hooked()}


def _hooked() -> dict[str, str]:
    paths = [str(HOOK), *(each for each in os.environ.get("PYTHONPATH", "").split(os.pathsep) if each not in ("", str(HOOK)))]
    return {"PYTHONPATH": os.pathsep.join(paths)}


def set_ahead(functions: Any, name: str, seconds: int) -> None:
    """Set how far the clock of a function is ahead from now on, on a stack that was started with ``recording``.

    ``functions``: a client of Lambda. Invocations that are running then fail: the emulator ends their processes.
    """
    variables = functions.get_function_configuration(FunctionName=name)["Environment"]["Variables"]
    if variables.get("RECORDED_AHEAD_S", "0") != str(seconds):
        variables["RECORDED_AHEAD_S"] = str(seconds)
        functions.update_function_configuration(FunctionName=name, Environment={"Variables": variables})
