"""The examples of docs/examples/pipelines: each is run, and compared with the output of ``logging`` itself for the same records."""

from __future__ import annotations

import gzip
import json
import logging
import logging.config
import os
import re
import sys
import warnings
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from chalicelib.pipelines.allowed_modules import AllowedModules
from chalicelib.pipelines.configuration import PipelineFile, parse_pipeline_file
from chalicelib.pipelines.validation import check_pipeline
from chalicelib.ports import Run
from local.run_pipelines import use_wheels
from tests.pipelines_harness import START_MS, PipelinesHarness, line
from tests.support.wheels import fresh_process

EXAMPLES = Path(__file__).parents[2] / "docs" / "examples" / "pipelines"
A, B = Run("sales.load", "r1"), Run("hr.load", "r2")
ADDED = AllowedModules(("site_handlers", "concurrent_log_handler"))
EVENTS = [
    (A, "app.db", "DEBUG", "connected"),
    (A, "audit", "INFO", "alice read orders"),
    (A, "audit.deep.name", "WARNING", "bob wrote orders"),
    (B, "metrics", "INFO", "rows=17"),
    (B, "metrics", "DEBUG", "not for the file"),
    (B, "auditor", "INFO", "another logger"),
    (B, "app", "ERROR", "it broke"),
]


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    before = Path.cwd()
    os.chdir(tmp_path)
    yield tmp_path
    os.chdir(before)


def example(name: str) -> PipelineFile:
    return parse_pipeline_file((EXAMPLES / f"{name}.yaml").read_text(), name, modules=ADDED)


def worked(file: PipelineFile, events: list[tuple[Run, str, str, str]]) -> PipelinesHarness:
    world = PipelinesHarness()
    for at, (run, logger, level, text) in enumerate(events):
        world.write(run, [line(START_MS + at, text, level, logger)])
    for run in {run for run, *_ in events}:
        world.end(run)
    worker = world.worker(file)
    worker.start()
    world.work(worker)
    worker.stop()
    assert [each for each in world.told if "handler" in each] == []
    return world


def by_logging_itself(file: PipelineFile, events: list[tuple[Run, str, str, str]], folder: Path) -> dict[str, str]:
    """The same handlers by ``dictConfig`` in a separate process, and the same records by plain calls."""
    folder.mkdir()
    config = yaml.safe_load((EXAMPLES / f"{file.name}.yaml").read_text())["logging"] | {"disable_existing_loggers": False}
    made = [
        {
            "name": logger, "levelno": logging.getLevelName(level), "levelname": level, "msg": text, "created": (START_MS + at) / 1000,
            "runlake_fqn": run.fqn, "runlake_run_id": run.run_id, "runlake_line": [r for r, *_ in events[:at]].count(run),
            "runlake_app": "load",
        }
        for at, (run, logger, level, text) in enumerate(events)
    ]  # fmt: skip
    code = """if True:
        import json, logging.config, sys
        config, records = json.load(sys.stdin)
        logging.config.dictConfig(config)
        for each in records:
            logger = logging.getLogger(each["name"])
            if logger.isEnabledFor(each["levelno"]):
                logger.handle(logging.makeLogRecord(each))
    """
    import subprocess

    subprocess.run([sys.executable, "-c", code], input=json.dumps([config, made]), text=True, cwd=folder, check=True, timeout=60)
    return {path.name: path.read_text() for path in folder.iterdir()}


def test_every_example_can_be_validated() -> None:
    use_wheels(None)
    names = sorted(path.stem for path in EXAMPLES.glob("*.yaml"))
    assert names == ["by-level", "by-level-on-s3", "own-class", "own-location", "rotation", "third-party"]
    for name in names:
        assert example(name).name == name
        assert list(check_pipeline(example(name))) == []


def test_files_by_level_each_with_a_layout_of_its_own(folder: Path) -> None:
    file = example("by-level")
    ordered = [event for run in (A, B) for event in EVENTS if event[0] is run]
    worked(file, ordered)
    found = {name: (folder / name).read_text() for name in ("audit.log", "metrics.log", "debug.log")}
    assert found["audit.log"].splitlines() == [
        f"{START_MS // 1000} sales.load r1 alice read orders",
        f"{START_MS // 1000} sales.load r1 bob wrote orders",
    ]
    assert found["metrics.log"] == "rows=17\n"
    assert found["debug.log"].splitlines()[0] == "DEBUG app.db [r1:0] connected"
    assert found == by_logging_itself(file, ordered, folder / "expected")


def test_files_on_s3_by_application_and_level_and_one_application_elsewhere() -> None:
    payroll = Run("hr.payroll", "r3")
    events = [
        (run, "app", level, f"{level} of {run.fqn}") for run in (A, payroll) for level in ("INFO", "WARNING", "ERROR", "INFO")
    ]
    world = worked(example("by-level-on-s3"), events)
    objects = [each.key for each in world.store.list("pipeline-files/").objects]
    assert [re.sub(r"~\d{13}", "~…", key) for key in objects] == [
        f"pipeline-files/teams/sales/load/{level}~….log.gz" for level in ("ERROR", "INFO", "WARNING")
    ]
    assert gzip.decompress(world.store.get(objects[1]).body).decode().splitlines() == [
        "2026-09-21T14:13:20.000Z INFO app - INFO of sales.load", "2026-09-21T14:13:20.003Z INFO app - INFO of sales.load",
    ]  # fmt: skip
    world = worked(example("own-location"), events)
    objects = [each.key for each in world.store.list("pipeline-files/").objects]
    assert [re.sub(r"~\d{13}", "~…", key) for key in objects] == [
        f"pipeline-files/payroll/2026-09-21/{level}~….jsonl" for level in ("ERROR", "INFO", "WARNING")
    ]
    assert [json.loads(world.store.get(key).body.splitlines()[0])["message"] for key in objects] == [
        f"r3 {level} of hr.payroll" for level in ("ERROR", "INFO", "WARNING")
    ]


def test_a_rotation_of_its_own_for_each_file(folder: Path) -> None:
    file = example("rotation")
    events = [(A, "app", "INFO", f"line number {number:04d}") for number in range(60)]
    worked(file, events)
    sizes = {path.name: path.stat().st_size for path in folder.glob("by-size.log*")}
    assert len(sizes) == 6 and max(sizes.values()) <= 200
    assert (folder / "by-time.log").read_text().splitlines() == [text for *_, text in events]
    expected = by_logging_itself(file, events, folder / "expected")
    assert {name: (folder / name).read_text() for name in sizes} == {name: expected[name] for name in sizes}


@pytest.mark.behavior("Any `logging.Handler` of a package works in a pipeline.")
def test_a_handler_from_pypi_as_it_is(folder: Path) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        pytest.importorskip("concurrent_log_handler")
        worked(example("third-party"), EVENTS)
    assert (folder / "shared.log").read_text().splitlines() == ["2026-09-21 WARNING bob wrote orders"]


def test_a_class_of_ones_own_from_a_wheel(folder: Path) -> None:
    wheel = folder / "wheels" / "site_handlers-1.0-py3-none-any.whl"
    wheel.parent.mkdir()
    with zipfile.ZipFile(wheel, "w") as packed:
        packed.write(EXAMPLES / "plugin" / "site_handlers" / "__init__.py", "site_handlers/__init__.py")
    with fresh_process(folder):
        assert use_wheels(wheel.parent) == []
        text = (EXAMPLES / "own-class.yaml").read_text().replace("/tmp/", f"{folder}/")
        worked(parse_pipeline_file(text, "own-class", modules=ADDED), EVENTS)
    counts = json.loads((folder / "counts.json").read_text())
    assert counts == {"load ERROR": 1, "load INFO": 3, "load WARNING": 1}
