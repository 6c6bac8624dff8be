"""Names and imports that keep the code easy to enter: one class of a name, the field's terms, no cycles."""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from collections.abc import Iterator
from functools import cache
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

from tests.unit.test_imports import PROJECT, imports_of, is_in, module_of, sources

BANNED = frozenset({"told", "tell", "found", "given", "held", "wanted", "whole", "beside", "kept", "shown"})
"""Words that say nothing about the thing: a name has a noun or a verb of the field in their place."""
EXTERNAL = frozenset({"tell", "kept_lines"})
"""Names of the client's documented interface: ``RunlogHandler(tell=...)`` and ``handler.counts.kept_lines``."""
_FOLDERS = ("app.py", "chalicelib", "glue_jobs", "client/src", "local", "bench", "deploy")


@cache
def _trees(*folders: str) -> dict[Path, ast.Module]:
    return {path.relative_to(PROJECT): ast.parse(path.read_text()) for path in sources(*folders)}


def names_of(path: Path, tree: ast.Module) -> Iterator[str]:
    """The public names that a module defines: of itself, classes, functions, parameters and attributes."""
    names = [path.stem]
    for node in ast.walk(tree):
        match node:
            case ast.FunctionDef() | ast.AsyncFunctionDef():
                names.append(node.name)
            case ast.arg():
                names.append(node.arg)
            case ast.Attribute(ctx=ast.Store()):
                names.append(node.attr)
            case ast.ClassDef(name=name, body=body):
                names += [name]
                names += [each.target.id for each in body if isinstance(each, ast.AnnAssign) and isinstance(each.target, ast.Name)]
    return (name for name in names if not name.startswith("_"))


def has_banned_word(name: str) -> bool:
    """Whether a word of a name in snake or camel case is banned; "not found" is HTTP's own term."""
    words = re.findall(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])", re.sub("not_?found", "", name, flags=re.IGNORECASE))
    return any(word.lower() in BANNED for word in words)


def test_no_public_class_name_is_defined_twice() -> None:
    places: dict[str, list[str]] = defaultdict(list)
    for path, tree in _trees("chalicelib").items():
        for node in ast.walk(tree):
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                places[node.name].append(str(path))
    assert {name: paths for name, paths in places.items() if len(paths) > 1} == {}


def test_no_public_name_has_a_banned_word() -> None:
    banned = {
        f"{path}: {name}"
        for path, tree in _trees("chalicelib", "glue_jobs", "client/src").items()
        for name in names_of(path, tree)
        if has_banned_word(name) and name not in EXTERNAL
    }
    assert sorted(banned) == []


def test_banned_words_are_recognized() -> None:
    names = ("told", "is_whole", "WholeLog", "tell_step", "foundry", "NotFoundError", "not_found", "retell")
    assert [name for name in names if has_banned_word(name)] == ["told", "is_whole", "WholeLog", "tell_step"]


def test_no_modules_import_each_other() -> None:
    """Except a package and its own modules, which it imports when they are needed."""
    paths = {module_of(path): path for path in sources(*_FOLDERS)}
    graph = {
        module: {
            each.module
            for each in imports_of(path.read_text(), str(path))
            if each.module in paths and not is_in(each.module, module)
        }
        for module, path in paths.items()
    }
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        raise AssertionError(" -> ".join(error.args[1])) from None
