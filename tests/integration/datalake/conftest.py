"""Fixtures of the datalake client: the client, and names and files unique to a test."""

from __future__ import annotations

import uuid

import pytest

from tests.integration.datalake.client import Datalake
from tests.integration.stacks import Stack


@pytest.fixture(scope="session")
def datalake(stack: Stack, tmp_path_factory: pytest.TempPathFactory) -> Datalake:
    """The unmodified client, configured for the stack."""
    return Datalake(stack, tmp_path_factory.mktemp("datalake"))


@pytest.fixture
def what() -> str:
    """A unique ``what`` for the test's files: the stack is shared, and may be reused."""
    return f"what-{uuid.uuid4().hex[:12]}"


@pytest.fixture
def where() -> str:
    """A unique ``where`` for the test."""
    return f"where_{uuid.uuid4().hex[:12]}"


@pytest.fixture
def work_id() -> str:
    """A unique work id for the test."""
    return f"work-{uuid.uuid4().hex[:12]}"
