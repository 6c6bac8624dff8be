"""Uploading template and code: to a bucket of the right account, whatever lies there already."""

from __future__ import annotations

import base64
import hashlib
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import yaml
from botocore.exceptions import ClientError

from deploy.artifacts import Packaged, upload
from deploy.errors import DeployError
from deploy.stages import Stage

OWNER, STRANGER = "111122223333", "999999999999"
BUCKET = "runlake-artifacts-111122223333-eu-west-1"
CODE = b"PK the code"


@dataclass
class S3:
    """As much of S3 as an upload needs. ``owner``: of the bucket, None while there is none."""

    owner: str | None
    objects: dict[str, bytes] = field(default_factory=dict)
    blocked: bool = False
    sent: list[str] = field(default_factory=list)
    meta: Any = field(default_factory=lambda: SimpleNamespace(endpoint_url="https://s3.eu-west-1.amazonaws.com"))

    def head_bucket(self, **asked: str) -> None:
        self._check(**asked)

    def create_bucket(self, Bucket: str, **_: Any) -> None:
        if self.owner:
            raise ClientError({"Error": {"Code": "BucketAlreadyExists", "Message": ""}}, "CreateBucket")
        self.owner = OWNER

    def put_public_access_block(self, PublicAccessBlockConfiguration: dict[str, bool], **asked: str) -> None:
        self._check(**asked)
        self.blocked = all(PublicAccessBlockConfiguration.values())

    def put_object(self, Key: str, Body: bytes, ChecksumSHA256: str, **asked: str) -> None:
        self._check(**asked)
        assert base64.b64decode(ChecksumSHA256) == hashlib.sha256(Body).digest()
        self.objects[Key] = Body
        self.sent.append(Key)

    def head_object(self, Key: str, ChecksumMode: str, **asked: str) -> dict[str, str]:
        self._check(**asked)
        if Key not in self.objects:
            raise ClientError({"Error": {"Code": "404", "Message": ""}}, "HeadObject")
        return {"ChecksumSHA256": base64.b64encode(hashlib.sha256(self.objects[Key]).digest()).decode()}

    def _check(self, *, Bucket: str, ExpectedBucketOwner: str) -> None:
        assert Bucket == BUCKET
        status = 404 if self.owner is None else 200 if self.owner == ExpectedBucketOwner else 403
        if status != 200:
            raise ClientError({"Error": {"Code": str(status), "Message": ""}, "ResponseMetadata": {"HTTPStatusCode": status}}, "x")


def uploaded(s3: S3, folder: Path, owner: str = OWNER) -> dict[str, Any]:
    """Upload a template of one function; the template as CloudFormation reads it."""
    template, code = folder / "sam.yaml", folder / "code.zip"
    template.write_text(
        yaml.safe_dump({"Parameters": {}, "Resources": {"F": {"Type": "AWS::Serverless::Function", "Properties": {}}}})
    )
    code.write_bytes(CODE)
    packaged = Packaged(template, code, jobs=[template, code], jobs_version="v1")
    done = upload(s3, Stage(stack="s", artifacts=BUCKET, artifacts_owner=owner), "eu-west-1", packaged)
    assert done.values == {"ArtifactsBucket": BUCKET, "ArtifactsOwner": owner, "JobsVersion": "v1"}
    prefix = f"https://s3.eu-west-1.amazonaws.com/{BUCKET}/"
    assert done.url.startswith(prefix)
    return dict(yaml.safe_load(s3.objects[done.url.removeprefix(prefix)]))


def test_artifacts_go_to_a_private_bucket_of_the_account(tmp_path: Path) -> None:
    s3 = S3(owner=None)
    template = uploaded(s3, tmp_path)
    address = template["Resources"]["F"]["Properties"]["CodeUri"]
    assert s3.objects[address.removeprefix(f"s3://{BUCKET}/")] == CODE
    assert s3.objects["jobs/v1/code.zip"] == CODE
    assert (s3.owner, s3.blocked) == (OWNER, True)


def test_only_missing_objects_are_sent_again(tmp_path: Path) -> None:
    s3 = S3(owner=OWNER)
    uploaded(s3, tmp_path)
    del s3.objects["jobs/v1/code.zip"]
    s3.sent.clear()
    uploaded(s3, tmp_path)
    assert s3.sent == ["jobs/v1/code.zip"]


def test_bucket_of_another_account_gets_nothing(tmp_path: Path) -> None:
    s3 = S3(owner=STRANGER)
    with pytest.raises(DeployError, match=f"another account owns it.*owner={OWNER}"):
        uploaded(s3, tmp_path)
    assert s3.objects == {}


def test_planted_object_is_replaced(tmp_path: Path) -> None:
    planted = dict.fromkeys((hashlib.sha256(CODE).hexdigest() + ".zip", "jobs/v1/code.zip"), b"somebody else's")
    s3 = S3(owner=OWNER, objects=dict(planted))
    address = uploaded(s3, tmp_path)["Resources"]["F"]["Properties"]["CodeUri"]
    assert s3.objects[address.removeprefix(f"s3://{BUCKET}/")] == s3.objects["jobs/v1/code.zip"] == CODE


def test_stage_can_name_another_owner(tmp_path: Path) -> None:
    """One account holds the artifacts of several."""
    assert uploaded(S3(owner=STRANGER), tmp_path, owner=STRANGER)
