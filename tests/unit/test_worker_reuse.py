"""What a Python worker of Spark does at the beginning of each task."""

from __future__ import annotations

import gc
import importlib
import sys
import zipfile
from pathlib import Path
from zipimport import zipimporter

import pytest

from glue_jobs.job_runtime.worker_reuse import begin_task


def test_directories_of_imported_archives_are_not_read_for_the_next_task(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    archive = tmp_path / "shipped.zip"
    with zipfile.ZipFile(archive, "w") as file:
        for name in ("shipped/__init__.py", "shipped/first.py", "shipped/second.py"):
            file.writestr(name, "VALUE = __name__\n")
    monkeypatch.syspath_prepend(str(archive))
    importlib.import_module("shipped.first")
    begin_task()
    assert not [each for each in sys.path_importer_cache.values() if isinstance(each, zipimporter)]
    assert importlib.import_module("shipped.second").VALUE == "shipped.second"


def test_imported_modules_are_exempt_from_the_collection_between_tasks() -> None:
    begin_task()
    exempt = gc.get_freeze_count()
    assert exempt
    later: list[object] = []
    later.append(later)
    begin_task()
    assert gc.get_freeze_count() <= exempt, "only what the first task found: later garbage is collected"
