"""Background work on the deployed stack: the scheduled functions share it over the template's table, and start more workers."""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import closing
from typing import Any
from urllib.request import Request, urlopen
from uuid import uuid4

import pytest

from chalicelib.aws.clock import SystemClock
from chalicelib.aws.coordination import CoordinationAws, make_store
from chalicelib.catalog.runs import partition_key, shard_of
from chalicelib.coordination import SourceCoordinator
from chalicelib.coordination.partition import create_table_request
from chalicelib.coordination.settings import parse_settings
from chalicelib.ports import Run
from chalicelib.triggers.schedules import RUNS_PER_WORKER
from local.emulator import CREDENTIALS
from tests.integration.stacks import PATIENCE_S, Stack, eventually, running_stack

LOGS = "/v1/services/ingestionPipelines/logs"
COMPLETED = "compaction_source_coordinator_partitionsCompleted"
ENDED = "REPORT RequestId"
"""The platform's last line of an invocation, also of one that found nothing to do and printed no metrics."""
NOTHING = {"done": 0, "failed": 0, "set_aside": 0, "left": 0, "lost": 0}


@pytest.fixture(scope="module")
def quiet() -> Iterator[Stack]:
    """A stack that does no work unless a test triggers it."""
    quiet = dict.fromkeys(("PartialFlushIntervalMinutes", "CleanupIntervalMinutes", "PipelinesIntervalMinutes"), "1440")
    with running_stack(MaxWorkers="2", **quiet) as stack:
        yield stack


def tick(stack: Stack, function: str = "compact", worker: int | None = None) -> dict[str, int]:
    """Invoke as EventBridge does, or as the function does to start a worker; returns the result."""
    event: dict[str, Any] = {"version": "0", "id": "test", "detail-type": "Test", "source": "test", "account": "", "time": ""}
    event |= {"region": stack["region"], "resources": [], "detail": {} if worker is None else {"worker": worker}}
    with closing(stack.client("lambda")) as client:
        answer = client.invoke(FunctionName=stack["functions"][function], Payload=json.dumps(event))
        payload = answer["Payload"].read()
    assert "FunctionError" not in answer, payload
    return dict(json.loads(payload))


def some_runs(count: int) -> list[Run]:
    fqn = f"svc.workers-{uuid4().hex[:8]}"
    return [Run(fqn, f"run-{number}") for number in range(count)]


def append(stack: Stack, run: Run, text: str) -> None:
    request = Request(f"{stack.api_url}{LOGS}/{run.fqn}/{run.run_id}", text.encode(), {"Content-Type": "text/plain"})
    with urlopen(request, timeout=PATIENCE_S) as answer:
        assert answer.status == 200


def wait_until_catalogued(stack: Stack, runs: Iterable[Run]) -> None:
    release = time.monotonic() + PATIENCE_S
    with closing(stack.client("dynamodb")) as dynamodb:
        for run in runs:
            key = {"fqn": {"S": run.fqn}, "run_id": {"S": run.run_id}}
            while "segments" not in dynamodb.get_item(TableName=stack["runs_table"], Key=key, ConsistentRead=True).get("Item", ()):
                assert time.monotonic() < release, f"never catalogued: {run}"
                time.sleep(0.1)


def partial(stack: Stack, run: Run) -> bytes | None:
    """Content of partial.txt; None if missing."""
    key = f"pipeline-logs/{run.fqn}/{run.run_id}/partial.txt"
    with closing(stack.client("s3")) as s3:
        if not s3.list_objects_v2(Bucket=stack["bucket"], Prefix=key).get("Contents"):
            return None
        with s3.get_object(Bucket=stack["bucket"], Key=key)["Body"] as body:
            return bytes(body.read())


def partitions(stack: Stack) -> list[str]:
    """Keys of all waiting, assigned and quarantined partitions."""
    with closing(stack.client("dynamodb")) as dynamodb:
        pages = dynamodb.get_paginator("scan").paginate(TableName=stack["coordination_table"], ConsistentRead=True)
        items = [item for page in pages for item in page["Items"]]
    return [item["sourcePartitionKey"]["S"] for item in items if item["sourceIdentifier"]["S"].endswith("|PARTITION")]


def coordinator(stack: Stack, source: str) -> SourceCoordinator:
    """Another node on the functions' table, with the functions' settings."""
    with closing(stack.client("lambda")) as client:
        configuration = client.get_function_configuration(FunctionName=stack["functions"]["compact"])
    settings = parse_settings(json.loads(configuration["Environment"]["Variables"]["RUNLAKE_SOURCE_COORDINATION"]))
    clock = SystemClock()
    store = make_store(settings, CoordinationAws(clock, stack["aws_endpoint_url"], **CREDENTIALS))
    made = SourceCoordinator(store, settings.source(source), clock, lambda *_: None)
    made.initialize()
    return made


def test_the_table_is_as_a_coordinator_would_make_it(stack: Stack) -> None:
    with closing(stack.client("dynamodb")) as dynamodb:
        table = dynamodb.describe_table(TableName=stack["coordination_table"])["Table"]
    request = create_table_request(stack["coordination_table"], None)
    assert table["KeySchema"] == request["KeySchema"]
    (index,), (wanted,) = table["GlobalSecondaryIndexes"], request["GlobalSecondaryIndexes"]
    assert {name: index[name] for name in wanted} == wanted


def test_tables_expire_as_the_template_says(stack: Stack, template: dict[str, Any]) -> None:
    """The emulator's CloudFormation ignores it, so ``local.deploy`` enables it."""
    with closing(stack.client("dynamodb")) as dynamodb:
        described = {
            name: dynamodb.describe_time_to_live(TableName=stack[name])["TimeToLiveDescription"].get("AttributeName")
            for name in stack.description
            if name.endswith("_table")
        }
    made = {
        resource: properties["Properties"].get("TimeToLiveSpecification", {}).get("AttributeName")
        for resource, properties in template["Resources"].items()
        if properties["Type"] == "AWS::DynamoDB::Table"
    }
    assert {name.title().replace("_", ""): attribute for name, attribute in described.items()} == made
    assert described["coordination_table"] == "expirationTime"


def test_runs_are_compacted_and_leave_no_partitions(quiet: Stack) -> None:
    runs = some_runs(12)
    for run in runs:
        append(quiet, run, f"of {run.run_id}\n")
    wait_until_catalogued(quiet, runs)
    assert tick(quiet) == NOTHING | {"done": len(runs)}
    assert [partial(quiet, run) for run in runs] == [f"of {run.run_id}\n".encode() for run in runs]
    assert partitions(quiet) == []
    assert tick(quiet) == NOTHING, "nothing is due any more"


def test_a_worker_takes_what_waits_and_looks_for_nothing_itself(quiet: Stack) -> None:
    (run,) = some_runs(1)
    append(quiet, run, "line\n")
    wait_until_catalogued(quiet, [run])
    assert tick(quiet, worker=1) == tick(quiet, "sweep", worker=1) == NOTHING
    assert partial(quiet, run) is None
    other = coordinator(quiet, "compaction")
    assert other.create_partitions([partition_key(run)]) == [partition_key(run)]
    assert partitions(quiet) == [partition_key(run)]
    assert tick(quiet, worker=1) == NOTHING | {"done": 1}
    assert (partial(quiet, run), partitions(quiet)) == (b"line\n", [])


def test_what_another_node_has_in_hand_is_left_to_it(quiet: Stack) -> None:
    mine, theirs = runs = some_runs(2)
    for run in runs:
        append(quiet, run, "line\n")
    wait_until_catalogued(quiet, runs)
    other = coordinator(quiet, "compaction")
    other.create_partitions([partition_key(mine)])
    lease = other.next_partition()
    assert lease and lease.key == partition_key(mine)
    assert tick(quiet) == NOTHING | {"done": 1}
    assert (partial(quiet, mine), partial(quiet, theirs)) == (None, b"line\n")
    assert other.release(lease)
    assert tick(quiet) == NOTHING | {"done": 1}
    assert (partial(quiet, mine), partitions(quiet)) == (b"line\n", [])


@pytest.fixture
def crowd(quiet: Stack) -> Iterator[list[Run]]:
    """One run more than a worker should have, all due: rows of runs without objects on S3, so that each is checked and completed."""
    runs = some_runs(RUNS_PER_WORKER + 1)
    now_ms = round(time.time() * 1000)
    numbers = {"segments": 1, "lines": 1, "bytes": 5, "started_ms": now_ms, "last_append_ms": now_ms}
    row = {name: {"N": str(value)} for name, value in numbers.items()}
    write(quiet, [{"PutRequest": {"Item": key(run) | row | {"activity_shard": {"S": shard_of(run)}}}} for run in runs])
    yield runs
    write(quiet, [{"DeleteRequest": {"Key": key(run)}} for run in runs])


def key(run: Run) -> dict[str, Any]:
    return {"fqn": {"S": run.fqn}, "run_id": {"S": run.run_id}}


def write(stack: Stack, requests: list[dict[str, Any]]) -> None:
    with closing(stack.client("dynamodb")) as dynamodb:
        for at in range(0, len(requests), 25):
            answer = dynamodb.batch_write_item(RequestItems={stack["runs_table"]: requests[at : at + 25]})
            assert answer["UnprocessedItems"] == {}


def test_more_than_one_can_do_in_time_is_shared_with_another_that_is_started(quiet: Stack, crowd: list[Run]) -> None:
    """The other invocation may start late and find everything done. A call that the busy emulator refuses leaves its partition to the next
    invocation, as on AWS."""
    before, ended = completed(quiet), len(messages(quiet, ENDED))
    own = tick(quiet)["done"]
    eventually(lambda: len(messages(quiet, ENDED)) - ended, lambda more: more >= 2, what="the end of the other invocation")
    assert own in (completed(quiet) - before).values()

    def all_done() -> bool:
        if sum((completed(quiet) - before).values()) == len(crowd):
            return True
        tick(quiet)
        return False

    eventually(all_done, what="all runs")
    assert partitions(quiet) == []


def completed(stack: Stack) -> Counter[str]:
    """Completed partitions by invocation, from the functions' metrics. The emulator gives each invocation a log stream."""
    found: Counter[str] = Counter()
    for stream, message in messages(stack, COMPLETED):
        found[stream] += round(sum(json.loads(message)[COMPLETED]))
    return found


def messages(stack: Stack, word: str) -> list[tuple[str, str]]:
    """Stream and text of each line of the compacting function that contains a word."""
    group = f"/aws/lambda/{stack['functions']['compact']}"
    with closing(stack.client("logs")) as logs:
        pages = logs.get_paginator("filter_log_events").paginate(logGroupName=group)
        return [
            (event["logStreamName"], event["message"]) for page in pages for event in page["events"] if word in event["message"]
        ]
