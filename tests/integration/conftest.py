"""Fixtures of the deployed stack."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from local import package
from tests.integration.stacks import Stack, shared_stack
from tests.permissions import Calls


@pytest.fixture(scope="session")
def stack() -> Iterator[Stack]:
    """One stack for all tests of the session: use names of runs that are your own."""
    with shared_stack() as shared:
        yield shared


@pytest.fixture(scope="session")
def template() -> dict[str, Any]:
    """The template that is deployed, here and on AWS."""
    package.ensure_packaged()
    loaded: dict[str, Any] = yaml.load(package.TEMPLATE.read_text(), yaml.CSafeLoader)
    return loaded


@pytest.fixture
def calls(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Calls:
    """What the processes that a test begins ask of AWS."""
    recorded = Calls(tmp_path / "calls.jsonl")
    for name, value in recorded.environment.items():
        monkeypatch.setenv(name, value)
    return recorded
