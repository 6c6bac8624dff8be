"""The shell blocks of README, the how-to guides and the client's page work as described, run by bash against a stack."""

from __future__ import annotations

import datetime
import json
import os
import re
import shlex
import subprocess
import sys
import time
import venv
from collections.abc import Iterator
from pathlib import Path
from urllib.request import Request, urlopen

import pytest

from tests.docs.pages import PROJECT
from tests.docs.shell_blocks import commands, development_command, shell_blocks
from tests.integration.datalake.client import BIN, Datalake
from tests.integration.stacks import PATIENCE_S, Stack, running_stack

DAY = datetime.date(2026, 11, 21)
"""The date in the examples. The datalake's client searches back from now, so they run with yesterday's date."""
ASYNCHRONOUS = ("datalake list", "datalake latest", "bin/runlake runs --failed")
"""Commands repeated until they print: files and outcomes are listed once their notification is ingested."""
OPENTELEMETRY_PROGRAM = """
import logging
from opentelemetry.exporter.otlp.proto.http._log_exporter import OTLPLogExporter
from opentelemetry.sdk._logs import LoggerProvider, LoggingHandler
from opentelemetry.sdk._logs.export import BatchLogRecordProcessor
provider = LoggerProvider()
provider.add_log_record_processor(BatchLogRecordProcessor(OTLPLogExporter()))
logging.getLogger().addHandler(LoggingHandler(logger_provider=provider))
logging.warning("logged as the page says")
provider.shutdown()
"""
STACK_FILES = {"nginx.log": "GET /\n", "report.txt": "a report\n", "load.sh": "#!/bin/sh\necho loaded\n"}


class Bash:
    """Executes each command in a new bash, with the variables of the previous one."""

    def __init__(self, folder: Path, environment: dict[str, str], addresses: dict[str, str]) -> None:
        self._folder, self._environment, self._addresses = folder, environment, addresses

    def run(self, command: str) -> str:
        """Output of a command. Fails the test if the command fails."""
        for text, address in self._addresses.items():
            command = command.replace(text, address)
        give_up = time.monotonic() + PATIENCE_S
        while True:
            done = self._once(command)
            if not command.startswith(ASYNCHRONOUS) or (done.returncode == 0 and done.stdout.strip()):
                break
            assert time.monotonic() < give_up, f"{command}\nprinted nothing: {done.stderr}"
            time.sleep(0.5)
        assert done.returncode == 0, f"{command}\nexit code {done.returncode}\n{done.stdout}\n{done.stderr}"
        assert '"code":' not in done.stdout, (
            f"{command}\nan error of the API, which curl prints and does not fail at:\n{done.stdout}"
        )
        return done.stdout

    def _once(self, command: str) -> subprocess.CompletedProcess[str]:
        state = self._folder / "variables"
        script = f"set -auo pipefail\n{command}\nstatus=$?\nenv -0 > {shlex.quote(str(state))}\nexit $status\n"
        done = subprocess.run(
            ["bash", "-c", script], cwd=self._folder, env=self._environment, capture_output=True, text=True, timeout=PATIENCE_S
        )
        if done.returncode == 0 and state.exists():
            pairs = (pair.partition("=") for pair in state.read_text().split("\0") if pair)
            self._environment = {name: value for name, _, value in pairs}
        return done


@pytest.fixture(scope="module")
def stack() -> Iterator[Stack]:
    """One stack for the blocks of all pages: they name the same runs."""
    with running_stack() as own:
        yield own


@pytest.fixture
def bash(stack: Stack, tmp_path: Path) -> Bash:
    """In a folder with the example files, and ``.local/stack.json`` as in a checkout."""
    for name, text in STACK_FILES.items():
        (tmp_path / name).write_text(text)
    (tmp_path / "load.sh").chmod(0o755)
    (tmp_path / ".local").mkdir()
    (tmp_path / ".local" / "stack.json").write_text(json.dumps(dict(stack.description)))
    for name in ("client", "bin"):
        (tmp_path / name).symlink_to(PROJECT / name)
    environment = Datalake(stack, tmp_path).environment | {
        "PATH": f"{tmp_path / 'venv' / 'bin'}:{BIN}:{os.environ['PATH']}",
        "API": stack.api_url,
        "LOGS": f"{stack.api_url}/v1/services/ingestionPipelines/logs",
        "ARCHIVE_BUCKET": stack["archive_bucket"],
        "FILE": "report.txt",
        "RUNLAKE_TOKEN": "of-nobody",
        "RUN_ID": "run-1",
    }
    yesterday = datetime.datetime.now(datetime.UTC).date() - datetime.timedelta(days=1)
    addresses = {
        "http://127.0.0.1:4566/api": stack.api_url,
        "https://logs.example.com/api": stack.api_url,
        "https://abc123.execute-api.eu-central-1.amazonaws.com/api": stack.api_url,
        DAY.isoformat(): yesterday.isoformat(),
        DAY.replace(day=1).isoformat(): (yesterday - datetime.timedelta(days=20)).isoformat(),
    }
    return Bash(tmp_path, environment, addresses)


def executed(bash: Bash, page: str) -> list[tuple[str, str]]:
    """The commands of a page's blocks with their output."""
    lines = [
        line
        for block in shell_blocks(PROJECT / page)
        if not block.needs and block.language == "sh"
        for line in commands(block.text)
    ]
    return [(line, bash.run(line)) for line in lines if not development_command(line)]


def closed_run(stack: Stack, run: str) -> None:
    """A finalized run of one connector."""
    logs = f"{stack.api_url}/v1/services/ingestionPipelines/logs/{run}"
    body = b'{"connectorId": "host-17", "logs": "one\\ntwo\\n"}'
    for path, content in (("", body), ("/close", b"")):
        with urlopen(Request(logs + path, content, {"Content-Type": "application/json"}, method="POST")):
            pass


def test_readme(bash: Bash, tmp_path: Path) -> None:
    printed = dict(executed(bash, "README.md"))
    text = (PROJECT / "README.md").read_text()
    (said,) = re.findall(r'^curl "\$URL" +# (\{.*\})$', text, re.MULTILINE)
    assert printed['curl "$URL"'].strip() == said
    (failing,) = [output for line, output in printed.items() if line.startswith("bin/runlake exec")]
    assert failing == "loading\nexit status 3\n"
    (listed,) = [output for line, output in printed.items() if line.startswith("bin/runlake runs --failed")]
    assert listed.startswith("shop.nightly\t") and "\tfailed\t" in listed
    assert "outcome\tfailed (exit status 3)\n" in next(
        text for line, text in printed.items() if line.startswith("bin/runlake status")
    )
    assert next(text for line, text in printed.items() if line.startswith("bin/runlake cat")).startswith(
        "loading\nERROR no such table"
    )
    assert printed['curl "$URL/download"'] == "hello\nworld\n"
    assert (tmp_path / "my_pipeline-run-1.log").read_text() == "hello\nworld\n"


def test_how_to(bash: Bash, stack: Stack, tmp_path: Path) -> None:
    closed_run(stack, "mysql.ingest/run-1")
    printed = dict(executed(bash, "docs/how-to.md"))
    assert printed["datalake latest nginx webserver01 | datalake cat"].strip() == "GET /"
    assert (tmp_path / "mysql_ingest-run-1.log").read_text() == "one\ntwo\n"
    (uploaded,) = [text.strip() for line, text in printed.items() if line.startswith("curl -sf -T")]
    assert uploaded.startswith(stack.api_url) and uploaded.endswith("/data")


def test_agents(bash: Bash, stack: Stack) -> None:
    """The page sets the variables of OpenTelemetry's SDK: a program that knows only those logs with them."""
    bash.run("RUN_ID=of-the-sdk")
    assert executed(bash, "docs/agents.md")
    bash.run(f"{sys.executable} -c {shlex.quote(OPENTELEMETRY_PROGRAM)}")
    with urlopen(f"{stack.api_url}/v1/services/ingestionPipelines/logs/mysql.ingest/of-the-sdk", timeout=PATIENCE_S) as answer:
        assert "logged as the page says" in json.load(answer)["logs"]


def test_pipeline_files(bash: Bash) -> None:
    assert executed(bash, "docs/pipeline-files.md")


def test_client(bash: Bash, tmp_path: Path) -> None:
    """In a separate virtual environment, into which the page installs it."""
    venv.create(tmp_path / "venv", with_pip=True)
    (tmp_path / ".runlake-token").write_text("of-nobody\n")
    printed = dict(executed(bash, "client/README.md"))
    assert printed["runlake tail -f nightly.orders"].splitlines()[0] == "loaded"
