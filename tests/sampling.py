"""How much of the enumerated and random cases a run of the tests takes: a sample (``fast``, ``default``) or all of them (``thorough``).

A sample is drawn by a seed that is the commit, so successive commits try different cases and a repetition tries the same ones.
``RUNLAKE_SAMPLE`` sets another seed, or ``all`` for every case of each enumeration; the header of each run prints it.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterable
from pathlib import Path
from random import Random
from typing import TypeVar
from zlib import crc32

LEVELS = ("fast", "default", "thorough")
"""Of ``make unit``, ``make test`` and ``make test-thorough``."""
LEVEL = os.environ.get("RUNLAKE_TESTS", "default")
if LEVEL not in LEVELS:
    raise ValueError(f"RUNLAKE_TESTS is none of {', '.join(LEVELS)} value={LEVEL!r}")
_FAST_SHARE, _DEFAULT_SHARE = 10, 6
_Case = TypeVar("_Case")


def _commit() -> str:
    command = ["git", "rev-parse", "--short=12", "HEAD"]
    try:
        return subprocess.run(command, cwd=Path(__file__).parent, capture_output=True, text=True, check=True).stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        return "no-commit"


SEED = os.environ.get("RUNLAKE_SAMPLE") or _commit()
IS_COMPLETE = LEVEL == "thorough" or SEED == "all"
os.environ["RUNLAKE_SAMPLE"] = SEED  # other processes of this run draw the same sample


def seed_of(name: str) -> int:
    """The seed of a random test: the number in ``RUNLAKE_SEED``, else one that changes with the commit."""
    return int(os.environ.get("RUNLAKE_SEED") or crc32(f"{SEED} {name}".encode()))


def pick(fast: int, default: int, thorough: int) -> int:
    """The number for the level of this run."""
    return {"fast": fast, "default": default, "thorough": thorough}[LEVEL]


def examples(full: int, thorough: int = 0) -> int:
    """Number of Hypothesis examples: a tenth of ``full`` in a fast run, a sixth in a default one, ``thorough`` (otherwise
    ``full``) in a thorough one. Each run draws different ones."""
    return pick(max(3, full // _FAST_SHARE), max(10, full // _DEFAULT_SHARE), max(full, thorough))


def sample(cases: Iterable[_Case], name: str, default: int, fast: int | None = None) -> list[_Case]:
    """Cases in their order: all in a thorough run, at most ``default`` in a default one and ``fast`` (else a tenth) in a fast one.
    ``name`` makes samples of different tests independent of each other."""
    found = list(cases)
    count = pick(max(1, default // _FAST_SHARE) if fast is None else fast, default, len(found))
    if IS_COMPLETE or count >= len(found):
        return found
    chosen = Random(f"{SEED} {name}").sample(range(len(found)), count)
    return [found[index] for index in sorted(chosen)]
