"""The zip that Lambda gets: without what the runtime brings, compiled, and the same bytes for the same content."""

from __future__ import annotations

import os
import py_compile
import subprocess
import sys
import tempfile
from importlib import metadata
from pathlib import Path
from zipfile import ZIP_DEFLATED, ZipFile, ZipInfo

from local.state import LocalError

# Lambda's Python runtime has boto3, and with it what boto3 needs.
RUNTIME_PACKAGES = ("boto3", "botocore", "s3transfer", "jmespath", "python-dateutil", "six", "urllib3")


def rewrite(source: Path, target: Path) -> None:
    """Copy ``source`` to ``target`` without the runtime's packages, with every module compiled, in a fixed order, undated."""
    leave_out = {*_runtime_paths(), *(package.replace("-", "_") for package in RUNTIME_PACKAGES)}
    draft = target.with_suffix(".draft")
    with ZipFile(source) as original, ZipFile(draft, "w", ZIP_DEFLATED) as slim:
        for name in sorted(set(original.namelist())):
            if _belongs(name, leave_out):
                content = original.read(name)
                _write(slim, name, content)
                if name.endswith(".py"):
                    _write(slim, *_compiled(name, content))
    draft.replace(target)


def _runtime_paths() -> dict[str, Path]:
    """Where the runtime's packages lie on this machine, by their names at the top of ``sys.path``'s folder."""
    paths: dict[str, Path] = {}
    for package in RUNTIME_PACKAGES:
        distribution = metadata.distribution(package)
        for name in {path.parts[0] for path in distribution.files or ()} - {"..", "__pycache__"}:
            paths[name] = Path(str(distribution.locate_file(name)))
    return paths


def _belongs(name: str, leave_out: set[str]) -> bool:
    top = name.split("/", 1)[0]
    if top.endswith((".dist-info", ".data")):
        top = top.split("-", 1)[0]
    return top not in leave_out and "__pycache__" not in name and not name.endswith(("/", ".pyi"))


def _write(archive: ZipFile, name: str, content: bytes) -> None:
    entry = ZipInfo(name, date_time=(1980, 1, 1, 0, 0, 0))
    entry.compress_type = ZIP_DEFLATED
    entry.external_attr = 0o644 << 16
    archive.writestr(entry, content)


def _compiled(name: str, content: bytes) -> tuple[str, bytes]:
    """The module's bytecode, never checked against its source: the zip's dates mean nothing."""
    folder, _, module = name.rpartition("/")
    compiled = f"__pycache__/{module.removesuffix('.py')}.{sys.implementation.cache_tag}.pyc"
    with tempfile.TemporaryDirectory() as work:
        source, bytecode = Path(work, "module.py"), Path(work, "module.pyc")
        source.write_bytes(content)
        mode = py_compile.PycInvalidationMode.UNCHECKED_HASH
        py_compile.compile(str(source), str(bytecode), dfile=name, doraise=True, invalidation_mode=mode)
        return (f"{folder}/{compiled}" if folder else compiled), bytecode.read_bytes()


def check_imports(archive: Path, module: str) -> None:
    """Import ``module`` from the zip in a bare interpreter that has the runtime's packages and no others. Raises LocalError."""
    with tempfile.TemporaryDirectory() as work:
        function, runtime = Path(work, "function"), Path(work, "runtime")
        with ZipFile(archive) as content:
            content.extractall(function)
        runtime.mkdir()
        for name, path in _runtime_paths().items():
            (runtime / name).symlink_to(path)
        program = f"import sys; sys.path[:0] = {[str(function), str(runtime)]!r}; import {module}"
        environment = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "AWS", "RUNLAKE"))}
        command = [sys.executable, "-I", "-S", "-c", program]
        done = subprocess.run(command, cwd=work, env=environment, capture_output=True, text=True)
    if done.returncode:
        last = (done.stderr.strip().splitlines() or ["no output"])[-1]
        raise LocalError(f"the function's zip does not import: error={last!r}")
