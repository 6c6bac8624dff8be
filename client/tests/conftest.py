"""A fake archive, and settings that lead to it and nowhere else."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from client.tests.fake_server import FakeServer, fake_server
from runlake import Pace, Settings


@pytest.fixture
def server() -> Iterator[FakeServer]:
    with fake_server() as fake:
        yield fake


@pytest.fixture
def settings(server: FakeServer, tmp_path: Path) -> Settings:
    return Settings(url=server.url, spool_dir=str(tmp_path / "spool"), timeout_s=5, exit_s=30, interval_s=0.01)


@pytest.fixture
def pace() -> Pace:
    """A second of the real one in a few milliseconds."""
    return Pace(batch_bytes=4096, interval_s=0.005, first_wait_s=0.002, most_wait_s=0.02, access_wait_s=0.02)


@pytest.fixture(autouse=True)
def _no_settings_of_the_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RUNLAKE_CONFIG", os.devnull)
    for name in ("URL", "TOKEN", "TOKEN_FILE", "TOKEN_COMMAND", "FQN", "RUN_ID", "START", "ATTEMPT"):
        monkeypatch.delenv(f"RUNLAKE_{name}", raising=False)
