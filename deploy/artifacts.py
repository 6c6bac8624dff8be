"""The packaged template and its code, uploaded under their digests for CloudFormation to read.

A bucket's name is global and easy to guess, so somebody else may own the one that a stage names, with a policy that lets us in and any
object under the digest that we are going to ask for. Two rules keep such bytes out: every call names the account that must own the
bucket, and every object is sent again with its checksum, whatever is there under its key.
"""

from __future__ import annotations

import base64
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
    """Upload both to the bucket ``stage.artifacts`` of the account ``stage.artifacts_owner``; make the bucket if there is none. Raises
    DeployError when another account owns it, and then nothing was sent."""
    bucket = ArtifactsBucket(s3, stage.artifacts, stage.artifacts_owner)
    bucket.ensure(region)
    key = bucket.put(code.read_bytes(), ".zip")
    document: dict[str, Any] = yaml.safe_load(template.read_text())
    for resource in document["Resources"].values():
        if resource["Type"] == "AWS::Serverless::Function":
            resource["Properties"]["CodeUri"] = f"s3://{stage.artifacts}/{key}"
    shift(document, stage.api_deployment)
    name = bucket.put(yaml.safe_dump(document, sort_keys=True).encode(), ".yaml")
    endpoint = str(s3.meta.endpoint_url).rstrip("/")
    return Uploaded(f"{endpoint}/{stage.artifacts}/{name}", frozenset(document["Parameters"]))


class ArtifactsBucket:
    """A bucket of one account; no call reaches a bucket of another."""

    def __init__(self, s3: Any, name: str, owner: str) -> None:
        self._s3, self._name = s3, name
        self._address = {"Bucket": name, "ExpectedBucketOwner": owner}

    def ensure(self, region: str) -> None:
        """Make the bucket, private, if there is none: going back needs what was deployed before, so nothing in it expires. Raises
        DeployError."""
        try:
            self._s3.head_bucket(**self._address)
        except ClientError as error:
            if error.response["ResponseMetadata"]["HTTPStatusCode"] != 404:
                raise DeployError(
                    f"the artifacts' bucket cannot be used, or another account owns it; name another with BUCKET= bucket={self._name} "
                    f"owner={self._address['ExpectedBucketOwner']}"
                ) from error
            self._create(region)

    def put(self, body: bytes, suffix: str) -> str:
        """Send ``body`` and return its key, which is its digest. An object that is there under the key is replaced: it may be anything."""
        digest = hashlib.sha256(body)
        key = digest.hexdigest() + suffix
        checksum = base64.b64encode(digest.digest()).decode()
        self._s3.put_object(**self._address, Key=key, Body=body, ChecksumSHA256=checksum)
        return key

    def _create(self, region: str) -> None:
        where = {} if region == "us-east-1" else {"CreateBucketConfiguration": {"LocationConstraint": region}}
        self._s3.create_bucket(Bucket=self._name, **where)
        self._s3.put_public_access_block(
            **self._address,
            PublicAccessBlockConfiguration={
                "BlockPublicAcls": True, "IgnorePublicAcls": True, "BlockPublicPolicy": True, "RestrictPublicBuckets": True,
            },
        )  # fmt: skip
