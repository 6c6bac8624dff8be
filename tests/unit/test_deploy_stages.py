"""Stages: what a file may say, and what a command line may say over it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from deploy.errors import DeployError
from deploy.stages import FOLDER, assignments, read_stage


def written(folder: Path, **fields: object) -> str:
    path = folder / "stage.json"
    path.write_text(json.dumps({"stack": "s", **fields}))
    return str(path)


def test_account_and_region_are_filled_in(tmp_path: Path) -> None:
    stage = read_stage(
        written(tmp_path, parameters={"BucketName": "logs-${account}-${region}", "Other": "$5 $$ $account ${x}"}), "123", "eu-1"
    )
    assert stage.parameters == {"BucketName": "logs-123-eu-1", "Other": "$5 $$ $account ${x}"}
    assert stage.artifacts == "runlake-artifacts-123-eu-1"


def test_objects_and_lists_of_parameters_become_their_json(tmp_path: Path) -> None:
    document = {"client_id": "page", "parameters": {"audience": "${account}"}, "origins": ["https://ü"]}
    parameters = read_stage(
        written(tmp_path, parameters={"Login": document, "Others": [1], "Text": "{}"}), "123", "eu-1"
    ).parameters
    assert parameters == {
        "Login": '{"client_id":"page","parameters":{"audience":"123"},"origins":["https://ü"]}',
        "Others": "[1]",
        "Text": "{}",
    }


@pytest.mark.parametrize("path", sorted(FOLDER.glob("*.json")), ids=lambda path: path.stem)
def test_the_stages_that_are_there_can_be_read(path: Path) -> None:
    stage = read_stage(path.stem, "123456789012", "eu-central-1")
    assert {"BucketName", "ArchiveBucketName"} <= set(stage.parameters)
    assert "$" not in json.dumps(stage.model_dump())


@pytest.mark.parametrize(
    ("fields", "says"),
    [
        ({"paramters": {}}, "field=paramters"),
        ({"architecture": "riscv"}, "field=architecture"),
        ({"api_deployment": "Slowly"}, "field=api_deployment"),
        ({"parameters": {"MaxWorkers": 8}}, "field=parameters.MaxWorkers"),
    ],
)
def test_a_word_that_is_wrong_is_named(tmp_path: Path, fields: dict[str, object], says: str) -> None:
    with pytest.raises(DeployError, match=says):
        read_stage(written(tmp_path, **fields), "1", "r")


def test_unreadable_stage_file_is_named(tmp_path: Path) -> None:
    (tmp_path / "utf-16.json").write_bytes(b"\xff\xfe{\0}\0")
    (tmp_path / "folder.json").mkdir()
    for path in map(str, tmp_path.iterdir()):
        with pytest.raises(DeployError, match=f"cannot be read.*file={path}"):
            read_stage(path, "1", "r")


def test_a_stage_that_is_not_there_is_told_with_those_that_are() -> None:
    with pytest.raises(DeployError, match=r"known stages are .*prod.*stage=nowhere"):
        read_stage("nowhere", "1", "r")


def test_assignments() -> None:
    assert assignments(["A=1", "B=", "C=x=y"]) == {"A": "1", "B": "", "C": "x=y"}
    with pytest.raises(DeployError, match="not NAME=VALUE: =1"):
        assignments(["A=1", "=1"])
