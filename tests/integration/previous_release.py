"""The previous release as deployed: its packaged template and its code.

``python -m tests.integration.previous_release COMMIT`` writes ``tests/integration/previous/`` again: run it for each release, with
its commit. CI's clone may be shallow, so both are stored: the template compressed, the code without third-party packages, which are
today's.
"""

from __future__ import annotations

import gzip
import hashlib
import json
import subprocess
import sys
import tempfile
from pathlib import Path
from zipfile import ZIP_DEFLATED, ZipFile

from local.state import PROJECT

FOLDER = Path(__file__).parent / "previous"
TEMPLATE, CODE, MADE = FOLDER / "template.yaml.gz", FOLDER / "code.zip", FOLDER / "made.json"
_OURS = ("app.py", "chalicelib/")


def make(commit: str) -> None:
    """Write them from the repository's history."""
    FOLDER.mkdir(exist_ok=True)
    full = _git("rev-parse", commit).decode().strip()
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run(["tar", "-x", "-C", folder], input=_git("archive", full), check=True)
        subprocess.run([sys.executable, "-c", "from local import package; package.ensure_packaged()"], cwd=folder, check=True)
        template = Path(folder, "build", "sam.yaml").read_bytes()
    TEMPLATE.write_bytes(gzip.compress(template, mtime=0))
    CODE.write_bytes(_git("archive", "--format=zip", full, *(name.rstrip("/") for name in _OURS)))
    sums = {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in (TEMPLATE, CODE)}
    how = f"python -m tests.integration.previous_release {full}"
    MADE.write_text(json.dumps({"commit": full, "made_by": how, "sha256": sums}, indent=2) + "\n")


def template() -> bytes:
    """Its packaged template."""
    return gzip.decompress(_proved(TEMPLATE))


def write_code(packages: Path, target: Path) -> None:
    """Write a function's zip of its code, over the packages of today's zip."""
    _proved(CODE)
    with ZipFile(packages) as today, ZipFile(CODE) as code, ZipFile(target, "w", ZIP_DEFLATED) as made:
        for name in today.namelist():
            if not name.startswith(_OURS) and not name.startswith("__pycache__/app."):
                made.writestr(name, today.read(name))
        for name in code.namelist():
            made.writestr(name, code.read(name))


def _proved(path: Path) -> bytes:
    body = path.read_bytes()
    assert hashlib.sha256(body).hexdigest() == json.loads(MADE.read_text())["sha256"][path.name], f"not as it was made: {path.name}"
    return body


def _git(*arguments: str) -> bytes:
    return subprocess.run(["git", *arguments], cwd=PROJECT, capture_output=True, check=True).stdout


if __name__ == "__main__":
    make(sys.argv[1])
