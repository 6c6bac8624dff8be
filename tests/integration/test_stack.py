"""The deployed template: it responds, ingests, runs its schedules, and two stacks run side by side."""

from __future__ import annotations

import json
import socket
from collections.abc import Iterator
from contextlib import closing
from typing import Any
from uuid import uuid4

import pytest
import requests

from local.control import up
from local.state import ROOT, LocalError
from tests.integration.stacks import PATIENCE_S, Stack, running_stack

PIPELINES = "/v1/services/ingestionPipelines"


def test_description_says_where_everything_is(stack: Stack) -> None:
    assert stack.api_url.startswith("http://127.0.0.1:")
    assert stack.api_url.endswith("/api")
    for name in ("aws_endpoint_url", "bucket", "region", "report_topic_arn", "runs_table", "segments_table"):
        assert stack[name]
    assert set(stack["functions"]) == {"api", "authorize", "ingest", "compact", "sweep", "pipelines"}
    with closing(stack.client("dynamodb")) as dynamodb:
        keys = {
            name: dynamodb.describe_table(TableName=stack[name])["Table"]["KeySchema"] for name in ("runs_table", "segments_table")
        }
    assert [key["AttributeName"] for key in keys["runs_table"]] == ["fqn", "run_id"]
    assert [key["AttributeName"] for key in keys["segments_table"]] == ["run", "at"]


def test_health_answers_through_the_friendly_address(stack: Stack) -> None:
    with requests.get(f"{stack.api_url}/v1/health", timeout=PATIENCE_S) as answer:
        assert answer.status_code == 200


def test_a_path_that_no_route_has_is_answered_with_the_error_envelope(stack: Stack) -> None:
    with requests.get(f"{stack.api_url}/v1/nothing-here", timeout=PATIENCE_S) as answer:
        assert (answer.status_code, answer.json()["code"]) == (404, 404)
        assert answer.json()["message"]
        assert answer.headers["Access-Control-Allow-Origin"] == "*"


def test_an_object_that_lands_is_ingested_and_reported(stack: Stack) -> None:
    run_id = str(uuid4())
    with closing(stack.client("sqs")) as sqs, closing(stack.client("sns")) as sns, closing(stack.client("dynamodb")) as dynamodb:
        queue = sqs.create_queue(QueueName=f"reports-{run_id}")["QueueUrl"]
        arn = sqs.get_queue_attributes(QueueUrl=queue, AttributeNames=["QueueArn"])["Attributes"]["QueueArn"]
        sns.subscribe(TopicArn=stack["report_topic_arn"], Protocol="sqs", Endpoint=arn)
        with requests.post(f"{stack.api_url}{PIPELINES}/logs/stack.ingest/{run_id}", json="one\ntwo\n", timeout=20) as answer:
            assert answer.status_code == 200
        report = next(report for report in reports(sqs, queue) if run_id in report["records"][0]["url"])
        assert report["status"] == "success"
        row = dynamodb.get_item(TableName=stack["runs_table"], Key={"fqn": {"S": "stack.ingest"}, "run_id": {"S": run_id}})["Item"]
        assert (row["lines"]["N"], row["bytes"]["N"]) == ("2", "8")
        sqs.delete_queue(QueueUrl=queue)


def test_subscriber_to_failures_gets_the_end_of_a_failed_run_and_nothing_else(stack: Stack) -> None:
    failed, succeeded = str(uuid4()), str(uuid4())
    with closing(stack.client("sqs")) as sqs, closing(stack.client("sns")) as sns:
        queue = sqs.create_queue(QueueName=f"failures-{failed}")["QueueUrl"]
        arn = sqs.get_queue_attributes(QueueUrl=queue, AttributeNames=["QueueArn"])["Attributes"]["QueueArn"]
        policy = {"FilterPolicy": json.dumps({"failed": ["true"]})}
        sns.subscribe(TopicArn=stack["report_topic_arn"], Protocol="sqs", Endpoint=arn, Attributes=policy)
        for run_id, body in ((succeeded, {"outcome": "succeeded"}), (failed, {"outcome": "failed", "exitCode": 3})):
            url = f"{stack.api_url}{PIPELINES}/logs/stack.failures/{run_id}"
            for path, sent in ((url, "one\n"), (f"{url}/close", body)):
                with requests.post(path, json=sent, timeout=PATIENCE_S) as answer:
                    assert answer.status_code == 200
        ours = (report["records"][0]["metadata"] for report in reports(sqs, queue))
        found = next(metadata for metadata in ours if metadata["what"] == "stack_failures")
        assert (found["run_id"], found["outcome"], found["exit_code"]) == (failed, "failed", 3)
        sqs.delete_queue(QueueUrl=queue)


def reports(sqs: Any, queue: str) -> Iterator[dict[str, Any]]:
    """Messages of the topic until none arrives for 20 seconds. Other tests report to the same topic."""
    while messages := sqs.receive_message(QueueUrl=queue, WaitTimeSeconds=20, MaxNumberOfMessages=10).get("Messages"):
        for message in messages:
            yield json.loads(json.loads(message["Body"])["Message"])


def test_schedules_call_their_functions(stack: Stack) -> None:
    with closing(stack.client("events")) as events:
        rules = {rule["ScheduleExpression"]: rule["Name"] for rule in events.list_rules()["Rules"]}
        targets = {schedule: events.list_targets_by_rule(Rule=name)["Targets"][0]["Arn"] for schedule, name in rules.items()}
    assert targets["rate(2 minutes)"].endswith(stack["functions"]["compact"])
    assert targets["rate(60 minutes)"].endswith(stack["functions"]["sweep"])


@pytest.mark.parametrize("function", ["compact", "sweep"])
def test_scheduled_functions_run(stack: Stack, function: str) -> None:
    event = {"id": "1", "detail-type": "Scheduled Event", "source": "aws.events", "account": "0", "time": "2026-01-01T00:00:00Z"}
    event |= {"region": stack["region"], "resources": [], "detail": {}, "version": "0"}
    with closing(stack.client("lambda")) as functions:
        answer = functions.invoke(FunctionName=stack["functions"][function], Payload=json.dumps(event))
        payload = answer["Payload"].read()
    assert "FunctionError" not in answer, payload


def test_a_second_stack_runs_beside_the_first(stack: Stack) -> None:
    default = ROOT / "stack.json"
    before = default.read_bytes() if default.exists() else None
    with running_stack(StreamTimeoutMinutes="7") as second:
        assert second.api_url != stack.api_url
        assert second["aws_endpoint_url"] != stack["aws_endpoint_url"]
        for each in (stack, second):
            with requests.get(f"{each.api_url}/v1/health", timeout=PATIENCE_S) as answer:
                assert answer.status_code == 200
        with closing(second.client("s3")) as s3:
            s3.put_object(Bucket=second["bucket"], Key="only-in-the-second", Body=b"")
        with closing(stack.client("s3")) as s3:
            assert "Contents" not in s3.list_objects_v2(Bucket=stack["bucket"], Prefix="only-in-the-second")
        assert (default.read_bytes() if default.exists() else None) == before
        with pytest.raises(LocalError, match="already runs"):
            up(second["port"], {})
    with pytest.raises(requests.ConnectionError):
        requests.get(f"{second.api_url}/v1/health", timeout=PATIENCE_S)


def test_a_stack_that_cannot_be_made_says_why_in_one_line() -> None:
    with pytest.raises(LocalError, match="AllowedValues") as caught, running_stack(StorageClass="GLACIER"):
        pass
    assert "\n" not in str(caught.value)


def test_a_port_in_use_is_said_in_one_line() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        with pytest.raises(LocalError, match=f"the port is in use.*port={port}"):
            up(port, {}, private=True)
