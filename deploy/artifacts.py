"""Uploads what ``make package`` builds: the template and the functions' code under their digests, the jobs' code under its version.

Bucket names are global and predictable, so another account may own the bucket that a stage names, with a policy that admits us and
an arbitrary object under the key that CloudFormation or Glue will read. Three rules prevent such content: every call states the
account that must own the bucket; an object is uploaded again unless S3 has verified that it has our checksum; and the jobs' roles
name the account too.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml
from botocore.exceptions import ClientError

from deploy.canary import shift
from deploy.errors import DeployError
from deploy.stages import Stage


@dataclass(frozen=True, slots=True)
class Packaged:
    """``code``: zip of the functions; ``jobs``: files of the jobs' code, of one version."""

    template: Path
    code: Path
    jobs: Sequence[Path]
    jobs_version: str


@dataclass(frozen=True, slots=True)
class Uploaded:
    """``url``: the template's URL for CloudFormation; ``parameters``: the template's parameter names; ``values``: of those that
    say where the jobs' code is."""

    url: str
    parameters: frozenset[str]
    values: Mapping[str, str]


def upload(s3: Any, stage: Stage, region: str, packaged: Packaged) -> Uploaded:
    """Upload it to the bucket ``stage.artifacts`` of the account ``stage.artifacts_owner``; create the bucket if it does not
    exist. Objects that are there are not sent again. Raises DeployError if another account owns the bucket; nothing is sent then."""
    bucket = ArtifactsBucket(s3, stage.artifacts, stage.artifacts_owner)
    bucket.ensure(region)
    key = bucket.put_by_digest(packaged.code.read_bytes(), ".zip")
    for path in packaged.jobs:
        bucket.put(f"jobs/{packaged.jobs_version}/{path.name}", path.read_bytes())
    document: dict[str, Any] = yaml.safe_load(packaged.template.read_text())
    for resource in document["Resources"].values():
        if resource["Type"] == "AWS::Serverless::Function":
            resource["Properties"]["CodeUri"] = f"s3://{stage.artifacts}/{key}"
    shift(document, stage.api_deployment)
    name = bucket.put_by_digest(yaml.safe_dump(document, sort_keys=True).encode(), ".yaml")
    endpoint = str(s3.meta.endpoint_url).rstrip("/")
    values = {"ArtifactsBucket": stage.artifacts, "ArtifactsOwner": stage.artifacts_owner, "JobsVersion": packaged.jobs_version}
    return Uploaded(f"{endpoint}/{stage.artifacts}/{name}", frozenset(document["Parameters"]), values)


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

    def put_by_digest(self, body: bytes, suffix: str) -> str:
        """Upload ``body`` and return its key, the digest."""
        digest = hashlib.sha256(body)
        key = digest.hexdigest() + suffix
        self._put(key, body, digest.digest())
        return key

    def put(self, key: str, body: bytes) -> None:
        """Upload ``body`` unless the object has its checksum. Replaces any other content."""
        self._put(key, body, hashlib.sha256(body).digest())

    def _put(self, key: str, body: bytes, digest: bytes) -> None:
        checksum = base64.b64encode(digest).decode()
        if not self._has(key, checksum):
            self._s3.put_object(**self._address, Key=key, Body=body, ChecksumSHA256=checksum)

    def _has(self, key: str, checksum: str) -> bool:
        try:
            found = self._s3.head_object(**self._address, Key=key, ChecksumMode="ENABLED")
        except ClientError:  # it is missing, or we may not look
            return False
        return bool(found.get("ChecksumSHA256") == checksum)

    def _create(self, region: str) -> None:
        where = {} if region == "us-east-1" else {"CreateBucketConfiguration": {"LocationConstraint": region}}
        self._s3.create_bucket(Bucket=self._name, **where)
        self._s3.put_public_access_block(
            **self._address,
            PublicAccessBlockConfiguration={
                "BlockPublicAcls": True, "IgnorePublicAcls": True, "BlockPublicPolicy": True, "RestrictPublicBuckets": True,
            },
        )  # fmt: skip
