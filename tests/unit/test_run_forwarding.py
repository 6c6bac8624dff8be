"""The distribution of the client's extra ``forward`` has copies of the modules that forwarding imports of the archive."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from importlib import import_module
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

FORWARDING = Path(__file__).parents[2] / "forwarding"
COPIES = "src/runlake_forwarding/_archive"
_RUN = """
import importlib, pkgutil, sys, runlake_forwarding
for module in pkgutil.walk_packages(runlake_forwarding.__path__, "runlake_forwarding."):
    importlib.import_module(module.name)
done = runlake_forwarding.forward_run(lambda *_: {"events": [], "after": None, "state": "complete"},
    '{"kind": "otlp", "url": "http://127.0.0.1:9"}', "f", "r", instance_id="i", position=None, save=lambda _: None, is_live=True)
print(done.taken, done.refused, "chalicelib" in sys.modules)
"""
_FORMS = """
import ARCHIVE.a, ARCHIVE.a as a
from ARCHIVE.package.b import (
    function)
if TYPE_CHECKING:
    from ARCHIVE.types_only import Kind
else:
    from other.chalicelib import x
def lazy():
    from ARCHIVE import c
    return ARCHIVE.a.f("ARCHIVE.d:f", "é", ARCHIVE.a), "of chalicelib.d"
"""


@pytest.fixture(scope="module")
def hatch_build() -> Any:
    """The hook, without hatchling, which only builds install."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(sys.modules, "hatchling.builders.hooks.plugin.interface", SimpleNamespace(BuildHookInterface=object))
        return import_module("forwarding.hatch_build")


@pytest.fixture(scope="module")
def modules(hatch_build: Any) -> dict[str, bytes]:
    found: dict[str, bytes] = hatch_build.distributed_modules(FORWARDING)
    return found


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """The folder ``forwarding`` of a project that imports in every form."""
    names = ("", "a", "package", "package/b", "c", "d", "types_only", "unused")
    places = [f"chalicelib/{name}/__init__.py" if name in ("", "package") else f"chalicelib/{name}.py" for name in names]
    for place in ("forwarding/src/runlake_forwarding/__init__.py", *places):
        (tmp_path / place).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / place).write_text(_FORMS.replace("ARCHIVE", "chalicelib") if place.startswith("forwarding") else "")
    return tmp_path / "forwarding"


def test_distribution_runs_with_another_chalicelib_installed(modules: dict[str, bytes], tmp_path: Path) -> None:
    another = "raise AssertionError('the module of another project is imported')"
    for path, source in {**modules, "src/chalicelib/__init__.py": another.encode()}.items():
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_bytes(source)
    environment = os.environ | {"PYTHONPATH": str(tmp_path / "src"), "PYTHONDONTWRITEBYTECODE": "1"}
    done = subprocess.run([sys.executable, "-c", _RUN], cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=120)
    assert (done.stdout, done.returncode) == ("0 0 False\n", 0), done.stderr


def test_distribution_has_only_what_forwarding_imports(modules: dict[str, bytes]) -> None:
    assert [path for path, source in modules.items() if re.search(rb"(?m)^\s*(from|import) chalicelib\b", source)] == []
    assert f"{COPIES}/aws/cloudwatch_logs.py" in modules and f"{COPIES}/events/writers.py" not in modules
    folders = {path.split("/")[3] for path in modules if path.startswith(COPIES) and path.count("/") > 3}
    assert folders == {"aws", "events", "lines", "masking", "runlog"}


def test_every_form_of_import_is_renamed_and_followed(hatch_build: Any, checkout: Path) -> None:
    modules = hatch_build.distributed_modules(checkout)
    copies = ("__init__.py", "a.py", "c.py", "d.py", "package/__init__.py", "package/b.py")
    assert list(modules) == ["src/runlake_forwarding/__init__.py", *(f"{COPIES}/{path}" for path in copies)]
    assert modules["src/runlake_forwarding/__init__.py"].decode() == _FORMS.replace("ARCHIVE", "runlake_forwarding._archive")


def test_import_of_an_absent_module_fails_the_build(hatch_build: Any, checkout: Path) -> None:
    (checkout.parent / "chalicelib/package/b.py").unlink()
    with pytest.raises(
        ModuleNotFoundError, match=r"__init__\.py imports chalicelib\.package\.b, which is not in .*: build in a checkout"
    ):
        hatch_build.distributed_modules(checkout)


def test_build_adds_copies_once_and_refuses_editable_installs(hatch_build: Any, checkout: Path) -> None:
    hook, data = hatch_build.CopyArchive(), {"force_include": {}}
    hook.root = str(checkout)
    with pytest.raises(RuntimeError, match=r"run `pip install ./forwarding`, without -e"):
        hook.initialize("editable", data)
    hook.initialize("standard", data)
    added = {path: Path(file).read_bytes() for file, path in data["force_include"].items()}
    assert added == hatch_build.distributed_modules(checkout)
    hook.finalize("standard", data, "")
    assert not any(Path(file).exists() for file in data["force_include"])
    (checkout / COPIES).mkdir()  # as a source distribution has it
    hook.initialize("standard", unchanged := {"force_include": {}})
    hook.finalize("standard", unchanged, "")
    assert unchanged == {"force_include": {}}
