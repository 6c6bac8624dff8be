"""Contract of ``ports.ObjectStore``, for all implementations."""

from __future__ import annotations

import threading
from contextlib import closing
from urllib.request import urlopen

import pytest

from chalicelib.aws.object_store import Encryption, S3ObjectStore
from chalicelib.errors import (
    ObjectNotFoundError,
    PreconditionFailedError,
    RangeNotSatisfiableError,
    RunlakeError,
    WriteConflictError,
)
from chalicelib.ports import ABSENT, Condition, Folders, ObjectStore, PutOptions, after_folder
from tests.contract.conftest import MEMORY, client_of
from tests.contract.differences import refused, upload_is_gone
from tests.support.clock import ManualClock
from tests.support.object_store import InMemoryObjectStore

MIB = 1024 * 1024
PLAIN = PutOptions()
FIVE = b"a" * (5 * MIB)
LARGE = b"b" * (5 * MIB + 1)


def put(store: ObjectStore, key: str, body: bytes = b"body") -> str:
    return store.put(key, body, PLAIN)


def test_object_is_read_as_stored(store: ObjectStore) -> None:
    metadata = {"first-line": "0", "session": "00ff", "connector": "host%20name-1", "landmarks": "1f:2e,3:4"}
    etag = store.put("a/key", b"line 1\nline 2\n", PutOptions(metadata))
    found = store.get("a/key")
    assert found.body == b"line 1\nline 2\n"
    assert dict(found.info.metadata) == metadata
    assert (found.info.etag, found.info.size) == (etag, 14)
    head = store.head("a/key")
    assert (head.etag, head.size, dict(head.metadata)) == (etag, 14, metadata)
    assert head.last_modified_ms == found.info.last_modified_ms > 1_600_000_000_000


@pytest.mark.parametrize("key", ["a%2Fb", "a b", "a+b", "a'b\"c", "ünï/語", "a&b=c?d#e", "%2E%2E/x", "a//b"])
def test_keys_are_taken_as_they_are(store: ObjectStore, key: str) -> None:
    put(store, key, key.encode())
    assert store.get(key).body == key.encode()
    assert [found.key for found in store.list(key).objects] == [key]


def test_missing_object_is_an_error(store: ObjectStore) -> None:
    for look in (store.get, store.head):
        with pytest.raises(ObjectNotFoundError):
            look("missing")
    with pytest.raises(ObjectNotFoundError):
        store.get("missing", 0, 10)


def test_ranges(store: ObjectStore) -> None:
    put(store, "k", b"0123456789")
    assert store.get("k", 2, 5).body == b"234"
    assert store.get("k", 2, 5).info.size == 10
    assert store.get("k", 7).body == b"789"
    assert store.get("k", 7, 5000).body == b"789"
    assert store.get("k", 0, 10).body == b"0123456789"
    for start in (10, 11):
        with pytest.raises(RangeNotSatisfiableError):
            store.get("k", start, 20)
    put(store, "empty", b"")
    assert store.get("empty").body == b""
    with pytest.raises(RangeNotSatisfiableError):
        store.get("empty", 0, 1)


def test_a_version_can_be_asked_for(store: ObjectStore) -> None:
    etag = put(store, "k", b"one")
    assert store.get("k", 0, 2, if_match=etag).body == b"on"
    put(store, "k", b"two")
    with pytest.raises(PreconditionFailedError):
        store.get("k", if_match=etag)


def test_conditional_puts(store: ObjectStore) -> None:
    etag = store.put("k", b"one", PLAIN, ABSENT)
    with pytest.raises(PreconditionFailedError):
        store.put("k", b"two", PLAIN, ABSENT)
    newer = store.put("k", b"three", PLAIN, Condition(if_match=etag))
    with pytest.raises(PreconditionFailedError):
        store.put("k", b"four", PLAIN, Condition(if_match=etag))
    assert store.get("k").body == b"three" and store.head("k").etag == newer


def test_a_condition_on_a_key_that_is_gone_is_false(store: ObjectStore) -> None:
    """S3 answers 404 here, moto 412."""
    with pytest.raises(PreconditionFailedError):
        store.put("gone", b"x", PLAIN, Condition(if_match="0" * 32))
    with pytest.raises(ObjectNotFoundError):
        store.head("gone")


def test_one_of_sixteen_takes_a_key(store: ObjectStore) -> None:
    start, won, lost = threading.Barrier(16), [], []

    def take(number: int) -> None:
        start.wait()
        try:
            won.append((store.put("segment", str(number).encode(), PLAIN, ABSENT), number))
        except PreconditionFailedError:
            lost.append(number)

    threads = [threading.Thread(target=take, args=(number,)) for number in range(16)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert (len(won), len(lost)) == (1, 15)
    assert store.get("segment").body == str(won[0][1]).encode()


def test_listings_are_in_the_order_of_utf8_and_begin_behind_a_key(store: ObjectStore) -> None:
    keys = ["p/a", "p/b/1", "p/b/2", "p/z", "p/ä", "p/\uffee", "p/\U0001f600", "q/a"]
    for key in reversed(keys):
        put(store, key)
    inside = sorted((key for key in keys if key.startswith("p/")), key=str.encode)
    assert [found.key for found in store.list("p/").objects] == inside
    assert [found.key for found in store.list("p/", start_after="p/b/1").objects] == inside[2:]
    assert [found.key for found in store.list("p/", start_after="p/b/15").objects] == inside[2:]
    page = store.list("p/", limit=3)
    assert ([found.key for found in page.objects], page.truncated) == (inside[:3], True)
    assert not store.list("p/", start_after=inside[-2]).truncated
    assert store.list("nothing/").objects == [] or list(store.list("nothing/").objects) == []


def test_folders_are_listed_once_each_page_by_page(store: ObjectStore) -> None:
    for key in ("p/a/1", "p/a/2", "p/a%20b/1", "p/a-b/1/2", "p/a0/1", "p/b", "p/b/1", "p/😀/1", "p/.active/x", "q/a/1"):
        put(store, key)
    names = [".active", "a", "a%20b", "a-b", "a0", "b", "😀"]
    inside = sorted((f"{name}/" for name in names), key=str.encode)
    found = store.list_folders("p/")
    assert ([f"{name}/" for name in found.names], found.start_after) == (inside, None)
    listed, start_after, pages = [], "", 0
    while start_after is not None:
        page = store.list_folders("p/", start_after=start_after, limit=2)
        listed += page.names
        start_after, pages = page.start_after, pages + 1
    assert [f"{name}/" for name in listed] == inside and pages == 4
    assert list(store.list_folders("p/a").names) == ["a%20b", "a-b", "a", "a0"]
    assert list(store.list_folders("p/a", start_after=after_folder("p/a-b/")).names) == ["a", "a0"]
    assert store.list_folders("nothing/") == Folders([], None)


def test_a_listing_tells_size_version_and_time(store: ObjectStore) -> None:
    etag = put(store, "k", b"12345")
    (found,) = store.list("k").objects
    assert (found.size, found.etag) == (5, etag)
    assert abs(found.last_modified_ms - store.head("k").last_modified_ms) < 1000


def test_a_thousand_and_one_keys_are_two_pages(store: ObjectStore) -> None:
    for number in range(1001):
        put(store, f"many/{number:010d}", b"")
    page = store.list("many/")
    assert (len(page.objects), page.truncated) == (1000, True)
    rest = store.list("many/", start_after=page.objects[-1].key)
    assert ([found.key for found in rest.objects], rest.truncated) == (["many/0000001000"], False)


def test_deletions(store: ObjectStore) -> None:
    store.delete("missing")
    etag = put(store, "k", b"one")
    with pytest.raises(PreconditionFailedError):
        store.delete("k", if_match="0" * 32)
    assert store.get("k").body == b"one"
    store.delete("k", if_match=etag)
    store.delete("k", if_match=etag)
    for number in range(3):
        put(store, f"d/{number}")
    store.delete_many(["d/0", "d/2", "d/missing"])
    assert [found.key for found in store.list("d/").objects] == ["d/1"]


def test_an_upload_in_parts(store: ObjectStore, kind: str) -> None:
    source = put(store, "source", LARGE)
    upload = store.create_multipart("target", PutOptions({"total-bytes": "7"}, storage_class="STANDARD_IA"))
    parts = [
        (1, store.copy_part("target", upload, 1, "source", 0, 5 * MIB, if_match=source)),
        (2, store.upload_part("target", upload, 2, FIVE)),
        (3, store.upload_part("target", upload, 3, b"end")),
    ]
    with pytest.raises(ObjectNotFoundError):
        store.head("target")
    etag = store.complete_multipart("target", upload, parts, ABSENT)
    found = store.get("target")
    assert found.body == LARGE[: 5 * MIB] + FIVE + b"end"
    assert found.info.etag == etag and found.info.metadata["total-bytes"] == "7"
    with pytest.raises(upload_is_gone(kind)):
        store.upload_part("target", upload, 4, b"late")


def test_a_part_is_copied_of_the_version_that_was_seen(store: ObjectStore, kind: str) -> None:
    put(store, "source", LARGE)
    upload = store.create_multipart("target", PLAIN)
    refused(
        kind,
        "the version of a copied part's source",
        PreconditionFailedError,
        lambda: store.copy_part("target", upload, 1, "source", 0, 5 * MIB, if_match="0" * 32),
    )
    with pytest.raises(ObjectNotFoundError):
        store.copy_part("target", upload, 1, "missing", 0, 5 * MIB, if_match="0" * 32)


def complete(store: ObjectStore, body: bytes, condition: Condition) -> None:
    upload = store.create_multipart("target", PLAIN)
    store.complete_multipart("target", upload, [(1, store.upload_part("target", upload, 1, body))], condition)


def test_a_completion_is_conditional(store: ObjectStore, kind: str) -> None:
    complete(store, b"first", ABSENT)
    with pytest.raises(PreconditionFailedError):
        complete(store, b"second", ABSENT)
    assert store.get("target").body == b"first"
    complete(store, b"third", Condition(if_match=store.head("target").etag))
    assert store.get("target").body == b"third"
    wrong = Condition(if_match="0" * 32)
    if refused(kind, "If-Match of a completion", PreconditionFailedError, lambda: complete(store, b"fourth", wrong)):
        assert store.get("target").body == b"third"


def test_an_aborted_upload_is_gone(store: ObjectStore, kind: str) -> None:
    upload = store.create_multipart("target", PLAIN)
    part = (1, store.upload_part("target", upload, 1, b"x"))
    store.abort_multipart("target", upload)
    store.abort_multipart("target", upload)
    with pytest.raises(upload_is_gone(kind)):
        store.complete_multipart("target", upload, [part])
    with pytest.raises(ObjectNotFoundError):
        store.head("target")


@pytest.mark.parametrize(("page", "limit"), [(1, 1), (2, 3), (1000, 1000)])
def test_old_versions_are_deleted_and_no_object_returns(
    store: ObjectStore, bucket: str, endpoint_url: str | None, page: int, limit: int
) -> None:
    """Whatever the store's pages and the limit; a marker that is deleted before an old version of its key would make that one current."""
    keep_versions(store, bucket, endpoint_url)
    list_in_pages(store, "ListObjectVersions", MaxKeys=page)
    for key in ("p/deleted", "p/deleted", "p/once", "p/replaced", "p/replaced", "q/deleted"):
        put(store, key)
    for key in ("p/deleted", "p/once", "q/deleted"):
        store.delete(key)
    deleted = 0
    while versions := store.old_versions("p/", limit):
        assert len(versions) <= limit
        store.delete_versions(versions)
        deleted += len(versions)
        assert [each.key for each in store.list("").objects] == ["p/replaced"]
    assert (deleted, len(store.old_versions("q/"))) == (6, 2)


def test_open_uploads_are_listed_by_prefix_and_aborted(store: ObjectStore) -> None:
    list_in_pages(store, "ListMultipartUploads", MaxUploads=2)
    opened = sorted((key, store.create_multipart(key, PLAIN)) for key in ("p/a", "p/a", "p/a", "p/b", "p/b", "q/a"))
    found = store.open_uploads("p/")
    assert sorted((each.key, each.upload_id) for each in found) == opened[:-1]
    for each in found:
        store.abort_multipart(each.key, each.upload_id)
    assert store.open_uploads("p/") == [] and len(store.open_uploads("")) == 1


def keep_versions(store: ObjectStore, bucket: str, endpoint_url: str | None) -> None:
    if isinstance(store, InMemoryObjectStore):
        store.is_versioned = True
        return
    with closing(client_of("s3", str(endpoint_url))) as client:
        client.put_bucket_versioning(Bucket=bucket, VersioningConfiguration={"Status": "Enabled"})


def list_in_pages(store: ObjectStore, operation: str, **page: int) -> None:
    """Every list has such small pages; moto ignores that of uploads."""
    if isinstance(store, S3ObjectStore):
        store._client.meta.events.register(f"provide-client-params.s3.{operation}", lambda params, **_: {**params, **page})


def test_a_part_that_is_too_small_is_refused(store: ObjectStore, kind: str) -> None:
    upload = store.create_multipart("target", PLAIN)
    parts = [(number, store.upload_part("target", upload, number, b"small")) for number in (1, 2)]
    rule = "5 MiB for every part but the last"
    if refused(kind, rule, (RunlakeError, ValueError), lambda: store.complete_multipart("target", upload, parts)):
        with pytest.raises(ObjectNotFoundError):
            store.head("target")


def test_conflict_is_reported() -> None:
    """S3 answers 409 when conditional writes race; neither emulator does, so it is injected."""
    store = InMemoryObjectStore(ManualClock())
    store.conflict_next(1)
    with pytest.raises(WriteConflictError):
        store.put("k", b"x", PLAIN, ABSENT)
    store.put("k", b"x", PLAIN, ABSENT)


@pytest.mark.parametrize(
    ("encryption", "algorithm", "key"),
    [(Encryption(), "AES256", None), (Encryption("aws:kms", "arn:aws:kms:us-east-1:000000000000:key/k"), "aws:kms", "key/k")],
)
def test_every_write_asks_for_encryption_and_class(
    kind: str, endpoint_url: str | None, bucket: str, encryption: Encryption, algorithm: str, key: str | None
) -> None:
    """Read back from the service. The in-memory store records the class and does not encrypt."""
    if endpoint_url is None:
        memory = InMemoryObjectStore(ManualClock())
        memory.put("put", b"x", PutOptions(storage_class="STANDARD_IA"))
        assert kind == MEMORY and memory.storage_class("put") == "STANDARD_IA"
        return
    with closing(client_of("s3", endpoint_url)) as client:
        store = S3ObjectStore(client, bucket, encryption)
        store.put("put", b"x", PutOptions(storage_class="STANDARD_IA"))
        upload = store.create_multipart("parts", PutOptions(storage_class="STANDARD_IA"))
        store.complete_multipart("parts", upload, [(1, store.upload_part("parts", upload, 1, b"x"))])
        for name in ("put", "parts"):
            head = client.head_object(Bucket=bucket, Key=name)
            assert head["StorageClass"] == "STANDARD_IA"
            assert head["ServerSideEncryption"] == algorithm
            assert key is None or head["SSEKMSKeyId"].endswith(key)


def test_a_link_is_answered_as_an_attachment(store: ObjectStore, endpoint_url: str | None) -> None:
    put(store, "ünï k.txt", b"lines\n")
    url = store.presign_get("ünï k.txt", expires_s=60, filename='a "log" ü.txt', content_type="text/plain; charset=utf-8")
    if endpoint_url is None:
        assert url.startswith("memory:")
        return
    with urlopen(url, timeout=10) as answer:
        assert answer.read() == b"lines\n"
        disposition = answer.headers["Content-Disposition"]
    assert disposition.startswith("attachment;") and "filename*=UTF-8''a%20%22log%22%20%C3%BC.txt" in disposition
