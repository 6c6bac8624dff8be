"""A bucket in another account: the role is assumed with a policy for the bucket, and each call names the owner."""

from __future__ import annotations

import json
from base64 import b64encode
from contextlib import closing
from datetime import UTC, datetime, timedelta
from hashlib import md5
from unittest.mock import Mock

import pytest

from chalicelib import composition
from chalicelib.aws.assumed_role import assumed_session, expect_owner, session_policy
from chalicelib.aws.clients import make_client
from chalicelib.aws.object_store import S3ObjectStore
from chalicelib.errors import InvalidConfigurationError, InvalidInputError
from chalicelib.pipelines.files.bucket_location import BucketLocation
from chalicelib.ports import ABSENT, Condition, PutOptions
from tests.contract.canned import NOWHERE, REGION, Network, answer
from tests.contract.conftest import client_of
from tests.files_harness import FilesHarness, put
from tests.functional.gateway import installed
from tests.support.clock import ManualClock
from tests.support.object_store import InMemoryObjectStore
from tests.world import World

ROLE, OWNER = "arn:aws:iam::111122223333:role/runlake", "111122223333"
HEADERS = {"ETag": '"e"', "Last-Modified": "Sat, 21 Nov 2026 03:12:45 GMT"}
ANY_ANSWER = answer(
    200,
    b"<R><UploadId>id</UploadId><ETag>e</ETag><IsTruncated>false</IsTruncated></R>",
    HEADERS,
)


def sts() -> Mock:
    """Credentials that end after an hour."""
    ends = datetime.now(UTC) + timedelta(hours=1)
    keys = {"AccessKeyId": "ASSUMED", "SecretAccessKey": "s", "SessionToken": "t", "Expiration": ends}
    return Mock(assume_role=Mock(return_value={"Credentials": keys}))


@pytest.mark.behavior("Each call for a handler's bucket with a role names the bucket's owner.")
def test_each_call_names_the_owner_with_the_credentials_of_the_role() -> None:
    tokens = sts()
    session = assumed_session(tokens, ROLE, "audit-logs")
    with closing(make_client("s3", region=REGION, endpoint_url=NOWHERE, session=session)) as client:
        network = Network(client, answer(200, b"1", HEADERS), ANY_ANSWER)
        store = S3ObjectStore(expect_owner(client, OWNER), "audit-logs")
        assert tokens.assume_role.call_count == 0
        store.get("k", if_match="e")
        store.put("k", b"one", PutOptions(), ABSENT)
        store.upload_part("k", "id", 2, b"two")
        for request, body in zip(network.requests[1:], (b"one", b"two"), strict=True):
            assert request.headers["Content-MD5"].decode() == b64encode(md5(body).digest()).decode()
        store.head("k")
        store.list("files/")
        store.create_multipart("k", PutOptions())
        store.copy_part("k", "id", 1, "k", 0, 3, if_match="e")
        assert network.header("x-amz-source-expected-bucket-owner") == OWNER
        store.complete_multipart("k", "id", [(1, "e"), (2, "e")], Condition(if_match="e"))
        store.abort_multipart("k", "id")
        store.delete("k", if_match="e")
        assert len(network.requests) == 10
        for request in network.requests:
            assert str(request.headers["x-amz-expected-bucket-owner"], "ascii") == OWNER
            assert b"Credential=ASSUMED/" in request.headers["Authorization"]
    tokens.assume_role.assert_called_once()
    about = tokens.assume_role.call_args.kwargs
    assert (about["RoleArn"], about["Policy"]) == (ROLE, session_policy(ROLE, "audit-logs"))


def test_only_listed_roles_are_assumed_and_stores_are_built_once() -> None:
    asked = list[BucketLocation]()

    def build(location: BucketLocation) -> InMemoryObjectStore:
        asked.append(location)
        return InMemoryObjectStore(ManualClock(0))

    other = ROLE.replace("runlake", "other")
    with installed(World(), pipeline_roles=f"{other}, {ROLE}"):
        services = composition.services().with_ports(located_store=build)
        listed, own = BucketLocation("audit-logs", ROLE, OWNER), BucketLocation(services.settings.bucket_name, "", OWNER)
        for location in (listed, own, listed):
            services.located_bucket(location)
        assert asked == [listed, own]
        assert services.located_bucket(BucketLocation()) is services.store
        with pytest.raises(InvalidConfigurationError, match="set RUNLAKE_PIPELINE_ROLES"):
            services.located_bucket(BucketLocation("audit-logs", ROLE + "2", OWNER))
        for unknown in (BucketLocation("audit-logs"), BucketLocation("audit-logs", "", OWNER)):
            with pytest.raises(InvalidInputError):
                services.located_bucket(unknown)


def test_files_grow_in_a_bucket_with_a_role(endpoint_url: str | None, bucket: str) -> None:
    """On emulators of STS and S3, which enforce neither policies nor owners."""
    if endpoint_url is None:
        pytest.skip("no STS in memory")
    with closing(client_of("sts", endpoint_url)) as tokens:
        owner = tokens.get_caller_identity()["Account"]
        session = assumed_session(tokens, ROLE.replace(OWNER, owner), bucket)
        with closing(make_client("s3", region=REGION, endpoint_url=endpoint_url, session=session)) as client:
            site = FilesHarness()
            store = S3ObjectStore(expect_owner(client, owner), bucket)
            for number in range(2):
                put(site, site.handler(store, path="{level}.log"), number)
            (row,) = site.rows()
            assert [json.loads(line)["line"] for line in store.get(row.object_key).body.splitlines()] == [0, 1]
            assert store.head(row.object_key).metadata["base"] == "files"
            store.delete(row.object_key, if_match=row.contents.etag)
