"""What a role of the template allows, and what requests need: a job is run, its requests are counted, and the two are compared."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

_S3 = {
    "ListObjectsV2": {"s3:ListBucket"},
    "HeadObject": {"s3:GetObject"},
    "CreateMultipartUpload": {"s3:PutObject"},
    "UploadPart": {"s3:PutObject"},
    "UploadPartCopy": {"s3:PutObject", "s3:GetObject"},
    "CopyObject": {"s3:PutObject", "s3:GetObject"},
    "CompleteMultipartUpload": {"s3:PutObject"},
    "DeleteObjects": {"s3:DeleteObject"},
}
"""Requests whose permission has another name."""
_IN_TRANSACTIONS = {f"dynamodb:{name}" for name in ("PutItem", "DeleteItem", "ConditionCheckItem")}
"""What ``Database.transact`` sends."""


def needed(requests: Iterable[str]) -> set[str]:
    """Actions of IAM for requests as ``glue_jobs.shell.request_counts`` counts them (``s3:HeadObject``)."""
    found: set[str] = set()
    for request in requests:
        service, _, operation = request.partition(":")
        if service == "s3":
            found |= _S3.get(operation, {request})
        elif operation == "TransactWriteItems":
            found |= _IN_TRANSACTIONS
        else:
            found.add(request)
    return found


def granted(template: dict[str, Any], role: str) -> set[str]:
    """Actions that a role has by its own policies, without those that all jobs have."""
    policies = template["Resources"][role]["Properties"]["Policies"]
    return {action for policy in policies for each in policy["PolicyDocument"]["Statement"] for action in _listed(each["Action"])}


def granted_to_all(template: dict[str, Any]) -> set[str]:
    """Actions that every job has: its code, its settings, its summary, its metrics."""
    statements = template["Resources"]["JobsPolicy"]["Properties"]["PolicyDocument"]["Statement"]
    return {action for each in statements if "Sid" in each for action in _listed(each["Action"])}


def _listed(value: Any) -> list[str]:
    return value if isinstance(value, list) else [value]
