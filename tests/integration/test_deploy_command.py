"""An operator's commands against the emulator: deployment, another one with other parameters and data, and deletion."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import pytest

from local import deploy as on_the_emulator
from local import gateway
from local.emulator import CREDENTIALS, REGION, Emulator, free_port, without_aws
from local.state import PROJECT
from tests.integration.stacks import COMMAND_S, PATIENCE_S
from tests.issuer import AUDIENCE, EVERYTHING, ISSUER, Issuer, bearer, serve_document

STACK = "runlake-test"
HOLD_DATA = ("S3::Bucket ", "DynamoDB::Table", "SQS::Queue ")
OF_THE_API = ("ApiUrl", "RestAPIId", "EndpointURL")
"""For a new definition the emulator creates a new API; CloudFormation overwrites the existing one."""
LOGS = "/v1/services/ingestionPipelines/logs"
FQN, RUNS = "svc.deployed", 6
QUIET = {"PartialFlushIntervalMinutes": "1440", "CleanupIntervalMinutes": "1440"}


@dataclass
class Operator:
    """Runs an operator's commands with the emulator as AWS."""

    emulator: Emulator
    stage: Path
    issuer: Issuer
    believing: dict[str, str]
    """Parameters of a stack that trusts the issuer."""

    @property
    def token(self) -> str:
        """A token with all permissions."""
        return self.issuer.granted("operator", **EVERYTHING)

    def believe(self) -> None:
        """Write the trusted issuer into the stage's file."""
        stage = json.loads(self.stage.read_text())
        self.stage.write_text(json.dumps(stage | {"parameters": stage["parameters"] | self.believing}))

    def make(self, target: str, *variables: str, typed: str = "", expected: int = 0) -> str:
        """Output of ``make``."""
        environment = without_aws(os.environ) | {name.upper(): value for name, value in CREDENTIALS.items()}
        environment |= {"AWS_ENDPOINT_URL": self.emulator.endpoint_url, "AWS_REGION": REGION, "AWS_DEFAULT_REGION": REGION}
        command = ["make", "--no-print-directory", "-o", ".venv/ready", target, *variables]
        done = subprocess.run(command, cwd=PROJECT, env=environment, input=typed, capture_output=True, text=True, timeout=COMMAND_S)
        assert (done.returncode != 0) == (expected != 0), done.stdout[-3000:] + done.stderr[-3000:]
        return done.stdout + done.stderr

    def client(self, service: str) -> Any:
        return on_the_emulator.client(service, self.emulator.endpoint_url)

    def outputs(self) -> dict[str, str]:
        with closing(self.client("cloudformation")) as cloudformation:
            rows = cloudformation.describe_stacks(StackName=STACK)["Stacks"][0]["Outputs"]
        return {row["OutputKey"]: row["OutputValue"] for row in rows}

    def url(self, template: dict[str, Any]) -> str:
        """URL of the API; applies the parts of the template that the emulator ignores."""
        api_id = self.outputs()["RestAPIId"]
        with closing(self.client("apigateway")) as client:
            gateway.complete(client, api_id, template["Resources"]["RestAPI"])
        return f"{self.emulator.endpoint_url}/restapis/{api_id}/api/_user_request_"


@pytest.fixture(scope="module")
def operator(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Operator]:
    folder = tmp_path_factory.mktemp("operator")
    stage = folder / "test.json"
    parameters = {"BucketName": "logs-${account}", "ArchiveBucketName": "archive-${account}", "PositionKeys": "k" * 32}
    parameters |= {"CursorKeys": "c" * 32}
    stage.write_text(json.dumps({"stack": STACK, "parameters": parameters | QUIET}))
    emulator, issuer = Emulator(free_port(), folder / "scratch", folder / "emulator.log"), Issuer()
    try:
        emulator.wait_until_healthy()
        with serve_document(issuer) as keys_url:
            believing = {"Auth": "jwt", "JwtIssuer": ISSUER, "JwtAudience": AUDIENCE, "JwtJwksUrl": keys_url}
            yield Operator(emulator, stage, issuer, believing)
    finally:
        emulator.stop()


def ask(url: str, method: str = "GET", body: bytes | None = None, **headers: str) -> tuple[int, bytes]:
    request = Request(url, body, {"Content-Type": "text/plain"} | headers, method=method)
    try:
        with urlopen(request, timeout=PATIENCE_S) as answer:
            return answer.status, answer.read()
    except HTTPError as error:
        with error:
            return error.code, error.read()


def write_runs(url: str, token: str) -> dict[str, bytes]:
    """Write runs and close every second one; returns each run's log, which must remain readable."""
    logs = {}
    for number in range(RUNS):
        text = b"".join(b"line %d of run %d\n" % (line, number) for line in range(number + 1))
        assert ask(f"{url}{LOGS}/{FQN}/run-{number}", "POST", text, **bearer(token))[0] == 200
        if number % 2:
            assert ask(f"{url}{LOGS}/{FQN}/run-{number}/close", "POST", b"", **bearer(token))[0] == 200
        logs[f"run-{number}"] = text
    return logs


def read_runs(url: str, token: str) -> dict[str, bytes]:
    return {f"run-{number}": ask(f"{url}{LOGS}/{FQN}/run-{number}/download", **bearer(token))[1] for number in range(RUNS)}


def tables(operator: Operator) -> dict[str, list[str]]:
    """Every row of every table, by the table's output."""
    found = {}
    with closing(operator.client("dynamodb")) as dynamodb:
        for name, table in operator.outputs().items():
            if name.endswith("TableName"):
                pages = dynamodb.get_paginator("scan").paginate(TableName=table)
                found[name] = sorted(json.dumps(row, sort_keys=True) for page in pages for row in page["Items"])
    return found


def jobs_have_their_code(operator: Operator) -> bool:
    """Whether each file that a job names is where it says, and jobs start at night."""
    with closing(operator.client("glue")) as glue, closing(operator.client("s3")) as s3:
        jobs, triggers = glue.get_jobs()["Jobs"], glue.get_triggers()["Triggers"]
        for job in jobs:
            given = job["DefaultArguments"]
            for address in (job["Command"]["ScriptLocation"], given["--extra-py-files"], given["--additional-python-modules"]):
                bucket, _, key = address.removeprefix("s3://").partition("/")
                assert key.startswith("jobs/") and s3.head_object(Bucket=bucket, Key=key)["ContentLength"] > 0
    return bool(jobs and triggers)


def listed(url: str, token: str) -> list[str]:
    return sorted(json.loads(ask(f"{url}{LOGS}/{FQN}", **bearer(token))[1])["runs"])


def wait_until_listed(operator: Operator, url: str, token: str) -> None:
    from tests.integration.rebuild_harness import wait_until_quiet
    from tests.integration.stacks import Stack

    described = {"aws_endpoint_url": operator.emulator.endpoint_url, "ingest_queue_url": operator.outputs()["IngestQueueUrl"]}
    wait_until_quiet(Stack(described))
    assert listed(url, token) == sorted(f"run-{number}" for number in range(RUNS))


@pytest.mark.behavior("A stack is deployed again with other parameters, and keeps its data.")
def test_stack_with_data_is_deployed_again(operator: Operator, template: dict[str, Any]) -> None:
    stage, change = f"STAGE={operator.stage}", "PARAMS=LogLevel=DEBUG"
    assert "Auth jwt needs JwtIssuer" in operator.make("diff", stage, expected=1)
    operator.believe()
    told = operator.make("deploy", stage)
    assert told.splitlines()[-1] == f'  make smoke TOKEN="$TOKEN" URL={operator.outputs()["ApiUrl"]}' and "set Login" in told
    assert jobs_have_their_code(operator)
    assert "nothing changes" in operator.make("diff", stage)
    url, token = operator.url(template), operator.token
    assert ask(f"{url}{LOGS}/{FQN}/run-0")[0] == 401
    assert "all well" in operator.make("smoke", f"URL={url}", f"TOKEN={token}")
    assert "FAILED" in operator.make("smoke", "URL=http://127.0.0.1:1/api", expected=1)
    logs = write_runs(url, token)
    wait_until_listed(operator, url, token)
    before, rows = operator.outputs(), tables(operator)

    told = operator.make("diff", stage, change)
    assert "LogLevel" in told
    lost = [line for line in told.splitlines() if line.partition("AWS::")[2].startswith(HOLD_DATA) and "  REPLACED" in line]
    assert lost == [] and (operator.outputs(), tables(operator)) == (before, rows), "it changes nothing"

    assert "LogLevel" in operator.make("deploy", stage, change)
    after = operator.outputs()
    assert {name: after[name] for name in before if name not in OF_THE_API} == {
        name: before[name] for name in before if name not in OF_THE_API
    }
    url, token = operator.url(template), operator.token
    assert read_runs(url, token) == logs and tables(operator) == rows and listed(url, token) == sorted(logs)
    assert ask(f"{url}{LOGS}/{FQN}/run-0", "POST", b"after the change\n", **bearer(token))[0] == 200
    assert read_runs(url, token)["run-0"] == logs["run-0"] + b"after the change\n"

    assert "nothing was deleted" in operator.make("destroy", stage, typed="yes\n", expected=1)
    assert after["BucketName"] in operator.make("destroy", stage, typed=f"{STACK}\n")
    with closing(operator.client("s3")) as s3:
        kept = s3.list_objects_v2(Bucket=after["BucketName"], Prefix=f"pipeline-logs/{FQN}/run-1/")
    assert kept["KeyCount"] > 0, "logs stay"


def test_and_all_goes_when_it_is_said_twice(operator: Operator, tmp_path: Path) -> None:
    stage = tmp_path / "gone.json"
    parameters = {
        "BucketName": "gone-logs",
        "ArchiveBucketName": "gone-archive",
        "PositionKeys": "k" * 32,
        "CursorKeys": "c" * 32,
    }
    stage.write_text(json.dumps({"stack": "runlake-gone", "parameters": parameters | QUIET | operator.believing}))
    operator.make("deploy", f"STAGE={stage}")
    with closing(operator.client("s3")) as s3:
        s3.put_object(Bucket="gone-logs", Key="pipeline-logs/a", Body=b"x")
        operator.make("destroy", f"STAGE={stage}", "DATA=delete", typed="runlake-gone\nno\n", expected=1)
        assert s3.list_objects_v2(Bucket="gone-logs")["KeyCount"] == 1
        assert "; DATA=delete deletes them too" in operator.make("destroy", f"STAGE={stage}", typed="runlake-gone\n")
        told = operator.make("destroy", f"STAGE={stage}", "DATA=delete", typed="delete the data of runlake-gone\n")
        assert "aws s3 rb --force s3://runlake-artifacts-000000000000-us-east-1" in told
        assert not [each["Name"] for each in s3.list_buckets()["Buckets"] if each["Name"].startswith("gone-")]


def test_a_stage_that_is_not_there_is_said(operator: Operator) -> None:
    assert "no such stage" in operator.make("diff", "STAGE=nowhere", expected=1)
    assert "no such parameter: Wrong" in operator.make("diff", f"STAGE={operator.stage}", "PARAMS=Wrong=1", expected=1)
