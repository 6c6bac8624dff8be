"""The client stands alone: the standard library, three packages, nothing of the server's, no boto3."""

from __future__ import annotations

import ast
import sys
import tomllib
from pathlib import Path

import pytest

_CLIENT = Path(__file__).parents[1]
_ALLOWED = {"httpx", "click", "rich", "runlake"}


def imported(path: Path) -> set[str]:
    found: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            found |= {alias.name.partition(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            found.add((node.module or "").partition(".")[0])
    return found


@pytest.mark.parametrize("path", sorted((_CLIENT / "src").rglob("*.py")), ids=lambda path: path.stem)
def test_what_the_client_imports(path: Path) -> None:
    assert imported(path) - set(sys.stdlib_module_names) <= _ALLOWED
    assert ("httpx" in imported(path)) == (path.name == "archive.py")


def test_what_it_imports_is_what_it_declares() -> None:
    project = tomllib.loads((_CLIENT / "pyproject.toml").read_text())["project"]
    assert {each.partition(">")[0] for each in project["dependencies"]} == _ALLOWED - {"runlake"}
