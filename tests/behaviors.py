"""The behaviors that users and operators rely on: sentences of ``@pytest.mark.behavior`` on the tests that show them.

They are read from the source, so that the list takes a second and imports nothing.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from itertools import groupby
from pathlib import Path
from typing import NamedTuple

PROJECT = Path(__file__).parents[1]
MARKER = "pytest.mark.behavior"


class Behavior(NamedTuple):
    """A statement and the test that shows it; ``test`` is empty if the whole file does (``pytestmark``)."""

    path: str
    test: str
    statement: str


def files_of_tests() -> list[Path]:
    return sorted(path for folder in ("tests", "client/tests") for path in (PROJECT / folder).rglob("test_*.py"))


def behaviors_of(path: Path) -> Iterator[Behavior]:
    """Those of one file, in order."""
    source = path.read_text()
    for node in ast.parse(source).body if MARKER in source else ():
        marked = node.decorator_list if isinstance(node, ast.FunctionDef) else [node]
        for call in (each for tree in marked for each in ast.walk(tree) if isinstance(each, ast.Call)):
            if ast.unparse(call.func) == MARKER:
                statement = ast.literal_eval(call.args[0]) if call.args else ""
                yield Behavior(str(path.relative_to(PROJECT)), getattr(node, "name", ""), statement)


def listing() -> str:
    """Statements below their files, each with its test."""
    lines = []
    for path, group in groupby((each for file in files_of_tests() for each in behaviors_of(file)), key=lambda each: each.path):
        lines += ["", path, *(f"  {each.statement}{each.test and f'  ::{each.test}'}" for each in group)]
    return "\n".join(lines)
