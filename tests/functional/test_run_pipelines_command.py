"""``runlake-pipelines``: run, validate, help."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path
from unittest.mock import patch

import pytest
import yaml

from chalicelib.pipelines.allowed_modules import VARIABLE
from chalicelib.pipelines.configuration import ROLLING_HANDLER
from chalicelib.ports import Run
from local import run_pipelines
from local.run_pipelines import main
from local.state import PROJECT
from tests.functional.gateway import installed
from tests.functional.test_http_pipelines import patiently
from tests.pipelines_harness import MEASURES, RECORDS, START_MS, PipelinesHarness, RecordingHandler, line

A = Run("svc.a", "r1")


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    RecordingHandler.forget()
    world = PipelinesHarness()
    world.clock.sleep = lambda seconds: patiently(world, seconds)  # type: ignore[method-assign]
    world.write(A, [line(START_MS, "one"), line(START_MS + 1, "two")])
    world.end(A)
    logging_ = {"version": 1, "handlers": {"h": {"class": RECORDS}}, "root": {"handlers": ["h"]}}
    (tmp_path / "mine.yaml").write_text(yaml.safe_dump({"logging": logging_}))
    with installed(world, runs=world.runs, pipeline_modules="tests.*", built_in_pipeline="true"):
        yield tmp_path
    RecordingHandler.forget()


def test_it_runs_a_folders_pipelines_once(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["run", "--config", str(folder), "--once"]) == 0
    assert RecordingHandler.messages() == ["one", "two"]
    assert capsys.readouterr().out.splitlines()[-2:] == ["runlake: stopped", "mine: stopped"]


def test_it_prints_the_metrics_of_handlers(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "mine.yaml").write_text((folder / "mine.yaml").read_text().replace(RECORDS, MEASURES))
    assert main(["run", "--config", str(folder), "--once", "--only", "mine"]) == 0
    printed = [json.loads(each) for each in capsys.readouterr().out.splitlines() if each.startswith("{")]
    assert [each["metrics"]["length"]["count"] for each in printed] == [2]


def test_only_some(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["run", "--config", str(folder), "--once", "--only", "runlake"]) == 0
    assert RecordingHandler.messages() == []


def test_unknown_name_is_refused(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["run", "--config", str(folder), "--once", "--only", "mine", "--only", "nobody"]) == 2
    assert capsys.readouterr().err == "runlake-pipelines: no such pipeline: nobody; there are runlake, mine\n"
    assert RecordingHandler.messages() == []


def test_archive_is_the_stack_of_a_port(folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    stack = {"stack_name": "here", "aws_endpoint_url": "http://127.0.0.1:1", "region": "r"}
    stack |= {"aws_access_key_id": "i", "aws_secret_access_key": "s"}
    taken: list[tuple[str, str | None, str | None]] = []
    monkeypatch.setattr(run_pipelines, "read_stack_description", lambda port: stack)
    monkeypatch.setattr(
        run_pipelines,
        "use_stack",
        lambda name: taken.append((name, os.environ.get("AWS_ENDPOINT_URL"), os.environ.get("AWS_PROFILE"))),
    )
    with patch.dict(os.environ, {"AWS_PROFILE": "another"}):
        assert main(["run", "--port", "4999", "--config", str(folder), "--once"]) == 0
        assert main(["run", "--stack-name", "there", "--config", str(folder), "--once"]) == 0
    assert taken == [("here", "http://127.0.0.1:1", None), ("there", "http://127.0.0.1:1", None)]


def test_stack_that_cannot_be_read_is_said(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(name: str) -> None:
        raise LookupError(f"not a stack of Runlake stack={name}")

    monkeypatch.setattr(run_pipelines, "use_stack", refused)
    assert main(["run", "--stack-name", "there"]) == 2
    assert capsys.readouterr().err == "runlake-pipelines: cannot read the stack's settings: not a stack of Runlake stack=there\n"


def test_validate_reports_errors(folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, "tests.*")
    assert main(["validate", "--config", str(folder)]) == 0
    assert capsys.readouterr().out == "2 pipelines: runlake, mine\n"
    (folder / "bad.yaml").write_text("[")
    unknown = {"version": 1, "handlers": {"h": {"class": "logging.NoSuch"}}, "root": {"handlers": ["h"]}}
    (folder / "unknown.yaml").write_text(yaml.safe_dump({"logging": unknown}))
    (folder / "twice.yaml").write_text(yaml.safe_dump({"name": "mine", "logging": unknown}))
    assert main(["validate", "--config", str(folder)]) == 2
    told = capsys.readouterr().err
    assert (
        "bad.yaml: invalid yaml" in told
        and "unknown: the module has no such class name='logging.NoSuch' handler=h" in told
        and "twice.yaml: another pipeline has this name" in told
    )


def test_validate_refuses_parquet_unless_only_the_job_runs_it(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rolling = {"class": ROLLING_HANDLER, "base": "pipeline-files/p", "format": "parquet"}
    logging_ = {"version": 1, "handlers": {"h": rolling}, "root": {"handlers": ["h"]}}
    (folder / "mine.yaml").write_text(yaml.safe_dump({"logging": logging_}))
    assert main(["validate", "--config", str(folder)]) == 2
    assert "mine: Parquet needs pyarrow" in capsys.readouterr().err
    assert main(["validate", "--config", str(folder), "--job"]) == 0


def test_validate_prints_the_setting_to_add(
    folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(VARIABLE, "site_handlers")
    assert main(["validate", "--config", str(folder)]) == 2
    printed = capsys.readouterr()
    assert printed.out == "1 pipelines: runlake\n"
    assert f"set {VARIABLE}=site_handlers,tests.pipelines_harness" in printed.err
    monkeypatch.setenv(VARIABLE, "site_handlers,tests.pipelines_harness")
    assert main(["validate", "--config", str(folder)]) == 0


def test_validate_refuses_a_bad_list_of_modules(
    folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(VARIABLE, "os; rm")
    assert main(["validate", "--config", str(folder)]) == 2
    assert f"{VARIABLE}='os; rm'" in capsys.readouterr().err


def test_missing_folder_is_reported(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["run", "--config", str(folder / "none")]) == 2
    assert "no such folder" in capsys.readouterr().err


def test_help_says_what_there_is(capsys: pytest.CaptureFixture[str]) -> None:
    for words in (["--help"], ["run", "--help"]):
        with pytest.raises(SystemExit) as ended:
            main(words)
        assert ended.value.code == 0
    assert "--config DIR" in capsys.readouterr().out


@pytest.mark.slow
def test_the_command_is_found_from_anywhere(tmp_path: Path) -> None:
    (tmp_path / "mine.yaml").write_text(
        yaml.safe_dump(
            {"logging": {"version": 1, "handlers": {"h": {"class": "logging.NullHandler"}}, "root": {"handlers": ["h"]}}}
        )
    )
    command = [str(PROJECT / "bin" / "runlake-pipelines"), "validate", "--config", "."]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (0, "2 pipelines: runlake, mine\n"), done.stderr
