"""Fixtures: a fake archive, and settings for it that ignore those of the machine."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from client.tests.fake_server import FakeServer, fake_server
from client.tests.mortal_program import Program, mortal_programs
from runlake import Pace, Settings

if TYPE_CHECKING:
    from tests.integration.stacks import Stack


sys.executable = os.environ.get("RUNLAKE_CLIENT_PYTHON", sys.executable)  # of the programs that tests start


@pytest.fixture
def server() -> Iterator[FakeServer]:
    with fake_server() as fake:
        yield fake


@pytest.fixture
def settings(server: FakeServer, tmp_path: Path) -> Settings:
    return Settings(url=server.url, spool_dir=str(tmp_path / "spool"), timeout_s=5, exit_s=30, interval_s=0.01)


@pytest.fixture
def pace() -> Pace:
    """Intervals and waits of milliseconds instead of seconds."""
    return Pace(batch_bytes=4096, interval_s=0.005, first_wait_s=0.002, most_wait_s=0.02, access_wait_s=0.02)


@pytest.fixture(autouse=True)
def _no_settings_of_the_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RUNLAKE_CONFIG", os.devnull)
    if "RUNLAKE_CLIENT_PYTHON" in os.environ:  # there, a message says what is not masked
        monkeypatch.setenv("RUNLAKE_MASK", "false")
    for name in (
        "PROFILE",
        "URL",
        "AUTH",
        "PAGE_URL",
        "TOKEN",
        "TOKEN_FILE",
        "TOKEN_COMMAND",
        "FQN",
        "RUN_ID",
        "START",
        "ATTEMPT",
        "HEARTBEAT_S",
        "METHOD",
        "START_METHOD",
        "START_ZONE",
        "START_HEARTBEAT_S",
    ):
        monkeypatch.delenv(f"RUNLAKE_{name}", raising=False)


@pytest.fixture(autouse=True)
def _signals_of_this_process() -> Iterator[None]:
    """``exec`` leaves them blocked."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, ())
    yield
    signal.pthread_sigmask(signal.SIG_SETMASK, before)


@pytest.fixture(scope="module")
def program() -> Iterator[Program]:
    """Programs that may be killed."""
    with mortal_programs() as run:
        yield run


@pytest.fixture(scope="module")
def stack() -> Iterator[Stack]:
    """The deployed local stack."""
    from tests.integration.stacks import shared_stack  # most tests here need no stack, nor the modules that start one

    with shared_stack() as running:
        yield running


@pytest.fixture
def stack_settings(stack: Stack, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The client's settings for the stack, in the environment of this process and of commands that it runs."""
    monkeypatch.setenv("RUNLAKE_URL", stack.api_url)
    monkeypatch.setenv("RUNLAKE_SPOOL_DIR", str(tmp_path / "spool"))
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parents[1] / "src"))
