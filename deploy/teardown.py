"""Deletes a stage's stack. Buckets and their content remain unless their deletion is confirmed separately."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from botocore.exceptions import ClientError

from deploy.change_sets import Stacks
from deploy.errors import DeployError

BUCKETS = ("BucketName", "ArchiveBucketName", "JobsBucketName", "DatasetBucketName")
"""Outputs with the names of the buckets, which a deleted stack leaves."""


@dataclass(frozen=True, slots=True)
class Clients:
    """Boto3 clients; ``account``: the account that must own the buckets."""

    s3: Any
    dynamodb: Any
    account: str


def destroy(stacks: Stacks, clients: Clients, stack: str, *, with_data: bool, ask: Callable[[str], str]) -> list[str]:
    """Delete a stack and return the remaining buckets. ``ask`` prints a question and returns the typed answer. Raises DeployError
    if the stack does not exist, is protected, or a confirmation differs; nothing is deleted then."""
    described, outputs = stacks.find(stack), stacks.outputs(stack)
    if not described:
        raise DeployError(f"there is no such stack: stack={stack}")
    if described.get("EnableTerminationProtection"):
        raise DeployError(f'the stack is protected: deploy its stage with "protected": false first stack={stack}')
    buckets = [outputs[name] for name in BUCKETS if name in outputs]
    _confirm(f"This deletes the stack {stack} with all of its tables; the buckets {'go too' if with_data else 'stay'}.", stack, ask)
    if with_data:
        _confirm(f"This deletes every log and every file, for good, in {', '.join(buckets)}.", f"delete the data of {stack}", ask)
    for table in stacks.tables(stack):
        _unprotect(clients.dynamodb, table)
    stacks.delete(stack)
    if not with_data:
        return buckets
    for bucket in buckets:
        _empty_and_delete(clients.s3, {"Bucket": bucket, "ExpectedBucketOwner": clients.account})
    return []


def _unprotect(dynamodb: Any, table: str) -> None:
    """CloudFormation cannot delete a table with DynamoDB's deletion protection. A missing table is ignored."""
    try:
        if dynamodb.describe_table(TableName=table)["Table"].get("DeletionProtectionEnabled"):
            dynamodb.update_table(TableName=table, DeletionProtectionEnabled=False)
    except dynamodb.exceptions.ResourceNotFoundException:
        return


def _confirm(what: str, words: str, ask: Callable[[str], str]) -> None:
    if ask(f"{what}\nType “{words}” to go on: ").strip() != words:
        raise DeployError("nothing was deleted")


def _empty_and_delete(s3: Any, bucket: Mapping[str, str]) -> None:
    """Delete every version and every incomplete upload. ``bucket``: its name and owner, as arguments of S3's operations."""
    for upload in (each for page in _pages(s3, "list_multipart_uploads", bucket) for each in page.get("Uploads", ())):
        s3.abort_multipart_upload(**bucket, Key=upload["Key"], UploadId=upload["UploadId"])
    for page in _pages(s3, "list_object_versions", bucket):
        rows = [*page.get("Versions", ()), *page.get("DeleteMarkers", ())]
        if rows:
            gone = [{"Key": row["Key"], "VersionId": row["VersionId"]} for row in rows]
            s3.delete_objects(**bucket, Delete={"Objects": gone, "Quiet": True})
    try:
        s3.delete_bucket(**bucket)
    except ClientError as error:
        raise DeployError(
            f"the stack is deleted, a bucket is not, delete it manually: bucket={bucket['Bucket']} error={error}"
        ) from error


def _pages(s3: Any, operation: str, bucket: Mapping[str, str]) -> Any:
    return s3.get_paginator(operation).paginate(**bucket)
