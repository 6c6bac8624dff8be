"""A stack with runs and files of every kind, snapshots of its tables, and functions that lose or damage them."""

from __future__ import annotations

import json
import os
import random
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import replace
from typing import Any
from unittest.mock import patch
from uuid import uuid4

import boto3

from chalicelib import composition, settings
from chalicelib.composition import Services
from chalicelib.composition.environment import aws_ports
from chalicelib.deadline import Deadline
from chalicelib.ports import Run
from chalicelib.runlog.batch import Batch
from chalicelib.runlog.deletion_marks import DeletionOrder
from chalicelib.triggers import schedules
from glue_jobs.job_runtime.environment import use_stack
from local.emulator import CREDENTIALS
from tests.integration.job_process import Ended, run_job
from tests.integration.stacks import PATIENCE_S, Stack
from tests.support.clock import ManualClock

TABLES = ("runs_table", "segments_table", "files_table", "latest_table", "listing_table", "objects_table")
QUIET_PARAMETERS = dict.fromkeys(("PartialFlushIntervalMinutes", "CleanupIntervalMinutes", "PipelinesIntervalMinutes"), "1440")
"""Timeout of a condition on a busy machine."""
MEMORY = ("revision", "unsettled", "left")
"""Attributes with the number of reads and the earlier contents of files."""
HOUR_S = 3600
Tables = dict[str, dict[str, dict[str, Any]]]


@contextmanager
def services_of(stack: Stack, offset_s: float, before_send: Callable[..., None] | None = None) -> Iterator[Services]:
    """The stack's services in this process, with a clock off by this much. ``before_send``: called before each request to AWS."""
    environment = {"AWS_ENDPOINT_URL": stack["aws_endpoint_url"], "AWS_DEFAULT_REGION": stack["region"]}
    environment |= {name.upper(): value for name, value in CREDENTIALS.items()}
    environment["RUNLAKE_POSITION_KEYS"] = "0123456789abcdef"  # jobs lack the stack's key; only this process reads these positions
    with patch.dict(os.environ, environment):
        boto3.setup_default_session()
        if before_send:
            boto3.DEFAULT_SESSION.events.register("before-send", before_send)
        use_stack(stack["stack_name"])
        loaded = settings.load()
        ports = replace(aws_ports(loaded), clock=ManualClock(round((time.time() + offset_s) * 1000)), workers=None)
        yield composition.assemble(loaded, ports)
    boto3.DEFAULT_SESSION = None


def fill(stack: Stack, seed: int, count: int = 12) -> list[Run]:
    """Runs of the last hours: open, compacted, retired, closed, abandoned, reopened, keyed, deleted, of OpenMetadata's own; and files."""
    chance, fqn = random.Random(seed), f"svc.rebuilt-{uuid4().hex[:6]}"
    runs = [Run(fqn, f"run-{number}") for number in range(count)]
    with services_of(stack, -5 * HOUR_S) as past:
        positions = {run: _append(past, run, None, 4 + number, chance) for number, run in enumerate(runs)}
        _end(past, runs[0:4], runs[4:6])
        for run in runs[5:9]:  # one of them was abandoned
            _append(past, run, positions[run], 3, chance)
    wait_until_quiet(stack)
    _tick(stack, 2 * HOUR_S)
    with services_of(stack, -4 * HOUR_S) as past:
        for run in (runs[5], runs[7], runs[8]):
            _append(past, run, positions[run], 2, chance)
        past.finalizer.close(runs[8])
    wait_until_quiet(stack)
    _tick(stack, 2 * HOUR_S)
    _deleted(stack, Run(fqn, "deleted"), chance)
    _openmetadata(stack, fqn.replace(".", "_"))
    _files(stack, fqn, chance)
    wait_until_quiet(stack)
    return runs


def _append(services: Services, run: Run, position: str | None, count: int, chance: random.Random) -> str:
    for number in range(count):
        text = "".join(f"{chance.random()} of {run.run_id}\n" for _ in range(chance.randint(1, 9)))
        key = f"{run.run_id} {chance.random()}" if number % 5 == 4 else None
        position = services.writer.append(
            run, Batch.from_text(text, f"host-{number % 2}"), position=position, idempotency_key=key
        ).position
        services.clock.advance(20)  # type: ignore[attr-defined]
    assert position
    return position


def _end(services: Services, closed: list[Run], abandoned: list[Run]) -> None:
    for run in closed:
        services.finalizer.close(run)
    for run in abandoned:
        services.finalizer.abandon(run, services.clock.now_ms() + 1, Deadline(services.clock))


def _deleted(stack: Stack, run: Run, chance: random.Random) -> None:
    """A run of which only the marks are left."""
    with services_of(stack, -4 * HOUR_S) as past:
        _append(past, run, None, 3, chance)
    wait_until_quiet(stack)
    with services_of(stack, HOUR_S) as future:
        future.removal.delete(run, DeletionOrder("operator", "a secret"), Deadline(future.clock))
        future.clock.advance(HOUR_S)  # type: ignore[attr-defined]
        assert future.removal.resume(Deadline(future.clock)) == 1


def _tick(stack: Stack, offset_s: float) -> None:
    """Run the schedule at a time when all compacted segments may be deleted; three times, since runs must be finalized and explained
    before they leave the schedule."""
    for _ in range(3):
        with services_of(stack, offset_s) as future:
            told = schedules.compact(future, 840_000)
            assert told["failed"] == told["left"] == 0, told
        wait_until_quiet(stack)


def _openmetadata(stack: Stack, fqn: str) -> None:
    """A pipeline for each: of two logs that S3 stored in the same second either may be the latest."""
    with closing(stack.client("s3")) as s3:
        for run_id, names in {"old": ["logs.txt"], "running": ["partial.txt"], "both": ["partial.txt", "logs.txt"]}.items():
            for name in names:
                s3.put_object(
                    Bucket=stack["bucket"], Key=f"pipeline-logs/{fqn}_{run_id}/{run_id}/{name}", Body=b"of openmetadata\n"
                )


def _files(stack: Stack, what: str, chance: random.Random, count: int = 12) -> None:
    with closing(stack.client("s3")) as s3:
        for number in range(count):
            file_id, start = f"{chance.getrandbits(128):032x}", 1_790_000_000_000 + chance.randrange(10**9)
            document = {
                "version": 0, "start": start, "end": start + chance.choice([0, 10**5, 3 * 10**8]), "path": f"/{number}",
                "work_id": chance.choice([None, "job-1"]), "where": f"host-{number % 3}", "what": what.replace(".", "_"), "id": file_id,
                "hash": f"{number:032x}", "level": number / 4,
            }  # fmt: skip
            metadata = {"datalake": json.dumps(document)}
            key = f"{file_id}/data" if number % 4 else f"odd/{number}"
            s3.put_object(Bucket=stack["archive_bucket"], Key=key, Body=b"x" * number, Metadata=metadata)


def wait_until_quiet(stack: Stack) -> None:
    """Wait until all notifications are processed."""
    give_up, calm = time.monotonic() + PATIENCE_S, 0
    names = ["ApproximateNumberOfMessages", "ApproximateNumberOfMessagesNotVisible"]
    with closing(stack.client("sqs")) as sqs:
        while calm < 4:
            attributes = sqs.get_queue_attributes(QueueUrl=stack["ingest_queue_url"], AttributeNames=names)["Attributes"]
            calm = calm + 1 if all(int(attributes[name]) == 0 for name in names) else 0
            assert time.monotonic() < give_up, f"never quiet: {attributes}"
            time.sleep(0.25)


def snapshot(stack: Stack) -> Tables:
    """Every row of every table by its key, except the state of deleted files."""
    with closing(stack.client("dynamodb")) as dynamodb:
        return {table: dict(_rows(dynamodb, stack, table)) for table in TABLES}


def _rows(dynamodb: Any, stack: Stack, table: str) -> Iterator[tuple[str, dict[str, Any]]]:
    keys = [each["AttributeName"] for each in dynamodb.describe_table(TableName=stack[table])["Table"]["KeySchema"]]
    for page in dynamodb.get_paginator("scan").paginate(TableName=stack[table], ConsistentRead=True):
        for row in page["Items"]:
            is_memory = table == "objects_table" and not {"document", "problem", "id"} & set(row)
            if not is_memory:
                yield " ".join(row[key]["S"] for key in keys), {name: value for name, value in row.items() if name not in MEMORY}


def differences(one: Tables, other: Tables) -> list[str]:
    """Descriptions of the differences."""
    return [
        f"{table} {key}: {one[table].get(key)} {other[table].get(key)}"
        for table in TABLES
        for key in sorted({*one[table], *other[table]})
        if one[table].get(key) != other[table].get(key)
    ]


def drop_tables(stack: Stack) -> None:
    """Delete the tables and create them empty, as an operator does."""
    kept = ("AttributeDefinitions", "KeySchema", "TableName")
    with closing(stack.client("dynamodb")) as dynamodb:
        for name in TABLES:
            table = dynamodb.describe_table(TableName=stack[name])["Table"]
            indexes = [
                {key: index[key] for key in ("IndexName", "KeySchema", "Projection")}
                for index in table.get("GlobalSecondaryIndexes", ())
            ]
            dynamodb.delete_table(TableName=stack[name])
            more = {"GlobalSecondaryIndexes": indexes} if indexes else {}
            dynamodb.create_table(BillingMode="PAY_PER_REQUEST", **{key: table[key] for key in kept}, **more)


def damage_tables(stack: Stack, seed: int, count: int) -> None:
    """Delete rows, change rows, and add orphan rows."""
    chance = random.Random(seed)
    with closing(stack.client("dynamodb")) as dynamodb:
        for _ in range(count):
            table = chance.choice(TABLES)
            items = dynamodb.scan(TableName=stack[table], ConsistentRead=True)["Items"]
            schema = dynamodb.describe_table(TableName=stack[table])["Table"]["KeySchema"]
            keys = [each["AttributeName"] for each in schema]
            if not items:
                continue
            row = chance.choice(items)
            key = {name: row[name] for name in keys}
            match chance.choice(["gone", "another", "lacks"]):
                case "gone":
                    dynamodb.delete_item(TableName=stack[table], Key=key)
                case "another":
                    _change(dynamodb, stack[table], row, keys, chance, lambda value: _different_value(value, chance))
                case "lacks":
                    _change(dynamodb, stack[table], row, keys, chance, lambda _: None)


def _change(
    dynamodb: Any, table: str, row: dict[str, Any], keys: list[str], chance: random.Random, change: Callable[[Any], Any]
) -> None:
    names = [
        name for name in row if name not in (*keys, "run_id", "started_ms", "last_append_ms", "activity_shard", "work_id_index_key")
    ]
    if not names:
        return
    name = chance.choice(names)
    changed = change(row[name])
    left = {each: value for each, value in row.items() if each != name} | ({name: changed} if changed is not None else {})
    dynamodb.put_item(TableName=table, Item=left)


def _different_value(value: dict[str, Any], chance: random.Random) -> dict[str, Any]:
    if "N" in value:
        return {"N": str(chance.choice([0, 1, 7, 10**9]))}
    return {"S": chance.choice(["", "x", "null", "{}"])}


def job(stack: Stack, *arguments: str, expected: int = 0, run: Callable[..., Ended] = run_job) -> dict[str, Any]:
    """Run the job and return its summary."""
    done = run(stack, "rebuild_catalog", *arguments)
    assert done.returncode == expected, (done.returncode, done.stdout[-3000:], done.stderr[-5000:])
    return dict(json.loads(done.stdout.splitlines()[-1]))
