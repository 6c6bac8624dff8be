"""What CloudFormation is given: the packaged template with its code uploaded, under names that are digests."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml
from botocore.exceptions import ClientError

from deploy.canary import shift
from deploy.errors import DeployError
from deploy.stages import Stage


@dataclass(frozen=True, slots=True)
class Uploaded:
    """``url`` is what CloudFormation reads; ``parameters``: the names that the template has."""

    url: str
    parameters: frozenset[str]


def upload(s3: Any, stage: Stage, region: str, template: Path, code: Path) -> Uploaded:
    """Upload both. What is there already is the same, and not sent again. Raises DeployError."""
    bucket = stage.artifacts
    _make_bucket(s3, bucket, region)
    key = _put(s3, bucket, code.read_bytes(), ".zip")
    told: dict[str, Any] = yaml.safe_load(template.read_text())
    for resource in told["Resources"].values():
        if resource["Type"] == "AWS::Serverless::Function":
            resource["Properties"]["CodeUri"] = f"s3://{bucket}/{key}"
    shift(told, stage.api_deployment)
    name = _put(s3, bucket, yaml.safe_dump(told, sort_keys=True).encode(), ".yaml")
    endpoint = str(s3.meta.endpoint_url).rstrip("/")
    return Uploaded(f"{endpoint}/{bucket}/{name}", frozenset(told["Parameters"]))


def _make_bucket(s3: Any, bucket: str, region: str) -> None:
    """Private and kept for a while: whoever goes back needs what was deployed before."""
    try:
        s3.head_bucket(Bucket=bucket)
        return
    except ClientError as error:
        if error.response["ResponseMetadata"]["HTTPStatusCode"] != 404:
            raise DeployError(f"the bucket of the artifacts is not yours to use: bucket={bucket}") from error
    where = {} if region == "us-east-1" else {"CreateBucketConfiguration": {"LocationConstraint": region}}
    s3.create_bucket(Bucket=bucket, **where)
    s3.put_public_access_block(
        Bucket=bucket,
        PublicAccessBlockConfiguration={
            "BlockPublicAcls": True, "IgnorePublicAcls": True, "BlockPublicPolicy": True, "RestrictPublicBuckets": True,
        },
    )  # fmt: skip


def _put(s3: Any, bucket: str, body: bytes, suffix: str) -> str:
    key = hashlib.sha256(body).hexdigest() + suffix
    try:
        s3.head_object(Bucket=bucket, Key=key)
    except ClientError:
        s3.put_object(Bucket=bucket, Key=key, Body=body)
    return key
