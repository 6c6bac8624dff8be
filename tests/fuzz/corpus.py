"""The stored inputs: a file for each target, a line of base64 for each input."""

from __future__ import annotations

import base64
from collections.abc import Iterable
from pathlib import Path

FOLDER = Path(__file__).parent / "corpus"
MOST_INPUTS, MOST_BYTES = 150, 512
"""Inputs stored for each target: the smallest ones that reach new code."""


def read(target: str) -> list[bytes]:
    """A target's inputs."""
    path = FOLDER / f"{target}.txt"
    return [base64.b64decode(line) for line in path.read_text().splitlines()] if path.exists() else []


def write(target: str, inputs: Iterable[bytes]) -> int:
    """Store the smallest ones; returns how many."""
    kept = sorted({each for each in inputs if len(each) <= MOST_BYTES}, key=lambda each: (len(each), each))[:MOST_INPUTS]
    FOLDER.mkdir(exist_ok=True)
    (FOLDER / f"{target}.txt").write_text("".join(base64.b64encode(each).decode() + "\n" for each in kept))
    return len(kept)
