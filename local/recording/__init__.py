"""Records the AWS calls of processes, one line of JSON each, for tests of roles and for costs."""

from __future__ import annotations

import os
from pathlib import Path

HOOK = Path(__file__).parent / "hook"


def recording(path: Path) -> dict[str, str]:
    """Environment variables that make a process and its children append their calls to ``path``."""
    paths = [str(HOOK), *(each for each in os.environ.get("PYTHONPATH", "").split(os.pathsep) if each not in ("", str(HOOK)))]
    return {"PYTHONPATH": os.pathsep.join(paths), "RECORDED_CALLS": str(path)}
