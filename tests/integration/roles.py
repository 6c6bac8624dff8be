"""Checks that a deployed role fits the recorded calls; and changes files without notification, so that a job discovers them."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager
from typing import Any

import requests

from tests.integration.stacks import PATIENCE_S, Stack
from tests.permissions import Calls, Grant, Need, grants, refused, unused

EVENTS = [{"message": "one", "id": 0, "step": "s"}, {"message": "two", "id": 1, "step": "s"}]

START_MS = 1_790_000_000_000
BY_GLUE = {"Code": "Glue fetches it before the job begins", "Logs": "Glue writes what a job prints"}
"""Statements of jobs' roles that the job's own clients do not need."""
GIVEN_UP = {
    "GiveUpFilesOfPipelines": "when a call of an upload in parts fails; shown for the same code in tests/contract/test_object_store.py",
    "Switches": "when a handler of a job blocks: tests/functional/test_run_pipelines_job.py",
}
UNAVAILABLE = {"ReadMarks": "of deleted runs, while the index cannot be read: tests/functional/test_http_deletion.py"}
POISON = """
errors: {retries: 0}
logging:
  version: 1
  formatters: {bad: {format: "%(nobody_has_this)s"}}
  handlers: {poison: {class: logging.StreamHandler, formatter: bad}}
  root: {level: NOTSET, handlers: [poison]}
"""
"""A pipeline whose handler rejects every event: each becomes a dead letter."""


def assert_job_fits(stack: Stack, job: str, calls: Calls, others: Mapping[str, str] = BY_GLUE) -> None:
    """A job's role allows the recorded calls and nothing else. ``others``: statements, or actions of them, that may be unused
    here, and why."""
    with closing(stack.client("glue")) as glue:
        role = glue.get_job(JobName=f"{stack['stack_name']}-{job}")["Job"]["Role"]
    allowed, needs = grants(stack, role), calls.needs(stack)
    assert {each.partition(" ")[0] for each in others} <= {grant.sid for grant in allowed}
    assert_fits(needs, allowed, lambda grant: not {grant.sid, f"{grant.sid} {grant.action}"}.isdisjoint(others))


def assert_fits(needs: set[Need], allowed: set[Grant], is_excused: Callable[[Grant], bool]) -> None:
    """Grants equal needs, except for grants that may be unused here."""
    denied, idle = refused(needs, allowed), [grant for grant in unused(needs, allowed) if not is_excused(grant)]
    assert not denied, "the role allows not all that is done:\n" + "\n".join(map(str, denied))
    assert not idle, "the role allows what nobody does:\n" + "\n".join(map(str, idle))


def output(stack: Stack, name: str) -> str:
    """Output of the CloudFormation stack."""
    with closing(stack.client("cloudformation")) as cloudformation:
        outputs = cloudformation.describe_stacks(StackName=stack["stack_name"])["Stacks"][0]["Outputs"]
    return str({row["OutputKey"]: row["OutputValue"] for row in outputs}[name])


@contextmanager
def unnoticed(stack: Stack, of: str = "archive_bucket") -> Iterator[Any]:
    """A client of S3, while a bucket, by default the archive's, sends no notifications."""
    with closing(stack.client("s3")) as s3:
        bucket = stack[of]
        told = s3.get_bucket_notification_configuration(Bucket=bucket)
        told.pop("ResponseMetadata")
        s3.put_bucket_notification_configuration(Bucket=bucket, NotificationConfiguration={})
        try:
            yield s3
        finally:
            s3.put_bucket_notification_configuration(Bucket=bucket, NotificationConfiguration=told)


def changes(stack: Stack, prefix: str, what: str, *, notified: bool = False) -> Iterator[int]:
    """Files that are added, moved in time, then broken, without notification unless ``notified``: after each step a job must
    notice.

    Every kind of row change happens once: a source's latest file moves behind another; a file that is not the latest does; all
    files of a source are deleted; one has a key that does not contain its id. Yields the number of objects that are files then.
    """
    one, two, three, four, odd = (f"{prefix}{number:0{32 - len(prefix)}x}" for number in range(5))
    with closing(stack.client("s3")) if notified else unnoticed(stack) as s3:
        bucket = stack["archive_bucket"]
        _put(s3, bucket, f"{prefix}-odd", odd, what, "there", 3)
        for file_id, where, start in ((one, "here", 9), (two, "here", 8), (three, "there", 9), (four, "there", 8)):
            _put(s3, bucket, f"{file_id}/data", file_id, what, where, start)
        yield 5
        _put(s3, bucket, f"{one}/data", one, what, "here", 7)
        _put(s3, bucket, f"{four}/data", four, what, "there", 7)
        yield 5
        for file_id in (one, two):
            s3.put_object(Bucket=bucket, Key=f"{file_id}/data", Body=b"x", Metadata={"datalake": "{"})
        yield 3


def _put(s3: Any, bucket: str, key: str, file_id: str, what: str, where: str, start: int) -> None:
    """An object of the archive, as the datalake's client writes it."""
    document = {
        "version": 0, "start": START_MS + start, "end": None, "path": "/a", "work_id": None, "where": where, "what": what,
        "id": file_id, "hash": "0" * 32,
    }  # fmt: skip
    s3.put_object(Bucket=bucket, Key=key, Body=b"x", Metadata={"datalake": json.dumps(document)})


def append_events(stack: Stack, fqn: str, run_id: str) -> None:
    """A batch of events of a run, whose rows can be lost like those of segments."""
    with requests.post(f"{stack.api_url}/v1/events/{fqn}/{run_id}?writer=w", json=EVENTS, timeout=PATIENCE_S) as answer:
        assert answer.status_code == 200, answer.text


def lose_rows(stack: Stack, fqn: str, run_id: str, *, with_run: bool = False) -> None:
    """Delete the rows of a run's segments, or of the run too, as if never catalogued."""
    with closing(stack.client("dynamodb")) as dynamodb:
        rows = dynamodb.query(
            TableName=stack["segments_table"],
            KeyConditionExpression="#run = :run",
            ExpressionAttributeNames={"#run": "run"},
            ExpressionAttributeValues={":run": {"S": f"{fqn}/{run_id}"}},
        )["Items"]
        assert rows
        for row in rows:
            dynamodb.delete_item(TableName=stack["segments_table"], Key={name: row[name] for name in ("run", "at")})
        if with_run:
            dynamodb.delete_item(TableName=stack["runs_table"], Key={"fqn": {"S": fqn}, "run_id": {"S": run_id}})
