"""Retention on a deployed stack: the job in a separate process, and the stack's responses for a deleted run."""

from __future__ import annotations

import json
import subprocess
import sys
import time
import uuid
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import pytest

from local.jobs import environment_of
from local.state import PROJECT
from tests.integration.job_process import Ended, run_alone, run_job
from tests.integration.roles import BY_GLUE, UNAVAILABLE, assert_job_fits, output
from tests.integration.stacks import PATIENCE_S, Stack, eventually
from tests.permissions import Calls

LOGS = "/v1/services/ingestionPipelines/logs"
AHEAD = """
import json, sys
from chalicelib import composition
from chalicelib.aws.clock import SystemClock
from glue_jobs.job_runtime.environment import use_stack
from glue_jobs.retention import expiry_of
from glue_jobs.expiration.plan import read_plan
from glue_jobs.job_runtime.uri_files import read_text

class Ahead(SystemClock):
    def now_ms(self):
        return super().now_ms() + 3_600_000

use_stack(sys.argv[1])
made = read_plan(read_text(sys.argv[2]))
expiry = expiry_of(composition.services().with_ports(clock=Ahead()), made.id)
print(json.dumps([expiry.expire(run) for run in made.runs * 2]))
"""
"""Applies a plan twice with a clock an hour ahead: the emulator uses the same clock, and no run this young expires."""


def call(stack: Stack, method: str, path: str, body: str | None = None) -> Any:
    request = Request(
        stack.api_url + path, body.encode() if body else None, {"Content-Type": "text/plain"} if body else {}, method=method
    )
    with urlopen(request, timeout=PATIENCE_S) as answer:
        return json.load(answer)


def job(stack: Stack, *arguments: str, run: Callable[..., Ended] = run_job) -> tuple[int, dict[str, Any]]:
    """Run the job; returns exit code and summary."""
    done = run(stack, "retention", *arguments)
    lines = done.stdout.splitlines()
    assert lines, done.stderr
    summary: dict[str, Any] = json.loads(lines[-1])
    return done.returncode, summary


@pytest.mark.behavior("Retention deletes only runs of a plan that was made before, and removes them from every list.")
@pytest.mark.sampled(default=2, group="jobs on the stack")
def test_a_plan_is_made_and_applied_and_the_run_is_gone_from_every_list(stack: Stack, calls: Calls, tmp_path: Path) -> None:
    fqn = f"retained-{uuid.uuid4().hex[:8]}"
    runs = ["first", "second"]
    for run in runs:
        call(stack, "POST", f"{LOGS}/{fqn}/{run}", f"a line of {run}\n")
        call(stack, "POST", f"{LOGS}/{fqn}/{run}/close")
    listing = f"/v0/archive/files/?what={fqn}&start={(int(time.time()) - 600) * 1000}&end={(int(time.time()) + 600) * 1000}"

    def files() -> list[str]:
        return sorted(record["metadata"]["run_id"] for record in call(stack, "GET", listing)["records"])

    eventually(lambda: files() == runs, what="finished logs are files")
    assert sorted(call(stack, "GET", f"{LOGS}/{fqn}")["runs"]) == runs
    plan = tmp_path / "plan.jsonl"

    code, told = job(stack, "--rules", '{"default": {"keep_runs": 1}}', "--plan", str(plan), run=run_alone)
    assert (code, told["dry_run"], told["runs"]) == (0, True, 0), "all are younger than a day"
    assert told["runs_in_all"] >= 2 and told["requests"]["s3:ListObjectsV2"] >= 2

    made = planned(stack, told, plan, fqn, "first")
    code, told = job(stack, "--apply", str(made))
    assert (code, told["outcomes"]["closing"], told["outcomes"]["expired"]) == (1, 1, 0), "a plan makes nothing older"
    assert files() == runs

    command = [sys.executable, "-c", AHEAD, stack["stack_name"], str(made)]
    done = subprocess.run(command, cwd=PROJECT, env=environment_of(stack), capture_output=True, text=True, timeout=PATIENCE_S)
    assert done.stdout, done.stderr
    assert json.loads(done.stdout) == ["expired", "gone"]
    assert call(stack, "GET", f"{LOGS}/{fqn}")["runs"] == ["second"]
    assert call(stack, "GET", f"{LOGS}/{fqn}/first")["total"] == 0
    assert status_of(stack, f"{LOGS}/{fqn}/first/download") in (404, 410)
    assert call(stack, "GET", f"{LOGS}/{fqn}/second")["logs"] == "a line of second"
    eventually(lambda: files() == ["second"], what="S3's notification takes the file out of the archive's lists")
    assert_nothing_is_left(stack, fqn, "first")
    assert_its_role_fits(stack, calls)


def assert_its_role_fits(stack: Stack, calls: Calls) -> None:
    """Runs after all other steps; plans and summaries are in the jobs' bucket on AWS."""
    bucket = output(stack, "JobsBucketName")
    plan, summary = f"s3://{bucket}/plans/plan.jsonl", f"s3://{bucket}/summaries/retention.json"
    assert job(stack, "--rules", "{}", "--plan", plan, "--summary", summary)[0] == 0
    assert job(stack, "--apply", plan)[0] == 0
    expiring = {"Removals dynamodb:GetItem": "of a run whose expiry was begun: tests/spark/test_retention_expiry.py"}
    assert_job_fits(stack, "retention", calls, BY_GLUE | UNAVAILABLE | expiring)


def planned(stack: Stack, told: dict[str, Any], plan: Path, fqn: str, run: str) -> Path:
    """The job's plan with an additional run that is too young for it."""
    from glue_jobs.expiration.expiry import ExpiringRun
    from glue_jobs.expiration.plan import Plan, read_plan

    empty = read_plan(plan.read_text())
    assert empty.id == told["plan"]
    size = len(f"a line of {run}\n")
    path = plan.with_name("made.jsonl")
    path.write_text(Plan(empty.header, [ExpiringRun(fqn, run, "count", -1, 0, size, 2, size, 1)]).text())
    return path


def status_of(stack: Stack, path: str) -> int:
    try:
        with urlopen(stack.api_url + path, timeout=PATIENCE_S) as answer:
            return int(answer.status)
    except HTTPError as error:
        with error:
            return error.code


def assert_nothing_is_left(stack: Stack, fqn: str, run: str) -> None:
    with closing(stack.client("s3")) as s3, closing(stack.client("dynamodb")) as dynamodb:
        prefix = f"pipeline-logs/{fqn}/{run}/"
        assert s3.list_objects_v2(Bucket=stack["bucket"], Prefix=prefix)["KeyCount"] == 0
        tombstone = s3.get_object(Bucket=stack["bucket"], Key=f"pipeline-logs/.tombstones/{fqn}/{run}/expired.json")
        with tombstone["Body"] as body:
            assert json.loads(body.read())["reason"] == "count"
        row = dynamodb.get_item(TableName=stack["runs_table"], Key={"fqn": {"S": fqn}, "run_id": {"S": run}})
        assert "Item" not in row
        rows = dynamodb.query(
            TableName=stack["segments_table"],
            KeyConditionExpression="#run = :run",
            ExpressionAttributeNames={"#run": "run"},
            ExpressionAttributeValues={":run": {"S": f"{fqn}/{run}"}},
        )
        assert rows["Items"] == []
