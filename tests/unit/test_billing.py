"""Billing of a stack: what recorded invocations and calls, and printed lines, add up to."""

from __future__ import annotations

import importlib.util
from typing import Any

import pytest

from local.billing import _log_bytes
from local.prices import LOG_EVENT_BYTES, PLATFORM_LOG_BYTES, billed, dollars
from local.recording import HOOK


def call(service: str, operation: str, status: int = 200, **facts: object) -> dict[str, object]:
    return {"service": service, "operation": operation, "status": status, "class": "STANDARD", **facts}


def capacity(units: float, **more: object) -> dict[str, object]:
    return {"capacity": {"TableName": "runs", "CapacityUnits": units}, "bytes": 0, **more}


def invoked(ms: float = 0, **invocation: object) -> dict[str, object]:
    return {"invocation": invocation, "ms": ms}


@pytest.mark.parametrize(
    ("row", "units"),
    [
        (call("s3", "PutObject"), {"S3 PUT, copy, LIST": 1}),
        (call("s3", "PutObject", 412), {"S3 PUT, copy, LIST": 1}),
        (call("s3", "PutObject", 503), {}),
        (call("s3", "PutObject", 0), {}),
        (call("s3", "ListObjectsV2"), {"S3 PUT, copy, LIST": 1}),
        (call("s3", "HeadObject", 404), {"S3 GET, HEAD": 1}),
        (call("s3", "DeleteObject"), {}),
        (call("s3", "CompleteMultipartUpload", **{"class": "STANDARD_IA"}), {"S3 writes to STANDARD_IA": 1}),
        (call("dynamodb", "UpdateItem", **capacity(4)), {"DynamoDB write units": 4}),
        (call("dynamodb", "UpdateItem", 400), {"DynamoDB write units": 1}),
        (call("dynamodb", "TransactWriteItems", 400), {"DynamoDB write units": 2}),
        (
            call("dynamodb", "BatchWriteItem", capacity=[{"CapacityUnits": 1.0}, {"CapacityUnits": 5.0}], bytes=0),
            {"DynamoDB write units": 6},
        ),
        (call("dynamodb", "Query", **capacity(0.5)), {"DynamoDB read units": 0.5}),
        (call("dynamodb", "Query", **capacity(0.5, bytes=4096)), {"DynamoDB read units": 0.5}),
        (call("dynamodb", "Query", **capacity(0.5, bytes=4097)), {"DynamoDB read units": 1}),
        (call("dynamodb", "GetItem", 400), {"DynamoDB read units": 1}),
        (call("sns", "PublishBatch", bytes=64 * 1024), {"SNS reports": 1}),
        (call("sns", "PublishBatch", bytes=64 * 1024 + 1), {"SNS reports": 2}),
        (call("ssm", "GetParameter"), {}),
        (invoked(400.0, **{"from": "other"}), {"function calls": 1, "function time, GB-seconds": 0.2}),
        (invoked(**{"from": "gateway"}), {"function calls": 1, "API requests": 1}),
        (invoked(**{"from": "function URL"}), {"function calls": 1}),
        (invoked(**{"from": "queue"}, received=1, sent=1, deleted=1), {"function calls": 1, "SQS requests": 3}),
        (invoked(**{"from": "queue"}, received=100, sent=100, deleted=100), {"function calls": 1, "SQS requests": 120}),
        (invoked(**{"from": "queue"}, received=11, sent=0, deleted=0), {"function calls": 1, "SQS requests": 2}),
    ],
)
def test_recorded_row_becomes_billed_units(row: dict[str, object], units: dict[str, float]) -> None:
    assert +billed([row], 0.5) == units


def message(number: int, receives: int = 1) -> dict[str, Any]:
    return {"messageId": str(number), "eventSource": "aws:sqs", "attributes": {"ApproximateReceiveCount": str(receives)}}


@pytest.mark.parametrize(
    ("event", "answer", "invocation"),
    [
        ({"httpMethod": "GET"}, {}, {"from": "gateway"}),
        ({"type": "REQUEST", "httpMethod": "GET"}, {}, {"from": "other"}),
        ({"version": "2.0", "rawPath": "/"}, {}, {"from": "function URL"}),
        ({"source": "aws.events", "version": "0"}, None, {"from": "other"}),
        (
            {"Records": [message(1), message(2), message(3, 2)]},
            {"batchItemFailures": [{"itemIdentifier": "2"}]},
            {"from": "queue", "received": 3, "sent": 2, "deleted": 2},
        ),
        ({"Records": [message(1, 3)]}, None, {"from": "queue", "received": 1, "sent": 0, "deleted": 0}),
    ],
)
def test_event_tells_who_invoked(event: dict[str, Any], answer: object, invocation: dict[str, object]) -> None:
    spec = importlib.util.spec_from_file_location("hook", HOOK / "sitecustomize.py")
    assert spec and spec.loader
    hook = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(hook)
    assert hook._invocation(event, answer) == invocation


def test_lines_of_a_function_and_of_lambda_are_billed() -> None:
    texts = ["START", '{"level": "INFO"}', '{"umlaut": "ü"}', "END", "REPORT"]
    assert _log_bytes(texts, 2) == 17 + 16 + 2 * LOG_EVENT_BYTES + 2 * PLATFORM_LOG_BYTES


def test_dollars_of_a_million() -> None:
    assert dollars({"API requests": 1_000_000, "S3 PUT, copy, LIST": 2_000_000}) == 3.5 + 10
