"""Prices of requests: list prices of us-east-1, November 2026, in dollars for one million (docs/performance.md)."""

from __future__ import annotations

from collections.abc import Mapping

S3_WRITES, S3_READS = 5.0, 0.40
DYNAMODB_WRITES, DYNAMODB_READS = 0.625, 0.125
DPU_HOUR = 0.44
"""One G.1X worker of Glue (4 vCPU) for an hour."""
_S3_WRITES = frozenset(
    {
        "PutObject",
        "CopyObject",
        "CreateMultipartUpload",
        "UploadPart",
        "UploadPartCopy",
        "CompleteMultipartUpload",
        "ListObjectsV2",
        "ListMultipartUploads",
    }
)
_S3_FREE = frozenset(["DeleteObject", "DeleteObjects", "AbortMultipartUpload"])
_DYNAMODB_READS = frozenset(["GetItem", "BatchGetItem", "Query", "Scan", "TransactGetItems"])


def dollars(requests: Mapping[str, int]) -> float:
    """The price of requests, counted by ``service:Operation``. A DynamoDB request counts as one unit, a batch of writes as 25;
    services other than S3 and DynamoDB are not counted."""
    return sum(count * _price(name) for name, count in requests.items()) / 1e6


def _price(name: str) -> float:
    service, _, operation = name.partition(":")
    if service == "s3":
        return 0.0 if operation in _S3_FREE else S3_WRITES if operation in _S3_WRITES else S3_READS
    if service == "dynamodb":
        units = 25 if operation == "BatchWriteItem" else 1
        return DYNAMODB_READS if operation in _DYNAMODB_READS else units * DYNAMODB_WRITES
    return 0.0
