"""Prices of counted requests on AWS: list prices of us-east-1, November 2026, and the rules that convert requests to billed units.

Sources: the pricing pages of API Gateway, Lambda, S3, DynamoDB, SNS, SQS and CloudWatch. Prices are in dollars for a million units.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
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
_READ_UNIT_BYTES, _SNS_REQUEST_BYTES, _SQS_RECEIVED_AT_ONCE = 4096, 64 * 1024, 10
_TRANSACTION = "TransactWriteItems"
_WRITES = frozenset({"PutItem", "UpdateItem", "DeleteItem", "BatchWriteItem", _TRANSACTION})
Units = Counter[str]
Row = Mapping[str, Any]
"""A recorded call (``service``, ``operation``, ``status`` …) or invocation (``invocation``, ``ms``) of a function."""


def dollars(counts: Mapping[str, float]) -> float:
    """Price of counted units."""
    return sum(count * PRICES[name] for name, count in counts.items()) / 1e6


def billed(rows: Iterable[Row], memory_gb: float) -> Units:
    """Billed units of a function's recorded calls of S3, DynamoDB and SNS, and of its invocations (``local.recording``).

    A call that AWS refused (4xx) is billed, one that failed (5xx) is not. ``memory_gb``: memory of the function.
    """
    units: Units = Counter()
    for row in rows:
        if "invocation" in row:
            _add_invocation(units, row, memory_gb)
        elif 0 < row["status"] < 500 and (add := _OF_SERVICES.get(row["service"])):
            add(units, row)
    return units


def _add_invocation(units: Units, row: Row, memory_gb: float) -> None:
    """Lambda's pollers receive and delete at most ten messages at once, however large the batch is."""
    invocation = row["invocation"]
    units["function calls"] += 1
    units["function time, GB-seconds"] += row["ms"] / 1000 * memory_gb
    if invocation["from"] == "gateway":
        units["API requests"] += 1
    if invocation["from"] == "queue":
        units["SQS requests"] += invocation["sent"]
        units["SQS requests"] += _pieces(invocation["received"], _SQS_RECEIVED_AT_ONCE)
        units["SQS requests"] += _pieces(invocation["deleted"], _SQS_RECEIVED_AT_ONCE)


def _pieces(count: int, at_most: int) -> int:
    return -(-count // at_most)


def _add_s3(units: Units, row: Row) -> None:
    if row["operation"] in _S3_FREE:
        return
    if row["operation"] in _S3_READS:
        units["S3 GET, HEAD"] += 1
    elif row["class"] != "STANDARD":
        units["S3 writes to STANDARD_IA"] += 1
    else:
        units["S3 PUT, copy, LIST"] += 1


def _add_dynamodb(units: Units, row: Row) -> None:
    """DynamoDB's own count of a call. A refused one has none: it costs as a row of 1 KB."""
    writes = row["operation"] in _WRITES
    capacity = row.get("capacity")
    if capacity is None:
        units["DynamoDB write units" if writes else "DynamoDB read units"] += 2 if row["operation"] == _TRANSACTION else 1
        return
    tables = capacity if isinstance(capacity, list) else [capacity]
    count = sum(table["CapacityUnits"] for table in tables)
    if writes:
        units["DynamoDB write units"] += count
    else:  # the emulator counts a read as one row, whatever it returns
        units["DynamoDB read units"] += count * max(1, _pieces(row["bytes"], _READ_UNIT_BYTES))


def _add_sns(units: Units, row: Row) -> None:
    units["SNS reports"] += _pieces(row["bytes"], _SNS_REQUEST_BYTES)


_OF_SERVICES: dict[str, Callable[[Units, Row], None]] = {"s3": _add_s3, "dynamodb": _add_dynamodb, "sns": _add_sns}
