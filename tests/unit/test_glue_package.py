"""The package for Glue: the jobs' zip, the start scripts, and the pinned requirements."""

from __future__ import annotations

import hashlib
import os
import runpy
import sys
from collections.abc import Iterator
from pathlib import Path
from zipfile import ZipFile

import pytest

from glue_jobs.job_runtime.session import is_on_glue
from local import bundle, glue
from local.state import PROJECT, LocalError

pytestmark = pytest.mark.slow  # it starts processes


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A separate build/glue/, without the wheels, which would be downloaded."""
    folder = tmp_path_factory.mktemp("glue")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(glue, "FOLDER", folder)
        patch.setattr(glue, "CODE", folder / "glue-jobs.zip")
        glue.ensure_code()
        yield folder


def test_the_zip_has_the_jobs_and_what_they_stand_on_and_nothing_that_is_compiled(folder: Path) -> None:
    with ZipFile(folder / "glue-jobs.zip") as archive:
        names = archive.namelist()
        assert archive.read("glue_jobs/retention.py") == (PROJECT / "glue_jobs" / "retention.py").read_bytes()
    assert {"glue_jobs/__init__.py", "glue_jobs/datasource/source.py", "chalicelib/runlog/compaction.py"} <= set(names)
    assert {name.split("/")[0] for name in names} == {"glue_jobs", "chalicelib"}
    others = [name for name in names if not name.endswith(".py") or name.startswith("chalicelib/routes/")]
    assert others == ["chalicelib/pipelines/runlake.yaml"]


def test_the_same_code_is_the_same_bytes(folder: Path) -> None:
    digest = hashlib.sha256((folder / "glue-jobs.zip").read_bytes()).hexdigest()
    (folder / "glue-jobs.zip").unlink()
    glue.ensure_code()
    assert hashlib.sha256((folder / "glue-jobs.zip").read_bytes()).hexdigest() == digest


def test_each_job_has_a_script_that_ends_badly_only_when_the_job_does(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Glue treats ``sys.exit(0)`` as a failure too."""
    assert sorted(path.stem for path in folder.glob("*.py")) == glue.jobs()
    monkeypatch.setenv("GLUE_JOB", "")  # put back afterwards
    for job in glue.jobs():
        monkeypatch.setattr(sys, "argv", [f"{job}.py"])
        for code in (0, 1):
            monkeypatch.setattr(f"glue_jobs.{job}.main", lambda argv, code=code: code)
            if code:
                with pytest.raises(SystemExit, match=f"{job} ended with exit code 1"):
                    runpy.run_path(str(folder / f"{job}.py"), run_name="__main__")
            else:
                runpy.run_path(str(folder / f"{job}.py"), run_name="__main__")
        assert os.environ["GLUE_JOB"] == job and is_on_glue()


def test_a_job_that_needs_what_glue_lacks_is_told(tmp_path: Path) -> None:
    (tmp_path / "job.py").write_text("import rich")
    with pytest.raises(LocalError, match="the zip cannot be imported: error=\"ModuleNotFoundError: No module named 'rich'\""):
        bundle.import_with_packages(tmp_path, glue.GLUE_PACKAGES, ["job"], "the zip")


def test_every_package_that_the_function_has_is_pinned_for_glue_too() -> None:
    lines = (PROJECT / "requirements.txt").read_text().splitlines()
    wanted = [line for line in lines if line and not line.startswith("#")]
    pinned = [f"{name}=={version}" for name, version in glue.pins().items()]
    assert pinned[: len(wanted)] == wanted
    assert [each.partition("==")[0] for each in pinned[len(wanted) :]] == ["fastavro"], "and what its job needs beside"
