"""Runs mutants: each in a copy of the project, with the tests of its own area, which must fail."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from queue import Queue
from tempfile import TemporaryDirectory

from tests.mutants.mutant import Mutant
from tests.mutants.syntax import mutate

ROOT = Path(__file__).resolve().parents[2]
TIMEOUT_S = 240
"""A mutant may make a loop endless: a test run that takes this long counts as failed."""
_TESTS_FAILED = 1
_COPIED = (
    "app.py",
    "bench",
    "chalicelib",
    "client",
    "conftest.py",
    "deploy",
    "docs",
    "forwarding",
    "glue_jobs",
    "infra",
    "local",
    "pyproject.toml",
    "tests",
)
_IGNORED = shutil.ignore_patterns("__pycache__", "node_modules", ".hypothesis", ".pytest_cache", "images")


class Outcome(StrEnum):
    """Result of testing a mutant. ``BROKEN``: pytest could not run the tests, which proves nothing."""

    KILLED = "killed"
    TIMED_OUT = "killed by its time limit"
    SURVIVED = "SURVIVED"
    BROKEN = "BROKEN"
    EQUIVALENT = "equivalent"


PASSES = frozenset({Outcome.KILLED, Outcome.TIMED_OUT, Outcome.EQUIVALENT})


@dataclass(frozen=True)
class Result:
    """``detail``: the last lines of pytest if the outcome needs an explanation."""

    mutant: Mutant
    outcome: Outcome
    detail: str = ""


def source_of(mutant: Mutant, root: Path = ROOT) -> Path:
    """The file of the mutant's module. Raises FileNotFoundError."""
    for base in (root, root / "client" / "src"):
        stem = base.joinpath(*mutant.module.split("."))
        for path in (stem.with_suffix(".py"), stem / "__init__.py"):
            if path.is_file():
                return path
    raise FileNotFoundError(f"no module {mutant.module}")


def mutated(mutant: Mutant, root: Path = ROOT) -> str:
    """The mutated source of the mutant's module. Raises PatternError, FileNotFoundError."""
    return mutate(source_of(mutant, root).read_text(), mutant.qualified_name, mutant.find, mutant.replace, mutant.nth)


def run(mutants: Sequence[Mutant], workers: int) -> Iterator[Result]:
    """The results in order; ``workers`` copies of the project are tested at a time."""
    with TemporaryDirectory(prefix="runlake-mutants-") as folder:
        copies: Queue[Path] = Queue()
        for number in range(workers):
            copies.put(_copy(Path(folder) / str(number)))
        with ThreadPoolExecutor(workers) as pool:
            yield from pool.map(lambda mutant: _result(mutant, copies), mutants)


def failing_unmutated(mutants: Sequence[Mutant]) -> str:
    """The output of pytest if the tests fail without a mutation, otherwise empty."""
    arguments = sorted({argument for mutant in mutants for argument in mutant.tests.split()})
    if not arguments:
        return ""
    with TemporaryDirectory(prefix="runlake-mutants-") as folder:
        done = _pytest(_copy(Path(folder) / "unmutated"), [*arguments, "-n", "2"], timeout_s=None)
    return "" if done.returncode == 0 else done.stdout[-4000:]


def _copy(target: Path) -> Path:
    target.mkdir()
    for name in _COPIED:
        source = ROOT / name
        if source.is_dir():
            shutil.copytree(source, target / name, ignore=_IGNORED)
        else:
            shutil.copy(source, target / name)
    return target


def _result(mutant: Mutant, copies: Queue[Path]) -> Result:
    if mutant.equivalent:
        return Result(mutant, Outcome.EQUIVALENT, mutant.equivalent)
    copy = copies.get()
    try:
        with _applied(mutant, copy):
            return _judged(mutant, copy)
    finally:
        copies.put(copy)


@contextmanager
def _applied(mutant: Mutant, copy: Path) -> Iterator[None]:
    path = source_of(mutant, copy)
    original = path.read_text()
    path.write_text(mutated(mutant, copy))
    try:
        yield
    finally:
        path.write_text(original)


def _judged(mutant: Mutant, copy: Path) -> Result:
    try:
        done = _pytest(copy, [*mutant.tests.split(), "-x", "-n", "0"], TIMEOUT_S)
    except subprocess.TimeoutExpired:
        return Result(mutant, Outcome.TIMED_OUT)
    if done.returncode == _TESTS_FAILED:
        return Result(mutant, Outcome.KILLED)
    outcome = Outcome.SURVIVED if done.returncode == 0 else Outcome.BROKEN
    return Result(mutant, outcome, (done.stdout + done.stderr)[-1500:])


def _pytest(folder: Path, arguments: Sequence[str], timeout_s: float | None) -> subprocess.CompletedProcess[str]:
    # Without bytecode: a mutation may keep a file's size and time, and Python would run the old code.
    environment = {**os.environ, "PYTHONDONTWRITEBYTECODE": "1", "RUNLAKE_SAMPLE": "all"}
    command = [sys.executable, "-m", "pytest", "-q", "--no-header", "-p", "no:cacheprovider", "--tb=line", *arguments]
    return subprocess.run(
        command,
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        errors="replace",
        timeout=timeout_s,
        stdin=subprocess.DEVNULL,
    )
