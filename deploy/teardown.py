"""Taking a stage down. The buckets stay, whatever is in them, unless it is said twice that they are to go."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from botocore.exceptions import ClientError

from deploy.change_sets import Stacks
from deploy.errors import DeployError

BUCKETS = ("BucketName", "ArchiveBucketName", "JobsBucketName", "DatasetBucketName")
"""Outputs that name what a deleted stack leaves."""


@dataclass(frozen=True, slots=True)
class Clients:
    """Of boto3; ``account``: the number of the account that must own the buckets."""

    s3: Any
    dynamodb: Any
    account: str


def destroy(stacks: Stacks, clients: Clients, stack: str, *, with_data: bool, ask: Callable[[str], str]) -> list[str]:
    """Delete a stack; return the buckets that remain. ``ask`` prints a question and returns what is typed. Raises DeployError when there is no
    such stack, it is protected or the words are not typed; then nothing was deleted."""
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
    """CloudFormation cannot delete a table that DynamoDB protects. One that is gone already does not matter."""
    try:
        if dynamodb.describe_table(TableName=table)["Table"].get("DeletionProtectionEnabled"):
            dynamodb.update_table(TableName=table, DeletionProtectionEnabled=False)
    except dynamodb.exceptions.ResourceNotFoundException:
        return


def _confirm(what: str, words: str, ask: Callable[[str], str]) -> None:
    if ask(f"{what}\nType “{words}” to go on: ").strip() != words:
        raise DeployError("nothing was deleted")


def _empty_and_delete(s3: Any, bucket: Mapping[str, str]) -> None:
    """Every version, every upload that was begun. ``bucket``: its name and its owner, as S3's operations take them."""
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
            f"the stack is gone, a bucket is not, delete it by hand: bucket={bucket['Bucket']} error={error}"
        ) from error


def _pages(s3: Any, operation: str, bucket: Mapping[str, str]) -> Any:
    return s3.get_paginator(operation).paginate(**bucket)
