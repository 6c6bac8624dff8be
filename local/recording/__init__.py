"""Recording the calls of AWS that processes make, a line of JSON each: for the tests of roles, and for what calls cost."""

from __future__ import annotations

import os
from pathlib import Path

HOOK = Path(__file__).parent / "hook"


def recording(path: Path) -> dict[str, str]:
    """Variables of a process, and of those that it starts, whose calls are appended to ``path``."""
    paths = [str(HOOK), *(each for each in os.environ.get("PYTHONPATH", "").split(os.pathsep) if each not in ("", str(HOOK)))]
    return {"PYTHONPATH": os.pathsep.join(paths), "RECORDED_CALLS": str(path)}
