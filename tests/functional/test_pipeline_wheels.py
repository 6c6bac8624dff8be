"""Wheels with handlers in the function and on one machine: uploaded by the command, pinned by the setting, reported if they are not used."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from chalicelib import composition
from chalicelib.coordination import InMemoryPartitionStore, WorkSource
from chalicelib.ports import Run
from chalicelib.triggers import pipelines as trigger
from local.run_pipelines import main
from tests.functional.gateway import call, installed
from tests.functional.test_http_pipelines import patiently
from tests.pipelines_harness import RECORDS, START_MS, PipelinesHarness, RecordingHandler, line
from tests.support.wheels import fresh_process, wheel_bytes, wheel_name

A = Run("svc.a", "r1")
SITE = "from tests.pipelines_harness import RecordingHandler\n\nclass SiteHandler(RecordingHandler): ...\n"
NAME, WHEEL = wheel_name("wheel_site"), wheel_bytes({"wheel_site/__init__.py": SITE})
MODULES = "tests.*,wheel_site"
OTHER = "0" * 64
VARIABLE = "RUNLAKE_PIPELINE_WHEELS"


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[PipelinesHarness]:
    """Runs, and in the bucket of logs a pipeline with a handler from a wheel and one without, and one with a disallowed module."""
    RecordingHandler.forget()
    made = PipelinesHarness()
    made.clock.sleep = lambda seconds: patiently(made, seconds)  # type: ignore[method-assign]
    store = InMemoryPartitionStore()
    made.work_sources = lambda source: (store, WorkSource(source))
    made.write(A, [line(START_MS, "one"), line(START_MS + 1, "two")])
    made.end(A)
    (tmp_path / "wheel").mkdir()
    (tmp_path / "wheel" / NAME).write_bytes(WHEEL)
    conf = tmp_path / "conf"
    conf.mkdir()
    for name, handlers in {
        "site": {"site": "wheel_site.SiteHandler", "own": RECORDS},
        "other": {"own": RECORDS},
        "disallowed": {"own": "wheel_other.Handler"},
    }.items():
        parts = {each: {"class": cls, "to": f"{name} {each}"} for each, cls in handlers.items()}
        (conf / f"{name}.yaml").write_text(
            yaml.safe_dump({"logging": {"version": 1, "handlers": parts, "root": {"handlers": list(parts)}}})
        )
    with fresh_process(tmp_path):
        yield made
    RecordingHandler.forget()


def upload(world: PipelinesHarness, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> str:
    """Upload the wheel; returns the setting that the command prints."""
    with installed(world, runs=world.runs, pipelines_config=str(tmp_path / "conf")):
        assert main(["upload", str(tmp_path / "wheel" / NAME)]) == 0
    stored, setting = capsys.readouterr().out.splitlines()
    assert stored.endswith(f"/{NAME}: wheel_site") and setting.startswith(f"{VARIABLE}=")
    return setting.partition("=")[2]


def settings(tmp_path: Path, sha256: str) -> dict[str, Any]:
    named = {"pipelines_config": str(tmp_path / "conf"), "pipeline_modules": MODULES, "pipeline_wheels": sha256}
    return named | {"built_in_pipeline": "true"}


def received() -> dict[str, list[str]]:
    return {name: RecordingHandler.messages(name) for name in ("site site", "site own", "other own")}


BOTH = ["one", "two"]


def test_uploaded_wheel_runs_in_the_function_and_on_one_machine(
    world: PipelinesHarness, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    sha256 = upload(world, tmp_path, capsys)
    with installed(world, runs=world.runs, **settings(tmp_path, sha256)):
        assert set(trigger.work_pipelines(composition.services(), 120_000).values()) == {"stopped"}
        assert received() == {"site site": BOTH, "site own": BOTH, "other own": BOTH}
        world.write(Run("svc.a", "r2"), [line(START_MS, "three")])
        world.end(Run("svc.a", "r2"))
        assert main(["run", "--once"]) == 0
        assert received()["site site"] == [*BOTH, "three"]


@pytest.mark.parametrize("by", ["function", "command"])
@pytest.mark.parametrize(
    ("damage", "reason"),
    [
        ("changed", "the content is not what was pinned"),
        ("gone", "not found: run runlake-pipelines upload"),
        ("list", "the content is not what was pinned"),
        ("pin", "not found: run runlake-pipelines upload"),
    ],
)
def test_wheel_that_is_not_used_is_reported_and_concerns_its_handlers_alone(
    world: PipelinesHarness,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    by: str,
    damage: str,
    reason: str,
) -> None:
    """The log line, the metric and the handler's state; siblings and other pipelines get every event. Once the wheel is back, its
    handler gets what it missed."""
    sha256 = upload(world, tmp_path, capsys)
    (wheel,) = (tmp_path / "conf" / "lib").glob("*/*.whl")
    pinned = tmp_path / "conf" / "lib" / f"{sha256}.sha256"
    good = pinned.read_bytes()
    if damage == "changed":
        wheel.write_bytes(wheel_bytes({"wheel_site/__init__.py": f"{SITE}# another\n"}))
    elif damage == "gone":
        wheel.unlink()
    elif damage == "list":
        pinned.write_bytes(good.replace(b"a", b"b"))
    metrics: dict[str, float] = {}
    monkeypatch.setattr(trigger, "record", metrics.__setitem__)
    logged: list[str] = []
    monkeypatch.setattr(trigger.logger, "warning", lambda message, extra: logged.append(json.dumps({"warning": message} | extra)))
    with installed(world, runs=world.runs, **settings(tmp_path, OTHER if damage == "pin" else sha256)):
        if by == "function":
            assert set(trigger.work_pipelines(composition.services(), 120_000).values()) == {"stopped"}
            assert metrics["runlake_pipeline_problems"] == 2 and metrics["runlake_pipeline_handlers_off"] == 1
        else:
            assert main(["run", "--once"]) == 0
            logged = capsys.readouterr().err.splitlines()
        assert received() == {"site site": [], "site own": BOTH, "other own": BOTH}
        name = NAME if damage in ("changed", "gone") else ".sha256"
        (told,) = (each for each in map(json.loads, logged) if "wheel" in each)
        assert told["wheel"].endswith(name) and reason in told["reason"]
        assert any("RUNLAKE_PIPELINE_MODULES=tests.*,wheel_site,wheel_other" in each for each in logged)
        (status,) = (each for each in call("GET", "/v1/pipelines").json["pipelines"] if each["name"] == "site")
        (handler,) = (each for each in status["handlers"] if each["name"] == "site")
        assert handler["state"] == "failed" and "no such module" in handler["reason"] and reason in handler["reason"]
    wheel.write_bytes(WHEEL)
    pinned.write_bytes(good)
    with installed(world, runs=world.runs, **settings(tmp_path, sha256)):
        trigger.work_pipelines(composition.services(), 120_000)
    assert received() == {"site site": BOTH, "site own": BOTH, "other own": BOTH}


@pytest.mark.parametrize(
    ("members", "reason"),
    [
        ({"json.py": ""}, "a wheel replaces none: json"),
        ({"a.so": "", "a.py": ""}, "only pure Python"),
        (None, "cannot read a wheel"),
    ],
)
def test_upload_refuses_wheels_that_cannot_be_used(
    world: PipelinesHarness, tmp_path: Path, capsys: pytest.CaptureFixture[str], members: Any, reason: str
) -> None:
    path = tmp_path / wheel_name("a")
    if members is not None:
        path.write_bytes(wheel_bytes(members))
    with installed(world, runs=world.runs, pipelines_config=str(tmp_path / "conf")):
        assert main(["upload", str(path)]) == 2
    assert reason in capsys.readouterr().err
    assert not (tmp_path / "conf" / "lib").exists()


def test_wheels_need_a_location(world: PipelinesHarness, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with installed(world, runs=world.runs, pipeline_wheels=OTHER):
        assert main(["validate"]) == 2
        assert f"{VARIABLE}: wheels are next to the files of pipelines" in capsys.readouterr().err
        assert main(["upload", str(tmp_path / "wheel" / NAME)]) == 2
        assert "add --config s3://BUCKET/PREFIX, or set the stack's PipelinesConfig" in capsys.readouterr().err


@pytest.mark.parametrize("command", [["validate"], ["run", "--once"]], ids=lambda command: command[0])
def test_folder_of_wheels_has_wheels(
    world: PipelinesHarness, tmp_path: Path, capsys: pytest.CaptureFixture[str], command: list[str]
) -> None:
    with installed(world, runs=world.runs, pipeline_modules=MODULES):
        for lib in ("none", "conf"):
            assert main([*command, "--config", str(tmp_path / "conf"), "--lib", str(tmp_path / lib)]) == 2
            assert f"no wheels in the folder of --lib folder={tmp_path / lib}" in capsys.readouterr().err
