"""What a Python worker of Spark does at the beginning of each task."""

from __future__ import annotations

import gc
import importlib
import sys
import zipfile
from importlib.machinery import FileFinder
from pathlib import Path
from zipimport import zipimporter

import pytest

from glue_jobs.job_runtime.worker_reuse import _exempt_imports, prepare_reuse


def test_directories_of_imported_archives_are_not_read_for_the_next_task(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    archive = tmp_path / "shipped.zip"
    with zipfile.ZipFile(archive, "w") as file:
        for name in ("shipped/__init__.py", "shipped/first.py", "shipped/second.py"):
            file.writestr(name, "VALUE = __name__\n")
    monkeypatch.syspath_prepend(str(archive))
    importlib.import_module("shipped.first")
    prepare_reuse()
    kinds = set(map(type, sys.path_importer_cache.values()))
    assert zipimporter not in kinds and FileFinder in kinds
    assert importlib.import_module("shipped.second").VALUE == "shipped.second"
    prepare_reuse()
    with zipfile.ZipFile(archive, "w") as file:
        file.writestr("shipped/third.py", "VALUE = 3\n")
    assert importlib.import_module("shipped.third").VALUE == 3


def test_what_a_worker_has_imported_is_exempt_from_collections_once(monkeypatch: pytest.MonkeyPatch) -> None:
    exemptions: list[None] = []
    monkeypatch.setattr(gc, "freeze", lambda: exemptions.append(None))
    _exempt_imports.cache_clear()
    prepare_reuse()
    prepare_reuse()
    assert len(exemptions) == 1
