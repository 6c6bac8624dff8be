"""Downloads a function's packages and verifies their digests before Chalice packages.

Chalice runs ``pip download`` twice: from ``requirements.txt``, and by name and version for packages of another architecture.
Neither verifies digests. Therefore pip has no access to an index meanwhile and finds only these files.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from local import bundle, locks
from local.state import PROJECT, LocalError
from local.terminal import show

CACHE = PROJECT / "build" / "wheels"
PYTHON = "3.11"
"""Platform of the functions: Amazon Linux 2 (glibc 2.26)."""
_TARGETS = {"x86_64": "x86_64", "arm64": "aarch64"}
_GLIBC = (
    "manylinux_2_26",
    "manylinux_2_24",
    "manylinux_2_17",
    "manylinux2014",
    "manylinux_2_12",
    "manylinux2010",
    "manylinux_2_5",
    "manylinux1",
)


def offline(folder: Path) -> dict[str, str]:
    """Environment variables that restrict pip to the files of a folder."""
    return {
        "PIP_NO_INDEX": "1",
        "PIP_FIND_LINKS": str(folder),
        "PIP_EXTRA_INDEX_URL": "",
        "PIP_INDEX_URL": "",
        "PIP_CONFIG_FILE": "/dev/null",
    }


def ensure(architecture: str) -> Path:
    """A folder with the wheels of the functions' packages, for this machine and for the functions; downloaded once for each set of
    pins. Raises LocalError."""
    requirements = locks.hashed(locks.RUNTIME, locks.entries(locks.RUNTIME)) + locks.hashed(
        locks.DEVELOPMENT, bundle.RUNTIME_PACKAGES
    )
    digest = hashlib.sha256(f"{sys.version} {architecture}\n{requirements}".encode()).hexdigest()[:16]
    folder = CACHE / f"{architecture}-{digest}"
    if not folder.exists():
        CACHE.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=CACHE) as draft:
            wheels = Path(draft, "wheels")
            wheels.mkdir()
            download(requirements, wheels, [])
            download(requirements, wheels, _platform(architecture))
            shutil.move(wheels, folder)
    return folder


def download(requirements: str, into: Path, platform: Sequence[str]) -> None:
    """Download hashed requirements as wheels. Raises LocalError, also if a digest differs from the lock's."""
    with tempfile.NamedTemporaryFile("w", suffix=".txt") as file:
        file.write(requirements)
        file.flush()
        command = [
            sys.executable,
            "-m",
            "pip",
            "download",
            "--quiet",
            "--disable-pip-version-check",
            "--no-deps",
            "--require-hashes",
        ]
        command += ["--only-binary=:all:", *platform, "-d", str(into), "-r", file.name]
        done = subprocess.run(command, env=dict(os.environ), capture_output=True, text=True)
    if done.returncode:
        show(done.stdout + done.stderr, end="", file=sys.stderr)
        raise LocalError(f"could not download the locked packages, see above: exit_code={done.returncode}")


def _platform(architecture: str) -> list[str]:
    words = [word for glibc in _GLIBC for word in ("--platform", f"{glibc}_{_TARGETS[architecture]}")]
    return ["--implementation", "cp", "--python-version", PYTHON, *words]
