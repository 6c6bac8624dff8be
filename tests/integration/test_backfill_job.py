"""The backfill in a separate process, on a stack without rows of the objects."""

from __future__ import annotations

import json
import subprocess
import sys
import time
import uuid
from contextlib import closing
from typing import Any
from urllib.request import Request, urlopen

import pytest

from local.state import PROJECT
from tests.integration.roles import assert_job_fits, changes, output
from tests.integration.stacks import COMMAND_S, PATIENCE_S, Stack
from tests.permissions import Calls

START_MS = 1_790_000_000_000


def listed(stack: Stack, what: str) -> list[str]:
    url = f"{stack.api_url}/v0/archive/files/?what={what}&start={START_MS}&end={START_MS + 1000}"
    with urlopen(url, timeout=PATIENCE_S) as answer:
        return [record["metadata"]["id"] for record in json.load(answer)["records"]]


def job(stack: Stack, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "local", "job", "--port", str(stack["port"]), "backfill", *arguments]
    return subprocess.run(command, cwd=PROJECT, capture_output=True, text=True, timeout=COMMAND_S)


def test_a_lost_table_is_filled_again_from_the_bucket(stack: Stack) -> None:
    file_id, what = uuid.uuid4().hex, f"backfilled-{uuid.uuid4().hex[:8]}"
    document = {
        "version": 0, "start": START_MS, "end": None, "path": "/a", "work_id": None, "where": "w", "what": what, "id": file_id,
        "hash": "0" * 32,
    }  # fmt: skip
    with closing(stack.client("s3")) as s3, closing(stack.client("dynamodb")) as dynamodb:
        key = f"{file_id}/data"
        s3.put_object(Bucket=stack["archive_bucket"], Key=key, Body=b"x", Metadata={"datalake": json.dumps(document)})
        give_up = time.monotonic() + PATIENCE_S
        while listed(stack, what) != [file_id]:
            assert time.monotonic() < give_up, "the file is not listed"
            time.sleep(0.2)
        lose_listing(dynamodb, stack["listing_table"], what)
    assert listed(stack, what) == []
    again = job(stack, "--prefix", file_id[:8])
    assert again.returncode == 0 and json.loads(again.stdout)["files"] == 1, again
    assert listed(stack, what) == [], "what is remembered as it is, is left as it is"
    anew = job(stack, "--prefix", file_id[:8], "--anew")
    assert anew.returncode == 0 and json.loads(anew.stdout)["files"] == 1, anew
    assert listed(stack, what) == [file_id]


def test_help_tells_what_it_does(stack: Stack) -> None:
    told = job(stack, "--help")
    assert told.returncode == 0 and "--run-logs" in told.stdout and "checkpoint" in told.stdout


@pytest.mark.sampled(default=1, group="roles of jobs")
def test_its_role_allows_what_it_does_and_nothing_else(stack: Stack, calls: Calls) -> None:
    prefix, run = uuid.uuid4().hex[:8], f"of-roles-{uuid.uuid4().hex[:8]}"
    finish_run(stack, run)
    for files in changes(stack, prefix, run):
        assert job_done(stack, "--prefix", prefix)["files"] == files
    assert job_done(stack, "--prefix", f"{prefix}-odd", "--anew")["files"] == 1
    summary = f"s3://{output(stack, 'JobsBucketName')}/summaries/backfill.json"
    assert job_done(stack, "--run-logs", "--prefix", run, "--anew", "--summary", summary)["files"] == 1
    assert_job_fits(stack, "backfill", calls)


def job_done(stack: Stack, *arguments: str) -> dict[str, Any]:
    done = job(stack, *arguments)
    assert done.returncode == 0, done.stderr
    return dict(json.loads(done.stdout.splitlines()[-1]))


def finish_run(stack: Stack, fqn: str) -> None:
    url = f"{stack.api_url}/v1/services/ingestionPipelines/logs/{fqn}/run"
    for request in (Request(url, b"a line\n", {"Content-Type": "text/plain"}), Request(f"{url}/close", b"")):
        with urlopen(request, timeout=PATIENCE_S):
            pass


def lose_listing(dynamodb: Any, table: str, what: str) -> None:
    """Remove every listing row of a ``what``."""
    for page in dynamodb.get_paginator("scan").paginate(TableName=table):
        for row in page["Items"]:
            if what in row["partition"]["S"] or what in row["at"]["S"]:
                dynamodb.delete_item(TableName=table, Key={name: row[name] for name in ("partition", "at")})
