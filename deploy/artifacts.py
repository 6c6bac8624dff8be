"""Uploads the packaged template and its code under their digests, for CloudFormation.

Bucket names are global and predictable, so another account may own the bucket that a stage names, with a policy that admits us and
an arbitrary object under the digest that CloudFormation will read. Two rules prevent such content: every call states the account
that must own the bucket, and every object is uploaded again with its checksum, even if the key exists.
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
    """``url``: the template's URL for CloudFormation; ``parameters``: the template's parameter names."""

    url: str
    parameters: frozenset[str]


def upload(s3: Any, stage: Stage, region: str, template: Path, code: Path) -> Uploaded:
    """Upload both to the bucket ``stage.artifacts`` of the account ``stage.artifacts_owner``; create the bucket if it does not
    exist. Raises DeployError if another account owns it; nothing is sent then."""
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
    """A bucket of one account; no call reaches a bucket of another account."""

    def __init__(self, s3: Any, name: str, owner: str) -> None:
        self._s3, self._name = s3, name
        self._address = {"Bucket": name, "ExpectedBucketOwner": owner}

    def ensure(self, region: str) -> None:
        """Create the bucket, private, if it does not exist. Its objects never expire, because a rollback needs earlier ones. Raises
        DeployError."""
        try:
            self._s3.head_bucket(**self._address)
        except ClientError as error:
            if error.response["ResponseMetadata"]["HTTPStatusCode"] != 404:
                raise DeployError(
                    f"cannot use the bucket of artifacts, or another account owns it; choose another with BUCKET= bucket={self._name} "
                    f"owner={self._address['ExpectedBucketOwner']}"
                ) from error
            self._create(region)

    def put(self, body: bytes, suffix: str) -> str:
        """Upload ``body`` and return its key, the digest. Replaces an existing object, whose content is not trusted."""
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
