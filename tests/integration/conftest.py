"""Fixtures of the deployed stack."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import yaml

from local import package
from tests.integration.job_process import CALLS_OF_JOBS
from tests.integration.stacks import Stack, shared_stack
from tests.permissions import Calls


@pytest.fixture(scope="session")
def stack() -> Iterator[Stack]:
    """One stack for all tests of the session; use unique run names."""
    with shared_stack() as shared:
        yield shared


@pytest.fixture(scope="session")
def template() -> dict[str, Any]:
    """The deployed template, as on AWS."""
    package.ensure_packaged()
    loaded: dict[str, Any] = yaml.load(package.TEMPLATE.read_text(), yaml.CSafeLoader)
    return loaded


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> Calls:
    """AWS calls of the processes that a test starts, and of the job process."""
    recorded = Calls(CALLS_OF_JOBS)
    for name, value in recorded.environment.items():
        monkeypatch.setenv(name, value)
    return recorded
