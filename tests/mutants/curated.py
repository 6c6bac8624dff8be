"""All curated mutants, by area: each module of this package that defines ``MUTANTS``."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path

from tests.mutants.mutant import Mutant

_MACHINERY = frozenset({"__init__", "__main__", "curated", "mutant", "runner", "syntax"})


def areas() -> dict[str, tuple[Mutant, ...]]:
    """The mutants of each area, in the order of the areas' names."""
    names = sorted(path.stem for path in Path(__file__).parent.glob("*.py"))
    names = [name for name in names if name not in _MACHINERY and not name.startswith("test_")]
    return {name: tuple(import_module(f"tests.mutants.{name}").MUTANTS) for name in names}
