"""Fixtures of the datalake client: the client itself, and names and files that no other test has."""

from __future__ import annotations

import uuid

import pytest

from tests.integration.datalake.client import Datalake
from tests.integration.stacks import Stack


@pytest.fixture(scope="session")
def datalake(stack: Stack, tmp_path_factory: pytest.TempPathFactory) -> Datalake:
    """The unmodified client, set up for the stack."""
    return Datalake(stack, tmp_path_factory.mktemp("datalake"))


@pytest.fixture
def what() -> str:
    """A name for the test's own files: the stack is shared, and may be used again."""
    return f"what-{uuid.uuid4().hex[:12]}"


@pytest.fixture
def where() -> str:
    """A name for the test's own machine."""
    return f"where_{uuid.uuid4().hex[:12]}"


@pytest.fixture
def work_id() -> str:
    """A name for the test's own work."""
    return f"work-{uuid.uuid4().hex[:12]}"
