"""The memory limit of this process and its use. Linux; on other systems no shortage is detected."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

SHORT_SHARE = 0.9
_CGROUP = Path("/sys/fs/cgroup/memory.max")
_STATM = Path("/proc/self/statm")
_LAMBDA = "AWS_LAMBDA_FUNCTION_MEMORY_SIZE"
_MIB = 1024 * 1024


def memory_bytes() -> int:
    """The limit of the function, the container, or the machine."""
    if os.environ.get(_LAMBDA, "").isdigit():
        return int(os.environ[_LAMBDA]) * _MIB
    machine = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    try:
        limit = _CGROUP.read_text().strip()
    except OSError:
        return machine
    return min(machine, int(limit)) if limit.isdigit() else machine


def used_bytes() -> int:
    """The memory that this process uses."""
    try:
        return int(_STATM.read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except (OSError, ValueError, IndexError):
        return 0


def shortage(limit_bytes: int) -> Callable[[], bool]:
    """Returns a function that tests whether 90 % of the limit is used."""
    return lambda: used_bytes() > SHORT_SHARE * limit_bytes
