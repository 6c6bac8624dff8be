"""``make package`` for Glue: builds build/glue/, which ``make deploy`` uploads unchanged.

::

    glue-jobs.zip             glue_jobs/ and the parts of chalicelib/ that it imports          --extra-py-files
    runlake.gluewheels.zip    pinned dependencies for Glue's Python                            --additional-python-modules
    {job}.py                  starts a job                                                     ScriptLocation
    VERSION                   digest of all other files: folder name on S3, and JobsVersion

Compiled packages cannot be in --extra-py-files, so dependencies are wheels; with ``--no-index`` a job needs no PyPI. boto3 is among
them in the tested version: an older one would silently drop conditions from requests. PySpark and PyArrow are Glue's own.
"""

from __future__ import annotations

import fcntl
import hashlib
import re
import tempfile
from collections.abc import Iterator
from pathlib import Path
from zipfile import ZipFile

from local import bundle, locks, wheels
from local.state import PROJECT

FOLDER = PROJECT / "build" / "glue"
CODE, WHEELS, VERSION = FOLDER / "glue-jobs.zip", FOLDER / "runlake.gluewheels.zip", FOLDER / "VERSION"
PYTHON = "3.13"
"""Platform of Glue 6.0: Amazon Linux 2023 (glibc 2.34)."""
_PLATFORMS = (
    "manylinux_2_34_x86_64",
    "manylinux_2_28_x86_64",
    "manylinux_2_17_x86_64",
    "manylinux2014_x86_64",
    "manylinux1_x86_64",
)
GLUE_PACKAGES = ("pyspark", "py4j", "pyarrow", "pandas", "numpy")
"""Glue's own packages that the jobs use."""
JOBS_PACKAGES = ("fastavro",)
"""Packages that neither Glue nor the functions have: for pipeline files in Avro."""
_NOT_OURS = ("chalicelib/routes/",)  # Glue has no Chalice
_STAMP = FOLDER.parent / "glue-wheels.sha256"
_SCRIPT = '''"""Runs glue_jobs.{name} on Glue, which takes any call of sys.exit for a failure."""

import os
import sys

from glue_jobs.{name} import main

os.environ["GLUE_JOB"] = "{name}"  # glue_jobs.job_runtime.session asks where it is by names that begin so
if code := main(sys.argv[1:]):
    sys.exit(f"{name} ended with exit code {{code}}")
'''


def ensure_packaged() -> str:
    """Rebuild build/glue/ if it is out of date; returns its version. Wheels are downloaded once for each set of pins."""
    FOLDER.mkdir(parents=True, exist_ok=True)
    with open(FOLDER.parent / "glue.lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        ensure_code()
        _ensure_wheels()
        version = _version()
        VERSION.write_text(version + "\n")
    return version


def ensure_code() -> None:
    """Build the code and the scripts, without downloads. Raises LocalError if a job cannot be imported from the zip."""
    FOLDER.mkdir(parents=True, exist_ok=True)
    _write_scripts()
    contents = [(name, (PROJECT / name).read_bytes()) for name in _sources()]
    if not (CODE.exists() and _is_of(CODE, contents)):
        bundle.write(CODE, contents)
    packages = (*bundle.RUNTIME_PACKAGES, *pins(), *GLUE_PACKAGES)
    imported, stamp = hashlib.sha256(CODE.read_bytes() + repr(packages).encode()).hexdigest(), FOLDER.with_suffix(".imported")
    if not (stamp.exists() and stamp.read_text() == imported):
        bundle.import_with_packages(CODE, packages, [f"glue_jobs.{name}" for name in jobs()], "the jobs' zip")
        stamp.write_text(imported)


def _write_scripts() -> None:
    """A script that is right is not touched: a deployment may be reading it."""
    scripts = {FOLDER / f"{name}.py": _SCRIPT.format(name=name) for name in jobs()}
    for path in set(FOLDER.glob("*.py")) - set(scripts):
        path.unlink()
    for path, text in scripts.items():
        if not (path.exists() and path.read_text() == text):
            path.write_text(text)


def files() -> list[Path]:
    """What Glue reads: all files of build/glue/ except VERSION."""
    return sorted([CODE, WHEELS, *FOLDER.glob("*.py")])


def jobs() -> list[str]:
    """Names of the modules in ``glue_jobs/`` that can be run."""
    return sorted(path.stem for path in (PROJECT / "glue_jobs").glob("*.py") if "def main(" in path.read_text())


def pins() -> dict[str, str]:
    """Pinned packages of requirements.txt, and of requirements-dev.txt those that only jobs need."""
    beside = _pinned("requirements-dev.txt")
    return _pinned("requirements.txt") | {name: beside[name] for name in JOBS_PACKAGES}


def _pinned(name: str) -> dict[str, str]:
    return dict(re.findall(r"^([\w-]+)==(\S+)$", (PROJECT / name).read_text(), re.MULTILINE))


def _versions(requirements: str) -> dict[str, str]:
    return dict(re.findall(r"^([\w.-]+)==([^\s;\\]+)", requirements, re.MULTILINE))


def summary() -> str:
    """One line about the contents of build/glue/."""
    sizes = sum(path.stat().st_size for path in (CODE, WHEELS))
    return f"{FOLDER.relative_to(PROJECT)}, {sizes / 1e6:.1f} MB, version {VERSION.read_text().strip()}"


def _sources() -> list[str]:
    found = [
        path for folder in ("chalicelib", "glue_jobs") for kind in ("*.py", "*.yaml") for path in (PROJECT / folder).rglob(kind)
    ]
    names = sorted(path.relative_to(PROJECT).as_posix() for path in found)
    return [name for name in names if not name.startswith(_NOT_OURS)]


def _is_of(path: Path, contents: list[tuple[str, bytes]]) -> bool:
    with ZipFile(path) as archive:
        return archive.namelist() == [name for name, _ in contents] and all(archive.read(name) == body for name, body in contents)


def _ensure_wheels() -> None:
    requirements = locks.hashed(locks.DEVELOPMENT, {*pins(), *bundle.RUNTIME_PACKAGES})
    digest = hashlib.sha256("\n".join([requirements, PYTHON, *_PLATFORMS]).encode()).hexdigest()
    if WHEELS.exists() and _STAMP.exists() and _STAMP.read_text() == digest:
        return
    with tempfile.TemporaryDirectory(dir=FOLDER.parent) as work:
        folder = Path(work, "wheels")
        folder.mkdir()
        pinned = (f"{name}=={version}" for name, version in _versions(requirements).items())
        (folder / "requirements.txt").write_text("\n".join(pinned) + "\n")  # Glue installs by it
        platforms = [word for platform in _PLATFORMS for word in ("--platform", platform)]
        wheels.download(requirements, folder, ["--implementation", "cp", "--python-version", PYTHON, *platforms])
        bundle.write(WHEELS, _contents(folder), compressed=False)
    _STAMP.write_text(digest)


def _contents(folder: Path) -> Iterator[tuple[str, bytes]]:
    for path in sorted(folder.iterdir()):
        yield f"wheels/{path.name}", path.read_bytes()


def _version() -> str:
    digest = hashlib.sha256()
    for path in files():
        digest.update(path.name.encode() + b"\0" + path.read_bytes() + b"\0")
    return digest.hexdigest()[:12]
