"""Runs ministack with each zip of functions' code unpacked once, for all workers and all stacks, where ministack unpacks it for each worker.

Started by path (see ``emulator.py``), so that neither the emulator nor the functions, which inherit its environment, find the project on
their path. Code is read-only to functions on Lambda too.
"""

import fcntl
import hashlib
import os
import runpy
import shutil
import zipfile
from pathlib import Path
from typing import Any

FOLDER = "RUNLAKE_SHARED_CODE"
"""Environment variable: where the unpacked code is kept."""
_KEPT = 3
"""Zips, newest first, for stacks that run now and those that were started last."""


class SharedZipFile(zipfile.ZipFile):
    """Unpacks into a link to what was unpacked before."""

    def extractall(self, path: Any = None, members: Any = None, pwd: bytes | None = None) -> None:
        target = Path(path or ".")
        if self.filename is None or target.name != "code" or any(target.iterdir()):
            super().extractall(path, members, pwd)
            return
        source = _unpacked(_digest(self.filename), self)
        target.rmdir()
        target.symlink_to(source)


def _digest(path: str) -> str:
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _unpacked(digest: str, source: zipfile.ZipFile) -> Path:
    folder = Path(os.environ[FOLDER])
    target = folder / digest
    folder.mkdir(parents=True, exist_ok=True)
    with open(folder / "lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not target.exists():
            draft = folder / "draft"
            shutil.rmtree(draft, ignore_errors=True)
            zipfile.ZipFile.extractall(source, draft)
            draft.rename(target)
            _prune(folder)
    return target


def _prune(folder: Path) -> None:
    by_age = sorted((path for path in folder.iterdir() if path.is_dir()), key=lambda path: path.stat().st_mtime, reverse=True)
    for path in by_age[_KEPT:]:
        shutil.rmtree(path, ignore_errors=True)


def main() -> None:
    from ministack.core import lambda_runtime

    lambda_runtime.zipfile = _Zipfile
    runpy.run_module("ministack", run_name="__main__", alter_sys=True)


class _Zipfile:
    """The module ``zipfile`` as ministack uses it."""

    ZipFile, BadZipFile = SharedZipFile, zipfile.BadZipFile


if __name__ == "__main__":
    main()
