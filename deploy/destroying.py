"""Taking a stage down. The buckets stay, whatever is in them, unless it is said twice that they are to go."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from botocore.exceptions import ClientError

from deploy.change_sets import Stacks
from deploy.errors import DeployError

BUCKETS = ("BucketName", "ArchiveBucketName", "JobsBucketName", "DatasetBucketName")
"""Outputs that name what a deleted stack leaves."""


def destroy(stacks: Stacks, s3: Any, stack: str, *, with_data: bool, ask: Callable[[str], str]) -> list[str]:
    """Delete a stack; the buckets that are left. ``ask`` gets what is typed. Raises DeployError, and then nothing was deleted."""
    outputs = stacks.outputs(stack)
    if not stacks.find(stack):
        raise DeployError(f"there is no such stack: stack={stack}")
    buckets = [outputs[name] for name in BUCKETS if name in outputs]
    _confirm(f"This deletes the stack {stack} with all of its tables; the buckets {'go too' if with_data else 'stay'}.", stack, ask)
    if with_data:
        _confirm(f"This deletes every log and every file, for good, in {', '.join(buckets)}.", f"delete the data of {stack}", ask)
    stacks.delete(stack)
    if not with_data:
        return buckets
    for bucket in buckets:
        _empty_and_delete(s3, bucket)
    return []


def _confirm(what: str, words: str, ask: Callable[[str], str]) -> None:
    if ask(f"{what}\nType “{words}” to go on: ").strip() != words:
        raise DeployError("nothing was deleted")


def _empty_and_delete(s3: Any, bucket: str) -> None:
    """Every version, every upload that was begun."""
    for upload in (each for page in _pages(s3, "list_multipart_uploads", bucket) for each in page.get("Uploads", ())):
        s3.abort_multipart_upload(Bucket=bucket, Key=upload["Key"], UploadId=upload["UploadId"])
    for page in _pages(s3, "list_object_versions", bucket):
        rows = [*page.get("Versions", ()), *page.get("DeleteMarkers", ())]
        if rows:
            gone = [{"Key": row["Key"], "VersionId": row["VersionId"]} for row in rows]
            s3.delete_objects(Bucket=bucket, Delete={"Objects": gone, "Quiet": True})
    try:
        s3.delete_bucket(Bucket=bucket)
    except ClientError as error:
        raise DeployError(f"the stack is gone, a bucket is not, begin again by hand: bucket={bucket} error={error}") from error


def _pages(s3: Any, operation: str, bucket: str) -> Any:
    return s3.get_paginator(operation).paginate(Bucket=bucket)
