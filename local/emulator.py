"""The emulated AWS: one ministack process on loopback, which also runs the functions."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Mapping
from pathlib import Path

from local.run_emulator import FOLDER
from local.state import PROJECT, ROOT, LocalError

LOOPBACK = "127.0.0.1"
REGION = "us-east-1"
# The emulator takes any; a real key never reaches it, and it never asks a real AWS.
CREDENTIALS = {"aws_access_key_id": "test", "aws_secret_access_key": "test"}
_START_TIMEOUT_S = 300.0


def choose_port(friendly_port: int) -> int:
    """A free port for the emulator: the friendly one plus 10,000 where that is free, else any."""
    derived = friendly_port + 10_000
    return derived if derived < 65_536 and is_free(derived) else free_port()


def is_free(port: int) -> bool:
    """Whether nobody listens on the port."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((LOOPBACK, port))
        except OSError:
            return False
    return True


def free_port() -> int:
    """A port that nobody listens on."""
    with socket.socket() as probe:
        probe.bind((LOOPBACK, 0))
        port: int = probe.getsockname()[1]
        return port


class Emulator:
    """One running emulator. Its functions' workers are its children and end with it. ``settings`` are environment variables of its own."""

    def __init__(self, port: int, scratch: Path, log: Path, settings: Mapping[str, str] | None = None) -> None:
        self.port = port
        self.endpoint_url = f"http://{LOOPBACK}:{port}"
        scratch.mkdir(parents=True, exist_ok=True)
        with open(log, "wb") as output:
            self._process = subprocess.Popen(
                [sys.executable, "-P", str(PROJECT / "local" / "run_emulator.py")],
                cwd=scratch,
                env=_environment(port, scratch) | dict(settings or {}),
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
            )

    @property
    def pid(self) -> int:
        """The emulator's process."""
        return self._process.pid

    def wait_until_healthy(self) -> None:
        """Return when it answers. Raises LocalError when it ends first or takes too long."""
        give_up = time.monotonic() + _START_TIMEOUT_S
        while time.monotonic() < give_up:
            if self.has_ended():
                raise LocalError(f"the emulator ended at its start, see emulator.log: exit_code={self._process.returncode}")
            try:
                urllib.request.urlopen(f"{self.endpoint_url}/_ministack/health", timeout=5).close()
                return
            except (urllib.error.URLError, ConnectionError, TimeoutError):
                time.sleep(0.1)
        raise LocalError(f"the emulator did not answer in time, see emulator.log: timeout_s={_START_TIMEOUT_S}")

    def has_ended(self) -> bool:
        """Whether the process is gone."""
        return self._process.poll() is not None

    def kill(self) -> None:
        """End it as a power cut would."""
        self._process.kill()
        self._process.wait()

    def stop(self) -> None:
        """End it, by force if it does not go by itself."""
        self._process.terminate()
        try:
            self._process.wait(timeout=5)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()


def without_aws(environment: Mapping[str, str]) -> dict[str, str]:
    """An environment without settings of AWS or of Runlake."""
    return {name: value for name, value in environment.items() if not name.startswith(("AWS_", "RUNLAKE_", "POWERTOOLS_"))}


def _environment(port: int, scratch: Path) -> dict[str, str]:
    """The emulator's, and so the functions', environment: nothing of the caller's AWS settings or Runlake settings."""
    return without_aws(os.environ) | {
        "BIND_HOST": LOOPBACK,
        "GATEWAY_PORT": str(port),
        "IOT_MTLS_ENABLED": "0",  # else it listens on 8883 too, and two at once collide
        "SFTP_ENABLED": "0",
        "TMPDIR": str(scratch),  # functions are unpacked here, or linked
        FOLDER: str(ROOT / "code"),
        "MINISTACK_REGION": REGION,
        "AWS_DEFAULT_REGION": REGION,
        "AWS_EC2_METADATA_DISABLED": "true",
        "LAMBDA_WARM_TTL_SECONDS": "120",  # how long the surplus workers of a burst stay
        "PYTHONDONTWRITEBYTECODE": "1",
        "PYTHONUNBUFFERED": "1",
        "LOG_LEVEL": os.environ.get("LOG_LEVEL", "INFO"),
    }
