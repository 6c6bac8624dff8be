"""Deterministic zips: equal content gives equal bytes. A function's zip has compiled modules and lacks the packages of Lambda's
runtime."""

from __future__ import annotations

import os
import py_compile
import subprocess
import sys
import tempfile
from collections.abc import Iterable
from importlib import metadata
from pathlib import Path
from zipfile import ZIP_DEFLATED, ZIP_STORED, ZipFile, ZipInfo

from local.state import LocalError

# Lambda's Python runtime has boto3 and its dependencies.
RUNTIME_PACKAGES = ("boto3", "botocore", "s3transfer", "jmespath", "python-dateutil", "six", "urllib3")


def rewrite(source: Path, target: Path) -> None:
    """Copy ``source`` to ``target`` without the runtime's packages, every module compiled, entries in a fixed order with a fixed
    date."""
    leave_out = {*paths_of(RUNTIME_PACKAGES), *(package.replace("-", "_") for package in RUNTIME_PACKAGES)}
    draft = target.with_suffix(".draft")
    with ZipFile(source) as original, ZipFile(draft, "w", ZIP_DEFLATED) as slim:
        for name in sorted(set(original.namelist())):
            if _belongs(name, leave_out):
                content = original.read(name)
                _write(slim, name, content)
                if name.endswith(".py"):
                    _write(slim, *_compiled(name, content))
    draft.replace(target)


def write(target: Path, contents: Iterable[tuple[str, bytes]], *, compressed: bool = True) -> None:
    """Write a zip of names and bytes in this order, with a fixed date."""
    draft = target.with_suffix(".draft")
    with ZipFile(draft, "w") as archive:
        for name, content in contents:
            _write(archive, name, content, ZIP_DEFLATED if compressed else ZIP_STORED)
    draft.replace(target)


def paths_of(packages: Iterable[str]) -> dict[str, Path]:
    """Paths of installed packages on this machine, by their name in the package folder."""
    paths: dict[str, Path] = {}
    for package in packages:
        distribution = metadata.distribution(package)
        for name in {path.parts[0] for path in distribution.files or ()} - {"..", "__pycache__"}:
            paths[name] = Path(str(distribution.locate_file(name)))
    return paths


def _belongs(name: str, leave_out: set[str]) -> bool:
    top = name.split("/", 1)[0]
    if top.endswith((".dist-info", ".data")):
        top = top.split("-", 1)[0]
    return top not in leave_out and "__pycache__" not in name and not name.endswith(("/", ".pyi"))


def _write(archive: ZipFile, name: str, content: bytes, compression: int = ZIP_DEFLATED) -> None:
    entry = ZipInfo(name, date_time=(1980, 1, 1, 0, 0, 0))
    entry.compress_type = compression
    entry.external_attr = 0o644 << 16
    archive.writestr(entry, content)


def _compiled(name: str, content: bytes) -> tuple[str, bytes]:
    """Bytecode that is never checked against the source, because dates in the zip are fixed."""
    folder, _, module = name.rpartition("/")
    compiled = f"__pycache__/{module.removesuffix('.py')}.{sys.implementation.cache_tag}.pyc"
    with tempfile.TemporaryDirectory() as work:
        source, bytecode = Path(work, "module.py"), Path(work, "module.pyc")
        source.write_bytes(content)
        mode = py_compile.PycInvalidationMode.UNCHECKED_HASH
        py_compile.compile(str(source), str(bytecode), dfile=name, doraise=True, invalidation_mode=mode)
        return (f"{folder}/{compiled}" if folder else compiled), bytecode.read_bytes()


def check_imports(archive: Path, module: str) -> None:
    """Import ``module`` from the function's zip in a bare interpreter with the runtime's packages only. Raises LocalError."""
    with tempfile.TemporaryDirectory() as work, ZipFile(archive) as content:
        content.extractall(work)
        import_with_packages(Path(work), RUNTIME_PACKAGES, [module], "the function's zip")


def import_with_packages(code: Path, packages: Iterable[str], modules: Iterable[str], what: str) -> None:
    """Import modules from ``code``, a folder or a zip, in a bare interpreter with these packages only. Raises LocalError."""
    with tempfile.TemporaryDirectory() as folder:
        for name, path in paths_of(packages).items():
            Path(folder, name).symlink_to(path)
        program = f"import sys; sys.path[:0] = {[str(code), folder]!r}; import {', '.join(modules)}"
        environment = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "AWS", "RUNLAKE"))}
        command = [sys.executable, "-I", "-S", "-c", program]
        done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True)
    if done.returncode:
        last = (done.stderr.strip().splitlines() or ["no output"])[-1]
        raise LocalError(f"{what} cannot be imported: error={last!r}")
