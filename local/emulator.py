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
# Dummy credentials: the emulator accepts any, and real keys must never reach it.
CREDENTIALS = {"aws_access_key_id": "test", "aws_secret_access_key": "test"}
_START_TIMEOUT_S = 300.0


def choose_port(friendly_port: int, offset: int = 10_000) -> int:
    """A port beside the stack's, for the emulator: the stack's plus ``offset`` if that is free, otherwise any free port."""
    derived = friendly_port + offset
    return derived if derived < 65_536 and is_free(derived) else free_port()


def is_free(port: int) -> bool:
    """Whether no process listens on the port."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((LOOPBACK, port))
        except OSError:
            return False
    return True


def free_port() -> int:
    """A free port."""
    with socket.socket() as probe:
        probe.bind((LOOPBACK, 0))
        port: int = probe.getsockname()[1]
        return port


class Emulator:
    """One running emulator. Its functions' workers are its children and end with it. ``settings``: additional environment
    variables."""

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
        """Process id of the emulator."""
        return self._process.pid

    def wait_until_healthy(self) -> None:
        """Wait until it answers. Raises LocalError if it ends first or times out."""
        give_up = time.monotonic() + _START_TIMEOUT_S
        while time.monotonic() < give_up:
            if self.has_ended():
                raise LocalError(f"the emulator ended during its start, see emulator.log: exit_code={self._process.returncode}")
            try:
                urllib.request.urlopen(f"{self.endpoint_url}/_ministack/health", timeout=5).close()
                return
            except (urllib.error.URLError, ConnectionError, TimeoutError):
                time.sleep(0.1)
        raise LocalError(f"the emulator did not respond in time, see emulator.log: timeout_s={_START_TIMEOUT_S}")

    def has_ended(self) -> bool:
        """Whether the process has ended."""
        return self._process.poll() is not None

    def kill(self) -> None:
        """Kill it without notice, like a power failure."""
        self._process.kill()
        self._process.wait()

    def stop(self) -> None:
        """Stop it, by force if it does not stop in time."""
        self._process.terminate()
        try:
            self._process.wait(timeout=5)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()


def without_aws(environment: Mapping[str, str]) -> dict[str, str]:
    """A copy of the environment without settings of AWS or of Runlake."""
    return {name: value for name, value in environment.items() if not name.startswith(("AWS_", "RUNLAKE_", "POWERTOOLS_"))}


def _environment(port: int, scratch: Path) -> dict[str, str]:
    """The environment of the emulator and its functions, without the caller's AWS and Runlake settings."""
    return without_aws(os.environ) | {
        "BIND_HOST": LOOPBACK,
        "GATEWAY_PORT": str(port),
        "IOT_MTLS_ENABLED": "0",  # otherwise it also listens on 8883, and two emulators collide
        "SFTP_ENABLED": "0",
        "TMPDIR": str(scratch),  # functions are unpacked or linked here
        FOLDER: str(ROOT / "code"),
        "MINISTACK_REGION": REGION,
        "AWS_DEFAULT_REGION": REGION,
        "AWS_EC2_METADATA_DISABLED": "true",
        "LAMBDA_WARM_TTL_SECONDS": "120",  # how long surplus workers stay after a burst
        "PYTHONDONTWRITEBYTECODE": "1",
        "PYTHONUNBUFFERED": "1",
        "LOG_LEVEL": os.environ.get("LOG_LEVEL", "INFO"),
    }
