"""A stage: one JSON file with the stack, its account's bucket for artifacts, and parameters. ``${account}`` and ``${region}`` in
its values are the caller's."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, ValidationError

from deploy.errors import DeployError

FOLDER = Path(__file__).resolve().parent.parent / "infra" / "stages"
Shift = Literal[
    "AllAtOnce",
    "Canary10Percent5Minutes",
    "Canary10Percent10Minutes",
    "Canary10Percent15Minutes",
    "Linear10PercentEvery1Minute",
    "Linear10PercentEvery2Minutes",
]


def _text(value: Any) -> Any:
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False) if isinstance(value, (dict, list)) else value


class Stage(BaseModel):
    """``parameters`` are the template's, objects and lists as their JSON; parameters of an existing stack that neither the file nor the command
    line sets keep their values. ``artifacts``: bucket for template and code, created if it does not exist; ``artifacts_owner``: the account
    that must own it. ``protected``: the stack cannot be deleted."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    stack: str
    artifacts: str = "runlake-artifacts-${account}-${region}"
    artifacts_owner: str = "${account}"
    architecture: Literal["x86_64", "arm64"] = "x86_64"
    api_deployment: Shift = "AllAtOnce"
    protected: bool = False
    parameters: dict[str, Annotated[str, BeforeValidator(_text)]] = {}
    tags: dict[str, str] = {}


def stage_file(name: str) -> Path:
    """Path of a stage's file."""
    return Path(name) if name.endswith(".json") else FOLDER / f"{name}.json"


def read_stage(name: str, account: str, region: str) -> Stage:
    """Read a stage by its name or the path of its file. Raises DeployError."""
    path = stage_file(name)
    try:
        stage = Stage.model_validate_json(path.read_text())
    except FileNotFoundError:
        known = ", ".join(sorted(each.stem for each in FOLDER.glob("*.json")))
        raise DeployError(f"no such stage, known stages are {known}; for another one write {path}: stage={name}") from None
    except (OSError, UnicodeDecodeError) as error:
        raise DeployError(f"the stage file cannot be read as UTF-8: {error} file={path}") from None
    except ValidationError as error:
        first = error.errors()[0]
        raise DeployError(f"{first['msg']}: file={path} field={'.'.join(map(str, first['loc']))}") from None
    return Stage.model_validate(_filled(stage.model_dump(), {"account": account, "region": region}))


def assignments(texts: Sequence[str]) -> dict[str, str]:
    """Parse ``NAME=VALUE`` arguments. Raises DeployError."""
    pairs = [text.partition("=") for text in texts]
    if wrong := [text for text, (name, equals, _) in zip(texts, pairs, strict=True) if not (name and equals)]:
        raise DeployError(f"not NAME=VALUE: {wrong[0]}")
    return {name: value for name, _, value in pairs}


def _filled(value: Any, known: Mapping[str, str]) -> Any:
    if isinstance(value, str):
        return re.sub(r"\$\{(\w+)\}", lambda name: known.get(name[1], name[0]), value)
    if isinstance(value, dict):
        return {name: _filled(each, known) for name, each in value.items()}
    return value


def format_assignments(parameters: Mapping[str, str]) -> str:
    """Parameters as text for a message."""
    return json.dumps(dict(parameters), sort_keys=True)
