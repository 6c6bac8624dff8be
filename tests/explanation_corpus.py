"""Logs of failed runs with the line that explains each failure: the measure of the explanation rules."""

from __future__ import annotations

import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

CORPUS = Path(__file__).parent / "unit" / "explanation_corpus"
SYSTEMS = (
    "airflow",
    "cloud",
    "database",
    "dbt",
    "jvm",
    "kubernetes",
    "openmetadata",
    "postgres",
    "python",
    "shell",
    "spark",
    "tool",
)


@dataclass(frozen=True, slots=True)
class Labels:
    """What an engineer says about a failed run. ``lines``: numbers, from 1, of the lines that explain it; each of them alone is a right
    answer. ``exit``: the exit code of its process, None if it isn't known. ``produced``: how to make such a log. ``licence``: SPDX
    identifier of the software whose messages the log contains."""

    system: str
    lines: tuple[int, ...]
    exit: int | None
    produced: str
    software: str
    licence: str


def load_corpus(folder: Path = CORPUS) -> Iterator[tuple[str, bytes, Labels]]:
    """Name, bytes and labels of each log of a folder in the order of ``labels.toml``. Raises OSError for a label without its log and
    TypeError for fields other than those of ``Labels``."""
    for name, fields in tomllib.loads((folder / "labels.toml").read_text()).items():
        labels = Labels(**{"exit": None, **fields, "lines": tuple(fields["lines"])})
        yield name, (folder / f"{name}.log").read_bytes(), labels
