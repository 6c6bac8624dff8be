"""Deletes a stage's stack. Buckets and their content remain unless their deletion is confirmed separately."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from botocore.exceptions import ClientError

from deploy.change_sets import Stacks
from deploy.errors import DeployError


@dataclass(frozen=True, slots=True)
class Clients:
    """Boto3 clients; ``account``: the account that must own the buckets."""

    s3: Any
    dynamodb: Any
    account: str

    def address(self, bucket: str) -> dict[str, str]:
        """A bucket and its owner, as arguments of S3's operations."""
        return {"Bucket": bucket, "ExpectedBucketOwner": self.account}


def destroy(stacks: Stacks, clients: Clients, stack: str, *, with_data: bool, ask: Callable[[str], str]) -> list[str]:
    """Delete a stack, unless it is deleted already, and return the remaining buckets. With ``with_data``, delete these too. ``ask``
    prints a question and returns the typed answer. When it is repeated, it goes on where it was stopped. Raises DeployError if there
    was no such stack within 90 days, if it is protected, or if a confirmation differs; nothing is deleted then."""
    described = stacks.find(stack)
    ids = [described["StackId"]] if described else stacks.deleted(stack)
    if not ids:
        raise DeployError(f"there is no such stack: stack={stack}")
    if described and described.get("EnableTerminationProtection"):
        raise DeployError(f'the stack is protected: deploy its stage with "protected": false first stack={stack}')
    buckets = [bucket for id_ in ids for bucket in stacks.buckets(id_) if _is_of(clients, bucket, id_)]
    if described:
        what = f"This deletes the stack {stack} with all of its tables; the buckets {'go too' if with_data else 'stay'}."
        _confirm(what, stack, ask)
    if with_data and buckets:
        _confirm(f"This deletes every log and every file, for good, in {', '.join(buckets)}.", f"delete the data of {stack}", ask)
    if described:
        for table in stacks.tables(stack):
            _unprotect(clients.dynamodb, table)
        stacks.delete(described["StackId"])
    if not with_data:
        return buckets
    for bucket in buckets:
        _empty_and_delete(clients.s3, clients.address(bucket))
    return []


def _is_of(clients: Clients, bucket: str, stack_id: str) -> bool:
    """Whether the bucket is there and no other stack has made it since."""
    try:
        tags = clients.s3.get_bucket_tagging(**clients.address(bucket))["TagSet"]
    except ClientError as error:
        code = str(error.response["Error"]["Code"])
        if code not in ("NoSuchBucket", "NoSuchTagSet"):
            raise
        return code == "NoSuchTagSet"
    made_by: dict[str, str] = {tag["Key"]: tag["Value"] for tag in tags}
    return made_by.get("aws:cloudformation:stack-id", stack_id) == stack_id


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
            for failed in s3.delete_objects(**bucket, Delete={"Objects": gone, "Quiet": True}).get("Errors", ()):
                raise DeployError(
                    f"the stack is deleted, an object is not: bucket={bucket['Bucket']} key={failed['Key']} error={failed['Code']}"
                )
    try:
        s3.delete_bucket(**bucket)
    except ClientError as error:
        raise DeployError(
            f"the stack is deleted, a bucket is not; repeat the command: bucket={bucket['Bucket']} error={error}"
        ) from error


def _pages(s3: Any, operation: str, bucket: Mapping[str, str]) -> Any:
    return s3.get_paginator(operation).paginate(**bucket)
