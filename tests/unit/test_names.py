"""Names and imports that keep the code easy to enter: terms of the field, no cycles."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator
from functools import cache
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

from tests.unit.test_imports import PROJECT, imports_in, imports_of, is_in, module_of, nodes_of, sources, tree_of

BANNED = frozenset({"told", "tell", "found", "given", "held", "wanted", "whole", "beside", "kept", "shown"})
"""Words that say nothing about the thing: a name has a noun or a verb of the field in their place."""
EXTERNAL = frozenset({("client/src/runlake/handler.py", "tell"), ("client/src/runlake/shipper.py", "kept_lines")})
"""Of the client's documented interface: ``RunlogHandler(tell=...)`` and ``handler.counts.kept_lines``."""
_FOLDERS = ("app.py", "chalicelib", "glue_jobs", "client/src", "local", "bench", "deploy")


def _nodes(*folders: str) -> dict[Path, tuple[ast.AST, ...]]:
    assert all((PROJECT / folder).exists() for folder in folders)
    return {path.relative_to(PROJECT): nodes_of(path) for path in sources(*folders)}


def names_of(path: Path, nodes: Iterable[ast.AST]) -> Iterator[str]:
    """The public names that a module defines: of itself, classes, functions, parameters and attributes."""
    names = list(path.with_suffix("").parts)
    for node in nodes:
        if isinstance(node, ast.Module | ast.ClassDef):
            names += _assigned(node.body)
        match node:
            case ast.FunctionDef() | ast.AsyncFunctionDef():
                names.append(node.name)
            case ast.arg():
                names.append(node.arg)
            case ast.Attribute(ctx=ast.Store()):
                names.append(node.attr)
            case ast.ClassDef(name=name):
                names.append(name)
    return (name for name in names if not name.startswith("_"))


def _assigned(body: list[ast.stmt]) -> Iterator[str]:
    """Constants of a module, attributes and members of a class."""
    for each in body:
        targets = each.targets if isinstance(each, ast.Assign) else [each.target] if isinstance(each, ast.AnnAssign) else []
        yield from (name.id for target in targets for name in ast.walk(target) if isinstance(name, ast.Name))


@cache
def has_banned_word(name: str) -> bool:
    """Whether a word of a name in snake or camel case is banned; "not found" is HTTP's own term."""
    words = re.findall(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])", re.sub("not_?found", "", name, flags=re.IGNORECASE))
    return any(word.lower() in BANNED for word in words)


def test_no_public_name_has_a_banned_word() -> None:
    banned = {
        f"{path}: {name}"
        for path, nodes in _nodes(*_FOLDERS).items()
        for name in names_of(path, nodes)
        if has_banned_word(name) and (path.as_posix(), name) not in EXTERNAL
    }
    assert sorted(banned) == []


def test_public_names_of_a_module_are_read() -> None:
    source = "KEPT, A = 1, 2\nclass C:\n    b: int\n    d = 1\n    def f(self, g): self.h = 1\ndef _i(): pass\n"
    assert set(names_of(Path("told/__init__.py"), ast.walk(ast.parse(source)))) == {
        "told",
        "KEPT",
        "A",
        "C",
        "b",
        "d",
        "f",
        "self",
        "g",
        "h",
    }


def test_banned_words_are_recognized() -> None:
    names = ("told", "is_whole", "WholeLog", "tell_step", "foundry", "NotFoundError", "not_found", "retell")
    assert [name for name in names if has_banned_word(name)] == ["told", "is_whole", "WholeLog", "tell_step"]


def test_no_modules_import_each_other() -> None:
    """Except a package and those of its modules that it imports inside a function, when they are needed."""
    paths = {module_of(path): path for path in sources(*_FOLDERS)}
    graph = {
        module: {each.module for each in imports_in(path) if each.module in paths and not is_in(each.module, module)} | _own(path)
        for module, path in paths.items()
    }
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        raise AssertionError(" -> ".join(error.args[1])) from None


def _own(path: Path) -> set[str]:
    """The modules of its own that a package imports whenever it is imported."""
    if path.stem != "__init__":
        return set()
    body = [each for each in tree_of(path).body if isinstance(each, ast.Import | ast.ImportFrom)]
    found = {each.module for each in imports_of(body, str(path))}
    return {each for each in found if each != module_of(path) and is_in(each, module_of(path))}


REFERENCE = re.compile(r"``([a-z_]+(?:\.\w+)+)``")
NO_MODULES = {
    ("chalicelib/composition/__init__.py", "events.log"),  # a service, by its path of attributes
    ("client/src/runlake/methods.py", "runlake.logging_methods"),  # a group of entry points
}


def test_docstrings_refer_to_modules_that_exist() -> None:
    modules = {module_of(path): path for path in sources(*_FOLDERS, "tests/support")}
    packages = {module.removeprefix("chalicelib.").partition(".")[0] for module in modules} - {"app"}
    references = {
        (path.relative_to(PROJECT).as_posix(), name)
        for path in sources(*_FOLDERS)
        for name in REFERENCE.findall(path.read_text())
        if name.partition(".")[0] in packages
    }
    assert len(references) > 20
    assert {each for each in references - NO_MODULES if not _exists(each[1], modules)} == set()


def _exists(name: str, modules: dict[str, Path]) -> bool:
    """Whether a module, or a name that it defines, exists; ``chalicelib.`` may be left out."""
    module, _, defined = name.rpartition(".")
    for prefix in ("", "chalicelib."):
        if prefix + name in modules:
            return True
        if prefix + module in modules:
            return re.search(rf"^(def|class) {defined}\b|^{defined}\b", modules[prefix + module].read_text(), re.M) is not None
    return False


IMPORT = re.compile(r"^\s*from ((?:chalicelib|glue_jobs|local|bench)[\w.]*) import (\w[\w, ]*)$", re.M)


def test_imports_of_programs_in_strings_exist() -> None:
    """mypy checks all other imports: a test that starts a program with ``python -c`` fails only when it runs."""
    modules = {module_of(path): path for path in sources(*_FOLDERS)}
    found = {
        (module, name.partition(" as ")[0].strip())
        for path in sources("tests", "client/tests")
        for module, names in IMPORT.findall(path.read_text())
        for name in names.split(",")
    }
    assert len(found) > 500
    assert [
        each
        for each in sorted(found)
        if ".".join(each) not in modules
        and (each[0] not in modules or not re.search(rf"\b{each[1]}\b", modules[each[0]].read_text()))
    ] == []


def test_only_the_default_partition_store_is_in_memory() -> None:
    """Other in-memory stores are parts of tests. ``InMemoryPartitionStore`` is the setting ``in_memory`` of coordination."""
    classes = {
        (str(path), node.name) for path, nodes in _nodes("chalicelib").items() for node in nodes if isinstance(node, ast.ClassDef)
    }
    assert {each for each in classes if "Memory" in each[1] and "Store" in each[1]} == {
        ("chalicelib/coordination/memory.py", "InMemoryPartitionStore")
    }


def test_glossary_has_at_most_thirty_terms() -> None:
    terms = re.findall(r"^\| \*\*(.+?)\*\*", (PROJECT / "docs" / "glossary.md").read_text(), re.M)
    assert 20 <= len(terms) == len(set(terms)) <= 30
