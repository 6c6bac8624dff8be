"""Records the AWS calls of processes, one line of JSON each, for tests of roles and for costs."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

HOOK = Path(__file__).parent / "hook"


def recording(path: Path) -> dict[str, str]:
    """Environment variables that make a process and its children append their calls to ``path``."""
    paths = [str(HOOK), *(each for each in os.environ.get("PYTHONPATH", "").split(os.pathsep) if each not in ("", str(HOOK)))]
    return {"PYTHONPATH": os.pathsep.join(paths), "RECORDED_CALLS": str(path)}


def set_ahead(functions: Any, name: str, seconds: int) -> None:
    """Set how far the clock of a function is ahead from now on, on a stack that was started with ``recording``.

    ``functions``: a client of Lambda. Invocations that are running then fail: the emulator ends their processes.
    """
    variables = functions.get_function_configuration(FunctionName=name)["Environment"]["Variables"]
    if variables.get("RECORDED_AHEAD_S", "0") != str(seconds):
        variables["RECORDED_AHEAD_S"] = str(seconds)
        functions.update_function_configuration(FunctionName=name, Environment={"Variables": variables})
