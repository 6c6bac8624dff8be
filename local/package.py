"""``make package``: ``chalice package --merge-template`` into build/, adapted to CloudFormation and Lambda.

CloudFormation rejects YAML aliases, so ``sam.yaml`` is written without them, and with the dashboard, the API's authorizers and the
permissions of accounts. The zip loses boto3 and its dependencies (part of Lambda's runtime) and gains compiled modules, so that a cold
start compiles nothing.
The zip is imported once in an interpreter that has only boto3, since Chalice only warns about a missing dependency.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

from local import bundle, dashboard, gateway_auth, job_accounts, wheels
from local.state import PROJECT, LocalError
from local.terminal import show

BUILD = PROJECT / "build"
TEMPLATE = BUILD / "sam.yaml"
ZIP = BUILD / "deployment.zip"
BILL = BUILD / "sbom.json"
MERGED = PROJECT / "infra" / "template.yaml"
DEPLOYER = PROJECT / "infra" / "deployer.yaml"
LOGIN = PROJECT / "infra" / "login-cognito.yaml"
HERE = "x86_64"
"""Default architecture: of the local stack, and of stages without one. It names a stage of .chalice/config.json, as arm64 does."""
MAX_ZIP_BYTES = 20_000_000
# Packaging calls nothing over the network; Chalice needs a region to name service principals.
_ENVIRONMENT = {"AWS_DEFAULT_REGION": "us-east-1", "AWS_EC2_METADATA_DISABLED": "true"}
_STAMP = BUILD / "inputs.sha256"


def ensure_packaged(architecture: str = HERE) -> None:
    """Package for an architecture, unless build/ is up to date. Concurrent calls wait for each other."""
    BUILD.mkdir(exist_ok=True)
    with _exclusive():
        if not (_STAMP.exists() and _STAMP.read_text() == inputs_digest(architecture) and ZIP.exists() and TEMPLATE.exists()):
            _package(architecture)


def inputs_digest(architecture: str = HERE) -> str:
    """Digest of all inputs of build/."""
    digest = hashlib.sha256(f"{sys.version} {architecture}".encode())
    for path in _inputs():
        digest.update(str(path.relative_to(PROJECT)).encode() + b"\0" + path.read_bytes() + b"\0")
    return digest.hexdigest()


def _inputs() -> Iterator[Path]:
    for name in (
        "app.py",
        "requirements.txt",
        "requirements.lock",
        ".chalice/config.json",
        "local/package.py",
        "local/bundle.py",
        "local/dashboard.py",
        "local/gateway_auth.py",
        "local/job_accounts.py",
        "local/wheels.py",
        "infra/template.yaml",
        "infra/deployer.yaml",
        "infra/login-cognito.yaml",
    ):
        if not (PROJECT / name).exists():
            raise LocalError(f"cannot package, a file is missing: file={name}")
        yield PROJECT / name
    yield from sorted(path for path in (PROJECT / "chalicelib").rglob("*") if path.is_file() and "__pycache__" not in path.parts)


def _package(architecture: str) -> None:
    digest = inputs_digest(architecture)
    _STAMP.unlink(missing_ok=True)
    with tempfile.TemporaryDirectory(dir=BUILD) as draft:
        _chalice_package(architecture, Path(draft))
        _write_template(Path(draft) / "sam.yaml", TEMPLATE)
        bundle.rewrite(Path(draft) / "deployment.zip", ZIP)
    if architecture == HERE:  # compiled packages of another architecture cannot be imported here
        bundle.check_imports(ZIP, "app")
    _check_size()
    _lint()
    _STAMP.write_text(digest)


def _chalice_package(architecture: str, out: Path) -> None:
    """Gives Chalice wheels with verified digests, for the stage's architecture."""
    shutil.rmtree(PROJECT / ".chalice" / "deployments", ignore_errors=True)
    environment = wheels.offline(wheels.ensure(architecture))
    _run("chalice", "package", "--stage", architecture, "--merge-template", str(MERGED), str(out), **environment)


def _write_template(source: Path, target: Path) -> None:
    template = yaml.safe_load(source.read_text())
    dashboard.add_to(template)
    gateway_auth.add_to(template)
    job_accounts.add_to(template)
    target.write_text(yaml.dump(template, Dumper=_PlainDumper, sort_keys=True, width=120))


def _check_size() -> None:
    size = ZIP.stat().st_size
    if size > MAX_ZIP_BYTES:
        raise LocalError(f"the function's zip is too large: bytes={size} limit={MAX_ZIP_BYTES}")


def _lint() -> None:
    _run("cfn-lint", "--regions", "us-east-1", "--", str(TEMPLATE), str(DEPLOYER), str(LOGIN))


def _run(tool: str, *arguments: str, **environment: str) -> None:
    """Run a tool that is installed next to this interpreter."""
    command = [str(Path(sys.executable).with_name(tool)), *arguments]
    done = subprocess.run(command, cwd=PROJECT, env=os.environ | _ENVIRONMENT | environment, capture_output=True, text=True)
    if done.returncode:
        show(done.stdout + done.stderr, end="", file=sys.stderr)
        raise LocalError(f"{tool} failed, see above: exit_code={done.returncode}")


@contextlib.contextmanager
def _exclusive() -> Iterator[None]:
    with open(BUILD / "lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


class _PlainDumper(yaml.SafeDumper):
    """YAML without anchors and aliases."""

    def ignore_aliases(self, data: Any) -> bool:
        """Always write the value itself."""
        return True


def summary() -> str:
    """One line about the contents of build/."""
    return f"{TEMPLATE.relative_to(PROJECT)} and {ZIP.relative_to(PROJECT)}, {ZIP.stat().st_size / 1e6:.1f} MB zipped"
