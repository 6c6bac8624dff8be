"""Layering of imports: the core packages import neither Chalice nor boto3 nor Spark, and each folder only its allowed packages.

Read from the sources (imports inside functions and under TYPE_CHECKING count). A folder that has no rule yet is an error too.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import pytest

PROJECT = Path(__file__).parents[2]
_CLIENT = PROJECT / "client" / "src"
BASE = frozenset(
    {
        "chalicelib",
        "chalicelib.deadline",
        "chalicelib.errors",
        "chalicelib.ports",
        "chalicelib.read_ahead",
        "chalicelib.response_size",
    }
)  # "chalicelib" itself has only its version
POWERTOOLS = "aws_lambda_powertools"


@dataclass(frozen=True)
class Rule:
    """Packages of this project (besides itself) and third-party packages that a module or folder may import; the standard library always."""

    ours: frozenset[str]
    others: frozenset[str] = frozenset()


def rule(*ours: str, others: tuple[str, ...] = ()) -> Rule:
    """Names are below ``chalicelib``."""
    return Rule(BASE | {f"chalicelib.{name}" for name in ours}, frozenset(others))


RULES = {
    "chalicelib": Rule(frozenset()),
    "chalicelib.errors": Rule(frozenset()),
    "chalicelib.read_ahead": Rule(frozenset()),
    "chalicelib.response_size": Rule(frozenset()),
    "chalicelib.ports": Rule(frozenset({"chalicelib.errors"})),
    "chalicelib.deadline": Rule(frozenset({"chalicelib.errors", "chalicelib.ports"})),
    "chalicelib.access": rule(others=("cryptography", "jwt")),
    "chalicelib.runlog": rule("lines", others=("itsdangerous", "regex")),
    "chalicelib.catalog": rule(others=("dateutil", "itsdangerous", "pydantic")),
    "chalicelib.archive": rule("catalog"),
    "chalicelib.ingestion": rule("archive", "catalog", "runlog"),
    "chalicelib.lines": rule(),
    "chalicelib.events": rule("lines", "masking", "runlog", others=("google", "msgpack", "opentelemetry", "pydantic", "yaml")),
    "chalicelib.coordination": rule(others=("pydantic", "pydantic_core")),
    "chalicelib.aws": rule("catalog", "coordination", "events", "masking", others=(POWERTOOLS, "boto3", "botocore", "urllib3")),
    "chalicelib.masking": rule(others=("ahocorasick_rs", "pydantic")),
    "chalicelib.pipelines": rule(
        "catalog",
        "coordination",
        "events",
        "lines",
        "runlog",
        others=("fastavro", "pyarrow", "pydantic", "pydantic_core", "yaml"),
    ),
    "chalicelib.removal": rule("catalog", "pipelines", "runlog"),
    "chalicelib.observability": rule(others=(POWERTOOLS,)),
    "chalicelib.explanation": rule("catalog", "lines", "runlog"),
    "chalicelib.settings": rule(others=("pydantic", "pydantic_core", "pydantic_settings")),
    "chalicelib.composition": rule(
        "access",
        "archive",
        "aws",
        "catalog",
        "coordination",
        "events",
        "explanation",
        "ingestion",
        "masking",
        "observability",
        "pipelines",
        "removal",
        "runlog",
        "settings",
    ),
    "chalicelib.routes": rule(
        "access",
        "archive",
        "catalog",
        "composition",
        "coordination",
        "events",
        "explanation",
        "observability",
        "pipelines",
        "runlog",
        others=("chalice", "pydantic", "pydantic_core", "typing_extensions"),
    ),
    "chalicelib.triggers": rule(
        "catalog", "composition", "coordination", "ingestion", "observability", "pipelines", "runlog", others=(POWERTOOLS,)
    ),
    "app": rule("composition", "observability", "routes", "triggers", others=("chalice",)),
}
CORES = (
    "chalicelib.access",
    "chalicelib.runlog",
    "chalicelib.archive",
    "chalicelib.ingestion",
    "chalicelib.catalog",
    "chalicelib.coordination",
    "chalicelib.events",
    "chalicelib.explanation",
    "chalicelib.lines",
    "chalicelib.masking",
    "chalicelib.pipelines",
    "chalicelib.removal",
)
IMPORTERS = frozenset({"importlib.import_module", "pkgutil.resolve_name", "runpy.run_module", "runpy.run_path"})
DYNAMIC = frozenset({"chalicelib/pipelines/allowed_modules.py", "chalicelib/routes/operations.py"})
"""The first imports the operator's handlers, after it has checked their names; the second views and decoders, whose names are constants."""
FOREIGN_TO_CORES = frozenset({"chalice", "boto3", "botocore", "pyspark"})


@dataclass(frozen=True)
class Import:
    """One imported name."""

    path: str
    line: int
    module: str

    def __str__(self) -> str:
        return f"{self.path}:{self.line}: imports {self.module}"


def imports_of(nodes: Iterable[ast.AST], path: str) -> Iterator[Import]:
    """Every import of syntax trees, at any level."""
    for node in nodes:
        if isinstance(node, ast.Import):
            yield from (Import(path, node.lineno, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}:{node.lineno}: imports are absolute here"
            is_dynamic = path not in DYNAMIC and any(f"{node.module}.{alias.name}" in IMPORTERS for alias in node.names)
            names = ["a dynamic import"] if is_dynamic else [_resolved(node.module or "", alias.name) for alias in node.names]
            yield from (Import(path, node.lineno, name) for name in names)
        elif path not in DYNAMIC and isinstance(node, ast.Name | ast.Attribute) and _name(node) in ("import_module", "__import__"):
            yield Import(path, node.lineno, "a dynamic import")


def _name(node: ast.Name | ast.Attribute) -> str:
    return node.id if isinstance(node, ast.Name) else node.attr


def _resolved(module: str, name: str) -> str:
    """``from a import b`` imports ``a.b`` if that is a module of this project."""
    candidates = (root / module.replace(".", "/") / name for root in (PROJECT, _CLIENT))
    return f"{module}.{name}" if any(each.is_dir() or each.with_suffix(".py").exists() for each in candidates) else module


def is_in(module: str, package: str) -> bool:
    """Whether a module is in a package. The root package means only its ``__init__``."""
    return module == package or (package != "chalicelib" and module.startswith(package + "."))


def rule_of(module: str) -> tuple[str, Rule]:
    """The rule of a module."""
    found = [name for name in RULES if is_in(module, name)]
    assert len(found) == 1, f"no rule says what {module} may import: add one above"
    return found[0], RULES[found[0]]


def offences(module: str, found: Iterator[Import]) -> list[str]:
    """The imports that violate a module's rule."""
    own, its = rule_of(module)
    allowed = {own, *its.ours}
    return [str(each) for each in found if not _is_allowed(each.module, allowed, its.others)]


def _is_allowed(module: str, ours: set[str], others: frozenset[str]) -> bool:
    top = module.partition(".")[0]
    return top in sys.stdlib_module_names or top in others or any(is_in(module, package) for package in ours)


def module_of(path: Path) -> str:
    """A file's dotted name."""
    parts = path.relative_to(_CLIENT if path.is_relative_to(_CLIENT) else PROJECT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def sources(*folders: str) -> list[Path]:
    """The modules of folders or files of the project."""
    found = [path for folder in folders for path in [PROJECT / folder, *(PROJECT / folder).rglob("*.py")]]
    return sorted(path for path in found if path.suffix == ".py")


PRODUCT = sources("app.py", "chalicelib")


@cache
def tree_of(path: Path) -> ast.Module:
    """The syntax tree of a file."""
    return ast.parse(path.read_text())


@cache
def nodes_of(path: Path) -> tuple[ast.AST, ...]:
    """All nodes of a file, outer ones first."""
    return tuple(ast.walk(tree_of(path)))


@cache
def imports_in(path: Path) -> tuple[Import, ...]:
    """Every import of a file of the project."""
    return tuple(imports_of(nodes_of(path), str(path.relative_to(PROJECT))))


def test_the_layers_hold() -> None:
    assert [each for path in PRODUCT for each in offences(module_of(path), iter(imports_in(path)))] == []


def test_core_packages_import_no_framework() -> None:
    """Covered by the rules today; this test remains if a rule is loosened."""
    cores = [path for path in PRODUCT if module_of(path).startswith(CORES)]
    found = [each for path in cores for each in imports_in(path)]
    assert len(found) > 1000
    assert [str(each) for each in found if each.module.partition(".")[0] in FOREIGN_TO_CORES] == []


def test_only_aws_imports_boto3_and_only_routes_import_chalice() -> None:
    importers: dict[str, set[str]] = {"boto3": set(), "botocore": set(), "chalice": set()}
    for path in PRODUCT:
        for each in imports_in(path):
            importers.get(each.module.partition(".")[0], set()).add(".".join(module_of(path).split(".")[:2]))
    assert importers == {"boto3": {"chalicelib.aws"}, "botocore": {"chalicelib.aws"}, "chalice": {"app", "chalicelib.routes"}}


@pytest.mark.slow
def test_product_imports_no_tools_or_tests() -> None:
    for path in sources("app.py", "chalicelib", "local", "bench", "docs", "glue_jobs"):
        forbidden = {"tests"} if path not in PRODUCT else {"tests", "local", "bench", "docs", "glue_jobs"}
        found = [each for each in imports_in(path) if not _is_in_memory_bench(path, each)]
        assert [str(each) for each in found if each.module.partition(".")[0] in forbidden] == []


def _is_in_memory_bench(path: Path, found: Import) -> bool:
    """Whether a benchmark or a generated document runs the product on the in-memory store."""
    return path.relative_to(PROJECT).parts[0] in ("bench", "docs") and is_in(found.module, "tests.support")


def test_each_rule_matches_a_module() -> None:
    modules = {module_of(path) for path in PRODUCT}
    assert [name for name in RULES if not any(is_in(module, name) for module in modules)] == []


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("import boto3", "boto3"),
        ("from botocore.config import Config", "botocore.config"),
        ("from chalice.app import Response", "chalice.app"),
        ("def f():\n    import pyspark", "pyspark"),
        ("from chalicelib import composition", "chalicelib.composition"),
        ("from chalicelib.catalog.runs import RunRow", "chalicelib.catalog.runs"),
        ("if TYPE_CHECKING:\n    from chalicelib.settings import Settings", "chalicelib.settings"),
        ("import importlib\nimportlib.import_module('boto3')", "a dynamic import"),
        ("from importlib import import_module as load", "a dynamic import"),
    ],
)
def test_violation_names_its_line(line: str, expected: str) -> None:
    source = f"from __future__ import annotations\n\n{line}\n"
    number = 3 + line.count("\n")
    assert offences("chalicelib.runlog.new", imports_of(ast.walk(ast.parse(source)), "new.py")) == [
        f"new.py:{number}: imports {expected}"
    ]


def test_allowed_imports_are_no_violation() -> None:
    source = "import json\nfrom chalicelib import __version__\nfrom chalicelib.ports import Run\nfrom itsdangerous import Signer\n"
    assert offences("chalicelib.runlog.new", imports_of(ast.walk(ast.parse(source)), "new.py")) == []


def test_folder_without_rule_fails() -> None:
    with pytest.raises(AssertionError, match=r"no rule says what chalicelib\.new\.thing may import"):
        rule_of("chalicelib.new.thing")
