"""The blocks of shell and Python of README, the how-to guides and the client's page work as described, run against a stack."""

from __future__ import annotations

import datetime
import json
import os
import re
import shlex
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import closing, suppress
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit
from urllib.request import Request, urlopen

import pytest

from tests.docs.pages import DOCS, PROJECT, blocks
from tests.docs.shell_blocks import commands, development_command, shell_blocks
from tests.integration.datalake.client import Datalake
from tests.integration.stacks import PATIENCE_S, Stack, eventually, running_stack

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
POLICY = "/runlake/policy"
_ASSIGNS = re.compile(r"[A-Z]+=[^(]+")
STACK_FILES = {"nginx.log": "GET /\n", "report.txt": "a report\n", "load.sh": "#!/bin/sh\necho loaded\n"}


class Bash:
    """Executes each command in a new bash, with the variables of the previous one."""

    def __init__(self, folder: Path, environment: dict[str, str], addresses: dict[str, str]) -> None:
        self._folder, self._environment, self._addresses = folder, environment, addresses

    def run(self, command: str, typed: str = "") -> str:
        """Output of a command. Fails the test if the command fails. ``typed``: its input."""
        for text, address in self._addresses.items():
            command = command.replace(text, address)
        give_up = time.monotonic() + PATIENCE_S
        while True:
            done = self._once(command, typed)
            if not command.startswith(ASYNCHRONOUS) or (done.returncode == 0 and done.stdout.strip()):
                break
            assert time.monotonic() < give_up, f"{command}\nprinted nothing: {done.stderr}"
            time.sleep(0.5)
        assert done.returncode == 0, f"{command}\nexit code {done.returncode}\n{done.stdout}\n{done.stderr}"
        assert '"code":' not in done.stdout, (
            f"{command}\nan error of the API, which curl prints and does not fail at:\n{done.stdout}"
        )
        return done.stdout

    def _once(self, command: str, typed: str) -> subprocess.CompletedProcess[str]:
        state = self._folder / "variables"
        script = f"set -auo pipefail\n{command}\nstatus=$?\nenv -0 > {shlex.quote(str(state))}\nexit $status\n"
        done = subprocess.run(
            ["bash", "-c", script],
            cwd=self._folder,
            env=self._environment,
            input=typed,
            capture_output=True,
            text=True,
            timeout=PATIENCE_S,
        )
        if done.returncode == 0 and state.exists():
            pairs = (pair.partition("=") for pair in state.read_text().split("\0") if pair)
            self._environment = {name: value for name, _, value in pairs}
        return done


@pytest.fixture(scope="module")
def stack() -> Iterator[Stack]:
    """One stack for the blocks of all pages: they name the same runs. It has a function URL for jobs, with the policy that a page shows."""
    with running_stack(JobUrl="iam", PolicyParameter=POLICY) as own, closing(own.client("ssm")) as ssm:
        policy = next(block.text for block in blocks(DOCS / "identities.md", "json") if "assumed-role/etl" in block.text)
        ssm.put_parameter(Name=POLICY, Value=policy.replace("111122223333", "000000000000"), Type="String")
        yield own


@pytest.fixture(scope="module")
def datalake(stack: Stack, tmp_path_factory: pytest.TempPathFactory) -> Datalake:
    return Datalake(stack, tmp_path_factory.mktemp("datalake"))


@pytest.fixture
def bash(stack: Stack, datalake: Datalake, tmp_path: Path) -> Iterator[Bash]:
    """In a folder with the example files, and ``.local/stack.json`` as in a checkout. The variables are those that a page names before it
    uses them."""
    for name, text in STACK_FILES.items():
        (tmp_path / name).write_text(text)
    (tmp_path / "load.sh").chmod(0o755)
    (tmp_path / ".runlake-token").write_text("of-nobody\n")
    (tmp_path / ".local").mkdir()
    (tmp_path / ".local" / "stack.json").write_text(json.dumps(dict(stack.description)))
    for name in ("client", "bin"):
        (tmp_path / name).symlink_to(PROJECT / name)
    commands = tmp_path / "commands"
    commands.mkdir()
    environment = datalake.environment | {
        "HOME": str(tmp_path),
        "PATH": f"{tmp_path / 'venv' / 'bin'}:{commands}:{os.environ['PATH']}",
        "ARCHIVE_BUCKET": stack["archive_bucket"],
        "RUNLAKE_TOKEN": "of-nobody",
        "RUN_ID": "run-1",
        "RUNLAKE_SPOOL_DIR": str(tmp_path / "spool"),
    }
    yesterday = datetime.datetime.now(datetime.UTC).date() - datetime.timedelta(days=1)
    addresses = {
        "http://127.0.0.1:4566/api": stack.api_url,
        "https://logs.example.com/api": stack.api_url,
        "https://abc123.execute-api.eu-central-1.amazonaws.com/api": stack.api_url,
        # The client recognizes addresses of AWS as those where it signs.
        "https://abc123.lambda-url.eu-central-1.on.aws/api": f"{stack['job_url']} RUNLAKE_AUTH=iam",
        DAY.isoformat(): yesterday.isoformat(),
        DAY.replace(day=1).isoformat(): (yesterday - datetime.timedelta(days=20)).isoformat(),
    }
    with datalake.as_command(commands / "datalake"):
        yield Bash(tmp_path, environment, addresses)


def make_virtual_environment(bash: Bash, folder: Path) -> None:
    """In which ``pip`` is uv's: it builds the same packages, from its cache. Where uv cannot, pip itself."""
    uv, made = Path(sys.executable).with_name("uv"), folder / "venv"
    bash.run(f"{uv} venv --quiet --python {sys.executable} {made}")
    pip = made / "bin" / "pip"
    pip.write_text(
        f'#!/bin/sh\n{uv} pip "$@" --quiet --native-tls --python {made} || exec {sys.executable} -m pip --python {made} "$@"\n'
    )
    pip.chmod(0o755)


def credentials_of_the_job(stack: Stack) -> str:
    """The command that sets the variables of the role ``etl``, as the environments of AWS do."""
    with closing(stack.client("iam")) as iam, closing(stack.client("sts")) as sts:
        with suppress(iam.exceptions.EntityAlreadyExistsException):
            iam.create_role(RoleName="etl", AssumeRolePolicyDocument="{}")
        made = sts.assume_role(RoleArn="arn:aws:iam::000000000000:role/etl", RoleSessionName="i-0abc")["Credentials"]
    names = {"AccessKeyId": "AWS_ACCESS_KEY_ID", "SecretAccessKey": "AWS_SECRET_ACCESS_KEY", "SessionToken": "AWS_SESSION_TOKEN"}
    given = {names[name]: value for name, value in made.items() if name in names} | {"AWS_REGION": stack["region"]}
    return " ".join(["export", *(f"{name}={shlex.quote(value)}" for name, value in given.items())])


def executed(bash: Bash, page: str) -> list[tuple[str, str]]:
    """The commands of a page's blocks with their output; of those in a console, which other tests execute, variables that they set."""
    found = [block for block in shell_blocks(PROJECT / page) if not block.needs]
    lines = [line for block in found for line in commands(block.text) if block.language == "sh" or _ASSIGNS.fullmatch(line)]
    return [(line, bash.run(line)) for line in lines if not development_command(line)]


def runs_of(stack: Stack, fqn: str) -> list[str]:
    """The logs of a pipeline's runs."""
    logs = f"{stack.api_url}/v1/services/ingestionPipelines/logs/{fqn}"
    with urlopen(f"{logs}?limit=1000", timeout=PATIENCE_S) as answer:
        ids = json.load(answer)["runs"]
    found = []
    for each in ids:
        with urlopen(f"{logs}/{each}", timeout=PATIENCE_S) as answer:
            found.append(json.load(answer)["logs"])
    return found


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


def test_client(bash: Bash, stack: Stack, tmp_path: Path) -> None:
    """In a separate virtual environment, into which the page installs it."""
    make_virtual_environment(bash, tmp_path)
    bash.run(credentials_of_the_job(stack))
    before = len(runs_of(stack, "nightly.orders"))
    printed = executed(bash, "client/README.md")
    assert dict(printed)["runlake tail -f nightly.orders"].splitlines()[0] == "loaded"
    assert sum(line.startswith("runlake exec") for line, _ in printed) == 3
    eventually(lambda: len(runs_of(stack, "nightly.orders")) == before + 3)


def test_jobs_on_aws(bash: Bash, stack: Stack, tmp_path: Path) -> None:
    """As a role that the page's policy grants the pipeline to."""
    make_virtual_environment(bash, tmp_path)
    bash.run(credentials_of_the_job(stack))
    before = len(runs_of(stack, "nightly.orders"))
    assert executed(bash, "docs/identities.md")
    eventually(lambda: len(runs_of(stack, "nightly.orders")) == before + 1)


def test_python_of_the_readme(stack: Stack, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RUNLAKE_URL", stack.api_url)
    monkeypatch.setenv("RUNLAKE_SPOOL_DIR", str(tmp_path))
    names: dict[str, Any] = {}
    exec(blocks(PROJECT / "README.md", "python")[0].text, names)
    with urlopen(f"{stack.api_url}/v1/events/shop.nightly/{names['run'].name.run_id}", timeout=PATIENCE_S) as answer:
        (event,) = json.load(answer)["events"]
    assert (event["message"], event["level"], event["data"]["table"]) == ("42 rows", "INFO", "orders")


def test_python_of_the_agents(stack: Stack, monkeypatch: pytest.MonkeyPatch) -> None:
    """One after the other; the local stack has no TLS."""
    monkeypatch.setenv("RUNLAKE_TOKEN", "of-nobody")
    url, names = urlsplit(stack.api_url), dict[str, Any]()
    for block in blocks(DOCS / "agents.md", "python"):
        text = block.text.replace("https://abc123.execute-api.eu-central-1.amazonaws.com", f"http://{url.netloc}")
        text = text.replace('"abc123.execute-api.eu-central-1.amazonaws.com", "port": 443', f'"{url.hostname}", "port": {url.port}')
        exec(text.replace("use_ssl=True", "use_ssl=False").replace("mysql.ingest", "agents.ingest"), names)
        with names["client"] as client:
            assert client.ping()
    eventually(lambda: "begin\nend" in runs_of(stack, "agents.ingest"))
