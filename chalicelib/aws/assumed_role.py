"""Clients of a bucket in another account: credentials of an assumed role, and the bucket's owner in each call."""

from __future__ import annotations

import json
from base64 import b64encode
from hashlib import md5
from typing import Any

import boto3
from botocore.credentials import CredentialProvider, CredentialResolver, DeferredRefreshableCredentials
from botocore.session import Session

SESSION_NAME = "runlake-pipeline-files"
_OBJECT_ACTIONS = ("s3:GetObject", "s3:PutObject", "s3:DeleteObject", "s3:AbortMultipartUpload")


def assumed_session(sts: Any, role: str, bucket: str) -> Any:
    """A session of boto3 with a role's credentials, limited to a bucket by the session's policy, regardless of the role's own. The
    role is assumed at the first call, and again before the credentials end. ``sts``: a client with the process's credentials."""

    def assume() -> dict[str, str]:
        answer = sts.assume_role(RoleArn=role, RoleSessionName=SESSION_NAME, Policy=session_policy(role, bucket))["Credentials"]
        return {
            "access_key": answer["AccessKeyId"],
            "secret_key": answer["SecretAccessKey"],
            "token": answer["SessionToken"],
            "expiry_time": answer["Expiration"].isoformat(),
        }

    class Assumed(CredentialProvider):  # type: ignore[misc]  # untyped
        METHOD = "runlake-assumed-role"

        def load(self) -> Any:
            return DeferredRefreshableCredentials(assume, self.METHOD)

    session = Session()
    session.register_component("credential_provider", CredentialResolver([Assumed()]))
    return boto3.Session(botocore_session=session)


def session_policy(role: str, bucket: str) -> str:
    """What the handler, reading, retention, deletion and repair do with a bucket. A session has at most what its role and this
    policy both allow."""
    arn = f"arn:{role.split(':')[1]}:s3:::{bucket}"
    statements = [
        {"Effect": "Allow", "Action": _OBJECT_ACTIONS, "Resource": f"{arn}/*"},
        {"Effect": "Allow", "Action": "s3:ListBucket", "Resource": arn},
    ]
    return json.dumps({"Version": "2012-10-17", "Statement": statements}, separators=(",", ":"))


def expect_owner(client: Any, owner: str) -> Any:
    """The client, with the bucket's owner in each call that can have it: S3 answers 403 if the bucket belongs to another account.
    And with the MD5 of what is written, without which S3 refuses writes to a bucket with Object Lock."""

    def add(params: dict[str, Any], model: Any, **_: Any) -> None:  # as the caller has them: later bodies are streams
        members = model.input_shape.members
        if owner:
            params |= {name: owner for name in ("ExpectedBucketOwner", "ExpectedSourceBucketOwner") if name in members}
        if "ContentMD5" in members and isinstance(params.get("Body"), bytes):
            params["ContentMD5"] = b64encode(md5(params["Body"], usedforsecurity=False).digest()).decode()

    client.meta.events.register("provide-client-params.s3", add)
    return client
