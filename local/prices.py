"""Prices of counted requests on AWS: list prices of us-east-1, November 2026, and the rules that convert requests to billed units.

Sources: the pricing pages of API Gateway, Lambda, S3, DynamoDB, SNS, SQS and CloudWatch. Prices are in dollars for a million units.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any

from glue_jobs.job_runtime.prices import DYNAMODB_READS, DYNAMODB_WRITES, S3_READS, S3_WRITES

API_REQUEST, LAMBDA_REQUEST, LAMBDA_GB_S, SNS_PUBLISH = 3.50, 0.20, 16.6667, 0.50
CLOUDWATCH_INGESTION_GB = 0.50
CLOUDWATCH_STORAGE_GB_MONTH = 0.03
CLOUDWATCH_COMPRESSED = 0.15
"""CloudWatch Logs bills stored bytes compressed; its pricing page assumes this share of the text."""
S3_STANDARD_GB_MONTH, S3_IA_GB_MONTH = 0.023, 0.0125
S3_IA_WRITES, S3_IA_RETRIEVAL_GB = 10.0, 0.01
SQS_REQUEST = 0.40
PLATFORM_LOG_BYTES = 330
"""Lambda writes START, END and REPORT for each invocation, billed like a function's own lines. Their length is an assumption."""
LOG_EVENT_BYTES = 26
"""Bytes that CloudWatch Logs bills for each event in addition to its text."""

PRICES = {
    "API requests": API_REQUEST,
    "function calls": LAMBDA_REQUEST,
    "function time, GB-seconds": LAMBDA_GB_S,
    "S3 PUT, copy, LIST": S3_WRITES,
    "S3 writes to STANDARD_IA": S3_IA_WRITES,
    "S3 GET, HEAD": S3_READS,
    "DynamoDB write units": DYNAMODB_WRITES,
    "DynamoDB read units": DYNAMODB_READS,
    "SQS requests": SQS_REQUEST,
    "SNS reports": SNS_PUBLISH,
    "bytes of own log lines": CLOUDWATCH_INGESTION_GB / 1000,
}
_S3_FREE = frozenset({"DeleteObject", "DeleteObjects", "AbortMultipartUpload"})
_S3_READS = frozenset({"GetObject", "HeadObject"})
_CREATES = frozenset({"PutObject", "CopyObject", "CompleteMultipartUpload"})
_WRITE_UNIT_BYTES, _READ_UNIT_BYTES = 1024, 4096
_ITEM_WRITES = {"PutItem": "Item", "UpdateItem": "ExpressionAttributeValues", "DeleteItem": "Key"}
_IN_TRANSACTION = {"Put": "Item", "Update": "ExpressionAttributeValues", "Delete": "Key", "ConditionCheck": "Key"}
Units = Counter[str]
Call = Mapping[str, Any]
"""One recorded call: ``service``, ``operation``, ``parameters``."""


def dollars(counts: Mapping[str, float]) -> float:
    """Price of counted units."""
    return sum(count * PRICES[name] for name, count in counts.items()) / 1e6


def billed(calls: Iterable[Call], index_units: Mapping[str, int]) -> Units:
    """Billed units of calls of S3, DynamoDB and SNS, and the SQS messages that S3 sends for new objects.

    ``index_units``: write units of a table's indexes for each write of a row.
    """
    units: Units = Counter()
    for call in calls:
        match call["service"]:
            case "s3":
                _add_s3(units, call)
            case "dynamodb":
                _add_dynamodb(units, call, index_units)
            case "sns":
                units["SNS reports"] += len(call["parameters"].get("PublishBatchRequestEntries", [None]))
    return units


def _add_s3(units: Units, call: Call) -> None:
    operation = call["operation"]
    if operation in _S3_FREE:
        return
    if operation in _S3_READS:
        units["S3 GET, HEAD"] += 1
    elif call["parameters"].get("StorageClass", "STANDARD") != "STANDARD":
        units["S3 writes to STANDARD_IA"] += 1
    else:
        units["S3 PUT, copy, LIST"] += 1
    if operation in _CREATES:
        units["SQS requests"] += 1  # S3's notification; receiving and deleting are counted as the function's calls


def _add_dynamodb(units: Units, call: Call, index_units: Mapping[str, int]) -> None:
    operation, parameters = call["operation"], call["parameters"]
    if operation in _ITEM_WRITES:
        units["DynamoDB write units"] += _write_units(parameters, _ITEM_WRITES[operation], index_units)
    elif operation == "BatchWriteItem":
        for table, requests in parameters["RequestItems"].items():
            for request in requests:
                body = request.get("PutRequest") or request["DeleteRequest"]
                units["DynamoDB write units"] += _write_units(
                    {"TableName": table, **body}, "Item" if "Item" in body else "Key", index_units
                )
    elif operation == "TransactWriteItems":
        for item in parameters["TransactItems"]:
            ((kind, body),) = item.items()
            units["DynamoDB write units"] += 2 * _write_units(body, _IN_TRANSACTION[kind], index_units)
    else:
        units["DynamoDB read units"] += _read_units(operation, parameters)


def _write_units(parameters: Mapping[str, Any], part: str, index_units: Mapping[str, int]) -> int:
    size = len(json.dumps(parameters.get(part, {}), default=repr))  # an upper bound: includes types and punctuation
    return -(-size // _WRITE_UNIT_BYTES) + index_units.get(parameters["TableName"], 0)


def _read_units(operation: str, parameters: Mapping[str, Any]) -> int:
    """One unit for a consistent read or a query of up to 4 KB; one for each key of a batch."""
    if operation == "BatchGetItem":
        return sum(len(each["Keys"]) for each in parameters["RequestItems"].values())
    return 1
