"""docs/first-pipeline.md, pasted block by block into a shell, with the emulator as AWS and AWS's command line.

What differs from AWS: the region, and the addresses in outputs of stacks, which AWS resolves. The function URL is the local one, which
checks signatures, and not an address by which the client recognizes that it has to sign. Roles are assumed, but the emulator applies no
policy of IAM. It keeps the tags of deleted tables, so the page's last command lists those. The page is opened without a browser: Ann's
login and the requests are those of the page, without its scripts.
"""

from __future__ import annotations

import asyncio
import base64
import hashlib
import html
import json
import os
import re
import secrets
import shutil
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlencode, urlsplit

import jmespath
import pytest
import requests
from aiohttp import web

from local import deploy as on_the_emulator
from local.emulator import CREDENTIALS, LOOPBACK, REGION, Emulator, free_port, without_aws
from local.job_url import JobUrl
from tests.docs.pages import DOCS, PROJECT
from tests.docs.shell_blocks import shell_blocks
from tests.integration.stacks import PATIENCE_S
from tests.integration.test_shell_blocks_on_the_stack import Bash
from tests.prerequisites import AWSCLI, require

PAGE = DOCS / "first-pipeline.md"
COMMANDS = {
    "make": """#!/bin/sh
exec {make} --no-print-directory -o .venv/ready "$@"
""",
    "aws": """#!{python}
import contextlib, io, re, sys, time
sleep, printed = time.sleep, io.StringIO()
time.sleep = lambda seconds: sleep(min(seconds, 0.2))
from awscli.clidriver import main
with contextlib.redirect_stdout(printed):
    status = main()
text = printed.getvalue()
for pattern, address in {addresses}.items():
    text = re.sub(pattern, address, text)
print(text, end="")
sys.exit(status)
""",
}
"""Those of the page: they wait less between looks at a stack, and print addresses of the emulator instead of those of AWS."""
NEW_PASSWORD = "correct horse battery"
ANSWERS = "runlake-first\ndelete the data of runlake-first\n"
LEFT = {
    ("s3", "list_buckets"): "Buckets[].Name",
    ("dynamodb", "list_tables"): "TableNames",
    ("lambda", "list_functions"): "Functions[].FunctionName",
    ("lambda", "list_event_source_mappings"): "EventSourceMappings[].UUID",
    ("iam", "list_roles"): "Roles[].RoleName",
    ("iam", "list_policies"): "Policies[?starts_with(Arn, 'arn:aws:iam::0')].PolicyName",
    ("logs", "describe_log_groups"): "logGroups[].logGroupName",
    ("ssm", "describe_parameters"): "Parameters[].Name",
    ("cognito-idp", "list_user_pools"): "UserPools[].Name",
    ("cloudformation", "describe_stacks"): "Stacks[].StackName",
    ("sqs", "list_queues"): "QueueUrls",
    ("sns", "list_topics"): "Topics[].TopicArn",
    ("secretsmanager", "list_secrets"): "SecretList[].Name",
    ("events", "list_rules"): "Rules[].Name",
    ("cloudwatch", "describe_alarms"): "MetricAlarms[].AlarmName",
    ("glue", "get_jobs"): "Jobs[].Name",
    ("glue", "get_triggers"): "Triggers[].Name",
    ("glue", "get_databases"): "DatabaseList[].Name",
    ("apigateway", "get_rest_apis"): "items[].name",
}
"""By call: names of what an account has."""


class Reader:
    """Somebody with a checkout and a shell, for whom the emulator is AWS."""

    def __init__(self, emulator: Emulator, folder: Path) -> None:
        self.emulator, self._folder, self.printed = emulator, folder, ""
        self.job_url_port = free_port()
        commands = folder / "commands"
        _check_out(folder)
        _write_commands(commands, self._addresses())
        variables = {name.upper(): value for name, value in CREDENTIALS.items()}
        variables |= {"AWS_ENDPOINT_URL": emulator.endpoint_url, "RUNLAKE_AUTH": "iam", "PATH": f"{commands}:{os.environ['PATH']}"}
        self._bash = Bash(folder, without_aws(os.environ) | variables, {"eu-central-1": REGION})

    def paste(self, block: str, typed: str = "") -> str:
        """What a block prints, typed answers included. Fails the test when one of its commands fails."""
        return self._bash.run(f"set -e\n{block}", typed)

    def client(self, service: str) -> Any:
        return on_the_emulator.client(service, self.emulator.endpoint_url)

    def account(self) -> dict[str, list[str]]:
        """Names of everything that the account has, by the call that lists them."""
        found = {}
        for (service, operation), query in LEFT.items():
            with closing(self.client(service)) as client:
                arguments = {"MaxResults": 60} if operation == "list_user_pools" else {}
                found[f"{service}.{operation}"] = sorted(jmespath.search(query, getattr(client, operation)(**arguments)) or [])
        return found

    def _addresses(self) -> dict[str, str]:
        api = rf"https://(\w+)\.execute-api\.{REGION}\.amazonaws\.com/api(?!/)"
        keys = rf"https://cognito-idp\.{REGION}\.amazonaws\.com/([\w-]+/\.well-known)"
        return {
            api: rf"{self.emulator.endpoint_url}/restapis/\1/api/_user_request_",
            keys: rf"{self.emulator.endpoint_url}/\1",
            r"http\S+lambda-url\S+/api": f"http://{LOOPBACK}:{self.job_url_port}/api",
        }


def _check_out(folder: Path) -> None:
    """A checkout whose stages are its own; the packages that are not found by the file's own place are those of the project."""
    for path in PROJECT.iterdir():
        if path.name not in ("infra", "deploy"):
            (folder / path.name).symlink_to(path)
    shutil.copytree(PROJECT / "deploy", folder / "deploy", ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copytree(PROJECT / "infra", folder / "infra")


def _write_commands(folder: Path, addresses: dict[str, str]) -> None:
    folder.mkdir()
    values = {"make": shutil.which("make"), "python": PROJECT / Path(AWSCLI).parent / "bin" / "python", "addresses": addresses}
    for name, text in COMMANDS.items():
        (folder / name).write_text(text.format(**values))
        (folder / name).chmod(0o755)


@contextmanager
def job_url(reader: Reader) -> Iterator[None]:
    """The local function URL in front of the function that the page has deployed."""
    with closing(reader.client("cloudformation")) as cloudformation:
        resources = cloudformation.describe_stack_resources(StackName="runlake-first")["StackResources"]
    (function,) = [row["PhysicalResourceId"] for row in resources if row["LogicalResourceId"] == "JobApi"]
    loop = asyncio.new_event_loop()
    runner = JobUrl(reader.emulator.endpoint_url, function).runner()

    async def start() -> None:
        await runner.setup()
        await web.TCPSite(runner, LOOPBACK, reader.job_url_port).start()

    thread = threading.Thread(target=loop.run_forever)
    thread.start()
    try:
        asyncio.run_coroutine_threadsafe(start(), loop).result(PATIENCE_S)
        yield
    finally:
        asyncio.run_coroutine_threadsafe(runner.cleanup(), loop).result(PATIENCE_S)
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()


def access_token(issuer: str, client: str, page: str, password: str) -> str:
    """That of Ann, who logs in as the page has her do it: by a code with PKCE, for the page's address."""
    verifier = secrets.token_urlsafe(48)
    challenge = base64.urlsafe_b64encode(hashlib.sha256(verifier.encode()).digest()).rstrip(b"=").decode()
    query = {
        "client_id": client, "redirect_uri": page, "response_type": "code", "scope": "openid", "state": "s", "nonce": "n",
        "code_challenge": challenge, "code_challenge_method": "S256",
    }  # fmt: skip
    with requests.Session() as browser:
        form = browser.get(f"{issuer}/oauth2/authorize?{urlencode(query)}", timeout=PATIENCE_S)
        for own in ({"username": "ann", "password": password}, {"new_password": NEW_PASSWORD, "confirm_password": NEW_PASSWORD}):
            hidden = dict(re.findall(r'type="hidden" name="(\w+)" value="([^"]*)"', form.text))
            fields = {name: html.unescape(value) for name, value in hidden.items()} | own
            form = browser.post(f"{issuer}/login", fields, allow_redirects=False, timeout=PATIENCE_S)
        assert form.headers.get("Location", "").startswith(f"{page}?"), form.text
        (code,) = parse_qs(urlsplit(form.headers["Location"]).query)["code"]
        exchange = {
            "grant_type": "authorization_code",
            "client_id": client,
            "redirect_uri": page,
            "code": code,
            "code_verifier": verifier,
        }
        return str(browser.post(f"{issuer}/oauth2/token", exchange, timeout=PATIENCE_S).json()["access_token"])


@pytest.fixture
def reader(tmp_path: Path) -> Iterator[Reader]:
    require(AWSCLI)
    emulator = Emulator(free_port(), tmp_path / "scratch", tmp_path / "emulator.log")
    try:
        emulator.wait_until_healthy()
        (tmp_path / "checkout").mkdir()
        yield Reader(emulator, tmp_path / "checkout")
    finally:
        emulator.stop()


@pytest.mark.thorough
def test_page_leads_to_the_reason_of_a_failed_run_and_back_to_nothing(reader: Reader) -> None:
    before = reader.account()
    *ahead, failing_job, reason, destruction, rest, check = [block.text for block in shell_blocks(PAGE)]
    for block in ahead:
        reader.paste(block)
    there = reader.account()
    assert [call for call, names in before.items() if there[call] == names] == []
    with job_url(reader):
        assert "exit status 1" in reader.paste(failing_job)
        why = reader.paste(reason)
        assert "KeyError: 'price'" in why
        assert_shown_on_the_page(reader, why)
    assert "deleted" in reader.paste(destruction, ANSWERS)
    reader.paste(rest)
    assert reader.account() == before
    reader.paste(check)


def assert_shown_on_the_page(reader: Reader, why: str) -> None:
    """What the page requests for the address that the command prints, with the token of Ann's login."""
    (address,) = re.findall(r"^page: (\S+)$", why, re.MULTILINE)
    names = ("PASSWORD", "JwtAudience", "PageUrl", "ApiUrl")
    password, client, page, api = reader.paste("".join(f'echo "${name}"\n' for name in names)).split()
    token = access_token(reader.emulator.endpoint_url, client, page, password)
    assert requests.get(address, timeout=PATIENCE_S).headers["Content-Type"].startswith("text/html")
    ((fqn,), (run,)) = (parse_qs(urlsplit(address).query)[name] for name in "pr")
    url = f"{api}/v1/catalog/pipelines/{fqn}/runs/{run}/explanation"
    assert requests.get(url, timeout=PATIENCE_S).status_code == 401
    answer = requests.get(url, headers={"Authorization": f"Bearer {token}"}, timeout=PATIENCE_S)
    assert answer.status_code == 200, answer.text
    assert "KeyError: 'price'" in json.dumps(answer.json()["candidates"][0])
