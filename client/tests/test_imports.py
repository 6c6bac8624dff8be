"""The client's imports: the standard library and two packages, none of the server's modules, no boto3."""

from __future__ import annotations

import ast
import json
import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

import runlake
from client.tests.fake_server import FakeServer

_CLIENT = Path(__file__).parents[1]
_OWN = {"runlake", "runlake_signals"}
_ALLOWED = {"httpx", "click"} | _OWN
_EXTRAS = {
    "credentials.py": {"botocore"},
    "targets.py": {"runlake_forwarding"},
    "_words.py": {"ahocorasick_rs"},
    "_python.py": {"tomli"},
}
"""What a module imports when it is used: optional dependencies."""


def imported(path: Path) -> set[str]:
    return imported_by(ast.parse(path.read_text()))


def imported_by(tree: ast.AST) -> set[str]:
    found: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found |= {alias.name.partition(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            found.add((node.module or "").partition(".")[0])
    return found


@pytest.mark.parametrize("path", sorted((_CLIENT / "src").rglob("*.py")), ids=lambda path: path.stem)
def test_what_the_client_imports(path: Path) -> None:
    assert imported(path) - set(sys.stdlib_module_names) <= _ALLOWED | _EXTRAS.get(path.name, set())
    assert ("httpx" in imported(path)) == (path.name in ("archive.py", "tls.py"))


def test_botocore_is_imported_only_to_sign() -> None:
    body = ast.parse((_CLIENT / "src/runlake/credentials.py").read_text()).body
    at_once = set().union(*(imported_by(each) for each in body if isinstance(each, ast.Import | ast.ImportFrom)))
    assert "threading" in at_once and "botocore" not in at_once


def test_what_it_imports_is_what_it_declares() -> None:
    project = tomllib.loads((_CLIENT / "pyproject.toml").read_text())["project"]
    assert {each.partition(">")[0] for each in project["dependencies"]} == (_ALLOWED - _OWN) | {"tomli"}
    extras = {re.split("[=>]", each)[0].replace("-", "_") for names in project["optional-dependencies"].values() for each in names}
    assert extras == {name for names in _EXTRAS.values() for name in names} - {"tomli"}


_WRITES = {"print", "sys.stdout", "sys.stderr", "click.echo", "click.secho", "click.style", "click.echo_via_pager", "os.write"}


def writes_of(path: Path) -> set[str]:
    """Names in a module that could write to a terminal."""
    found: set[str] = set()
    tree = ast.parse(path.read_text())
    to_files = {call.func for call in ast.walk(tree) if isinstance(call, ast.Call) and writes_to_a_file(call, tree)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Name | ast.Attribute) and node not in to_files:
            found |= {ast.unparse(node)} & _WRITES
        if isinstance(node, ast.Call) and ast.unparse(node.func) == "print" and ast.unparse(node.args[0]).startswith("sanitize("):
            found.add("print sanitized")
    return found


def writes_to_a_file(call: ast.Call, tree: ast.AST) -> bool:
    """Whether it is ``os.write`` to a descriptor that the module has from ``os.open`` alone."""
    if ast.unparse(call.func) != "os.write":
        return False
    descriptor = ast.unparse(call.args[0])
    origins = set[str]()
    for node in ast.walk(tree):
        targets = node.targets if isinstance(node, ast.Assign) else [node.target] if isinstance(node, ast.AnnAssign) else []
        if descriptor in map(ast.unparse, targets) and isinstance(node, ast.Assign | ast.AnnAssign) and node.value:
            origins.add(ast.unparse(node.value.func if isinstance(node.value, ast.Call) else node.value))
    if "descriptor" in origins:  # of a variable that is named so, for the time until the object is complete
        origins.remove("descriptor")
        opened = [node for node in ast.walk(tree) if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "descriptor"]
        origins |= {ast.unparse(node.value.func) for node in opened if isinstance(node.value, ast.Call)}
    return "os.open" in origins <= {"os.open", "None"}


def test_only_the_output_module_writes_to_the_terminal() -> None:
    writes = {
        path.relative_to(_CLIENT / "src").as_posix().removeprefix("runlake/"): writes_of(path)
        for path in (_CLIENT / "src").rglob("*.py")
    }
    assert writes.pop("commands/output.py") == {"sys.stdout", "sys.stderr", "click.echo"}
    assert writes.pop("shipper.py") == {"print", "print sanitized", "sys.stderr"}
    # These write streams, not text: copied prints, the output of ``exec``, and stdout after a closed pipe; the process one fixed line.
    assert {path: names for path, names in writes.items() if names} == {
        "runs.py": {"sys.stdout", "sys.stderr"}, "commands/running.py": {"sys.stdout", "sys.stderr"}, "__main__.py": {"sys.stdout"},
        "runlake_signals.py": {"sys.stdout", "sys.stderr"}, "runlake_command.py": {"sys.stderr"},
    }  # fmt: skip


def test_package_exports_what_its_types_say() -> None:
    (types,) = (node for node in ast.parse((_CLIENT / "src/runlake/__init__.py").read_text()).body if isinstance(node, ast.If))
    found = {alias.name: node.module for node in types.body if isinstance(node, ast.ImportFrom) for alias in node.names}
    assert {name: getattr(runlake, name).__module__ for name in found} == found
    assert found.keys() | {"__version__"} == set(runlake.__all__) <= set(dir(runlake))


_IMPORTED = """
import json, os, sys
def begin(*arguments, **more):
    begun.update(sys.modules)
    return started(*arguments, **more)
begun, started, os.posix_spawnp = {}, os.posix_spawnp, begin
import runlake_command
try:
    runlake_command.main()
finally:
    from runlake import tls
    print(json.dumps([sorted(begun), sorted(sys.modules), tls._loaded.cache_info().misses]))
"""
_AFTER_THE_COMMAND_BEGINS = {"httpx", "ssl", "runlake._redaction", "email", "subprocess", "multiprocessing", "socket"}
_NEVER_FOR_EXEC = {
    "runlake.files",
    "runlake.search",
    "runlake.commands.reading",
    "runlake.openid",
    "botocore",
    "webbrowser",
    "http.server",
}


@pytest.mark.slow
def test_exec_imports_late_and_little(server: FakeServer, tmp_path: Path) -> None:
    """The command begins after 60 ms at most, and ``exec`` takes 250 ms of processor time: no clock is read here, imports take nearly all of it."""
    environ = {**os.environ, "PYTHONPATH": str(_CLIENT / "src"), "RUNLAKE_URL": server.url, "RUNLAKE_SPOOL_DIR": str(tmp_path)}
    command = [sys.executable, "-c", _IMPORTED, "exec", "-q", "p", "--", "true"]
    done = subprocess.run(command, capture_output=True, env=environ, text=True, timeout=120, check=True)
    begun, ended, certificates = json.loads(done.stdout)
    begun, ended = set(begun), set(ended)
    assert not begun & (_AFTER_THE_COMMAND_BEGINS | _NEVER_FOR_EXEC) and not ended & _NEVER_FOR_EXEC
    assert "httpx" in ended and not certificates
