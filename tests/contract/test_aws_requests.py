"""Requests to S3: encryption and storage class on writes that store, conditions, and no unnecessary headers or requests."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from botocore.exceptions import ReadTimeoutError

from chalicelib.aws.clients import CONNECT_TIMEOUT_S, LONG_READ_TIMEOUT_S, MAX_ATTEMPTS, READ_TIMEOUT_S, make_client
from chalicelib.aws.object_store import Encryption, S3ObjectStore, content_disposition
from chalicelib.errors import UnavailableError
from chalicelib.ports import ABSENT, Condition, PutOptions
from local.emulator import CREDENTIALS, REGION
from tests.contract.canned import NOWHERE, answer, cut_off

ETAG = {"ETag": '"0123"'}
STORED = PutOptions({"first-line": "7"}, storage_class="STANDARD_IA", tags={"a b": "c&d"})
SSE = "x-amz-server-side-encryption"
CONNECTOR_WAITS_S = 10
LONGEST_PAUSE_S = 1
"""Of botocore's standard mode before a second attempt."""


@pytest.mark.parametrize(
    ("encryption", "algorithm", "key"),
    [(Encryption(), "AES256", None), (Encryption("aws:kms"), "aws:kms", None), (Encryption("aws:kms", "k"), "aws:kms", "k"),
     (Encryption(None), None, None)],
)  # fmt: skip
def test_what_is_stored_is_encrypted(encryption: Encryption, algorithm: str | None, key: str | None) -> None:
    created = answer(200, b"<R><UploadId>id</UploadId></R>")
    with cut_off("s3", answer(200, headers=ETAG), created) as (client, network):
        store = S3ObjectStore(client, "bucket", encryption)
        writes: list[Callable[[], str]] = [lambda: store.put("k", b"x", STORED), lambda: store.create_multipart("k", STORED)]
        for write in writes:
            write()
            assert (network.header(SSE), network.header(f"{SSE}-aws-kms-key-id")) == (algorithm, key)
            assert network.header("x-amz-storage-class") == "STANDARD_IA"
            assert (network.header("x-amz-meta-first-line"), network.header("x-amz-tagging")) == ("7", "a+b=c%26d")


def test_conditions() -> None:
    with cut_off("s3", answer(200, headers=ETAG)) as (client, network):
        store = S3ObjectStore(client, "bucket")
        for condition, if_none_match, if_match in ((ABSENT, "*", None), (Condition(if_match="0123"), None, '"0123"')):
            store.put("k", b"x", STORED, condition)
            assert (network.header("If-None-Match"), network.header("If-Match")) == (if_none_match, if_match)
        assert store.put("k", b"x", STORED) == "0123"
        assert (network.header("If-None-Match"), network.header("If-Match")) == (None, None)


def test_put_has_no_redundant_headers() -> None:
    """No checksum in addition to the signature's, and no wait for a 100 Continue."""
    with cut_off("s3", answer(200, headers=ETAG)) as (client, network):
        S3ObjectStore(client, "bucket").put("a b/ü", b"x", PutOptions())
        (request,) = network.requests
        assert (request.method, request.url, request.body.read()) == ("PUT", f"{NOWHERE}/bucket/a%20b/%C3%BC", b"x")
        names = {name.lower() for name in request.headers}
        assert not {name for name in names if "checksum" in name} and not names & {"expect", "content-md5", "transfer-encoding"}


def test_a_copied_part_names_its_source_whole() -> None:
    said = answer(200, b'<CopyPartResult><ETag>"89ab"</ETag></CopyPartResult>')
    with cut_off("s3", said) as (client, network):
        store = S3ObjectStore(client, "bucket")
        assert store.copy_part("k", "id", 3, "a%2Fb/ü c", 5, 10, if_match="0123") == "89ab"
        assert network.header("x-amz-copy-source") == "bucket/a%252Fb/%C3%BC%20c"
        assert network.header("x-amz-copy-source-range") == "bytes=5-9"
        assert network.header("x-amz-copy-source-if-match") == '"0123"'


def test_a_service_that_never_answers_is_given_up_before_the_connector_gives_us_up() -> None:
    with cut_off("s3", ReadTimeoutError(endpoint_url=NOWHERE)) as (client, network):
        with pytest.raises(UnavailableError):
            S3ObjectStore(client, "bucket").put("k", b"x", PutOptions(), ABSENT)
        assert len(network.requests) == MAX_ATTEMPTS
        config = client.meta.config
        assert (config.connect_timeout, config.read_timeout) == (CONNECT_TIMEOUT_S, READ_TIMEOUT_S)
    assert len(network.requests) * READ_TIMEOUT_S + LONGEST_PAUSE_S < CONNECTOR_WAITS_S


def test_what_s3_needs_time_for_goes_by_the_patient_client() -> None:
    copied = answer(200, b'<CopyPartResult><ETag>"1"</ETag></CopyPartResult>')
    completed = answer(200, b'<R><ETag>"2"</ETag></R>')
    with cut_off("s3", answer(200, headers=ETAG)) as (hasty, network), cut_off("s3", copied, completed) as (client, patient):
        made: list[Any] = []

        def make() -> Any:
            made.append(client)
            return client

        store = S3ObjectStore(hasty, "bucket", long_timeout_client=make)
        store.put("k", b"x", PutOptions())
        store.upload_part("k", "id", 1, b"x")
        assert made == [], "a function that only appends never makes it"
        store.copy_part("k", "id", 1, "source", 0, 9, if_match="0")
        store.complete_multipart("k", "id", [(1, "1")])
        assert (len(made), len(network.requests), len(patient.requests)) == (1, 2, 2)


def test_a_patient_client_waits() -> None:
    client = make_client("s3", region=REGION, read_timeout_s=LONG_READ_TIMEOUT_S, **CREDENTIALS)
    assert client.meta.config.read_timeout == LONG_READ_TIMEOUT_S > 60
    client.close()


@pytest.mark.parametrize("read", ["get", "head", "list"])
def test_a_read_is_one_request(read: str) -> None:
    headers = ETAG | {"Last-Modified": "Sat, 21 Nov 2026 03:12:45 GMT", "x-amz-meta-a": "1"}
    listing = b"<ListBucketResult><IsTruncated>false</IsTruncated></ListBucketResult>"
    with cut_off("s3", answer(200, listing if read == "list" else b"", headers)) as (client, network):
        getattr(S3ObjectStore(client, "bucket"), read)("k")
        assert len(network.requests) == 1


@pytest.mark.parametrize(
    ("filename", "header"),
    [
        ("run-1.txt", "attachment; filename=\"run-1.txt\"; filename*=UTF-8''run-1.txt"),
        ('a "b";c\\d.txt', "attachment; filename=\"a _b__c_d.txt\"; filename*=UTF-8''a%20%22b%22%3Bc%5Cd.txt"),
        ("ü/..%2F\r\n", "attachment; filename=\"__.._2F__\"; filename*=UTF-8''%C3%BC%2F..%252F%0D%0A"),
    ],
)
def test_an_attachments_name(filename: str, header: str) -> None:
    """RFC 6266: the plain name for old readers, the true one in UTF-8; neither can break out of its header."""
    assert content_disposition(filename) == header


def test_a_link_makes_no_request() -> None:
    with cut_off("s3", answer(500)) as (client, network):
        url = S3ObjectStore(client, "bucket").presign_get("k", expires_s=60, filename="k.txt", content_type="text/plain")
        assert network.requests == [] and "X-Amz-Expires=60" in url and "X-Amz-Algorithm=AWS4-HMAC-SHA256" in url
