"""Requests that S3 rejects, and races of conditional writes: rules of ``ports.ObjectStore`` on which programs depend."""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import suppress
from functools import partial

import pytest

from chalicelib.errors import ObjectNotFoundError, PreconditionFailedError, RunlakeError
from chalicelib.ports import ABSENT, Condition, ObjectStore, PutOptions
from tests.contract.differences import is_one_completion, refused

MIB = 1024 * 1024
PLAIN = PutOptions()
FIVE = b"a" * (5 * MIB)
REFUSED = (RunlakeError, ValueError)
WRITERS = 16


def keys(store: ObjectStore) -> list[str]:
    return [found.key for found in store.list("").objects]


def race(attempt: Callable[[int], object]) -> list[int]:
    """Runs all attempts at once and returns those that succeeded; the condition was false for all other attempts."""
    start, won = threading.Barrier(WRITERS), []

    def run(number: int) -> None:
        start.wait()
        try:
            attempt(number)
        except PreconditionFailedError:
            return
        won.append(number)

    threads = [threading.Thread(target=run, args=(number,)) for number in range(WRITERS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return won


def test_metadata_has_2_kilobytes(store: ObjectStore, kind: str) -> None:
    most = {"landmarks": "v" * (2048 - len("landmarks"))}
    store.put("k", b"x", PutOptions(most))
    assert dict(store.head("k").metadata) == most
    over = PutOptions({"landmarks": most["landmarks"] + "v"})
    assert refused(kind, "2 KB for metadata", REFUSED, lambda: store.put("over", b"x", over)) == ("over" not in keys(store))


@pytest.mark.parametrize("metadata", [{"connector": "ünï"}, {"ünï": "x"}])
def test_metadata_is_ascii(store: ObjectStore, metadata: dict[str, str]) -> None:
    with pytest.raises(REFUSED):
        store.put("k", b"x", PutOptions(metadata))
    with pytest.raises(REFUSED):
        store.create_multipart("k", PutOptions(metadata))
    assert keys(store) == []


def test_a_key_has_1024_bytes(store: ObjectStore, kind: str) -> None:
    store.put("k" * 1024, b"x", PLAIN)
    assert store.get("k" * 1024).body == b"x"
    refused(kind, "1,024 bytes for a key", REFUSED, lambda: store.put("k" * 1025, b"x", PLAIN))


def test_a_new_version_has_only_its_own_metadata(store: ObjectStore) -> None:
    store.put("k", b"one", PutOptions({"one": "1"}))
    store.put("k", b"two", PutOptions({"two": "2"}))
    assert dict(store.get("k").info.metadata) == {"two": "2"}


@pytest.mark.parametrize(("start", "end"), [(3, 3), (3, 2), (-1, 2), (None, 0)])
def test_a_range_has_a_byte_at_least(store: ObjectStore, start: int | None, end: int) -> None:
    """S3 ignores an invalid range and returns the complete object."""
    store.put("k", b"0123456789", PLAIN)
    with pytest.raises(ValueError, match="at least one byte"):
        store.get("k", start, end)


@pytest.mark.parametrize("count", [0, 1001])
def test_a_request_deletes_1_to_1000_keys(store: ObjectStore, count: int) -> None:
    with pytest.raises(ValueError, match="1 to 1,000"):
        store.delete_many([f"k/{number}" for number in range(count)])


def test_an_empty_etag_is_no_wildcard(store: ObjectStore) -> None:
    etag = store.put("k", b"one", PLAIN)
    with pytest.raises(PreconditionFailedError):
        store.put("k", b"two", PLAIN, Condition(if_match=""))
    with pytest.raises(PreconditionFailedError):
        store.get("k", if_match="")
    with pytest.raises(PreconditionFailedError):
        store.delete("k", if_match="")
    assert store.head("k").etag == etag


@pytest.mark.parametrize("number", [0, 10_001])
def test_parts_are_numbered_from_1_to_10000(store: ObjectStore, number: int) -> None:
    upload = store.create_multipart("k", PLAIN)
    with pytest.raises(REFUSED):
        store.upload_part("k", upload, number, b"x")


def test_an_upload_belongs_to_its_key(store: ObjectStore, kind: str) -> None:
    upload = store.create_multipart("k", PLAIN)
    refused(kind, "the key of an upload", ObjectNotFoundError, lambda: store.upload_part("other", upload, 1, b"x"))


def test_a_part_that_is_sent_again_replaces_the_first(store: ObjectStore) -> None:
    upload = store.create_multipart("k", PLAIN)
    first = store.upload_part("k", upload, 1, FIVE)
    store.upload_part("k", upload, 2, b"first")
    again = store.upload_part("k", upload, 2, b"again")
    store.complete_multipart("k", upload, [(1, first), (2, again)])
    assert store.get("k", 5 * MIB).body == b"again"


def test_parts_are_named_in_order(store: ObjectStore, kind: str) -> None:
    upload, parts = two_parts(store)
    call = partial(store.complete_multipart, "k", upload, parts[::-1])
    assert refused(kind, "the order of parts", REFUSED, call) == (keys(store) == [])


def test_an_object_has_a_part_at_least(store: ObjectStore, kind: str) -> None:
    upload, _ = two_parts(store)
    call = partial(store.complete_multipart, "k", upload, [])
    assert refused(kind, "a part at least", REFUSED, call) == (keys(store) == [])


@pytest.mark.parametrize("part", [(1, "0" * 32), (3, "0" * 32)], ids=["of another ETag", "of another number"])
def test_a_part_that_was_not_sent_cannot_be_published(store: ObjectStore, part: tuple[int, str]) -> None:
    upload, _ = two_parts(store)
    with pytest.raises(REFUSED):
        store.complete_multipart("k", upload, [part])
    assert keys(store) == []


def test_a_copied_parts_source_is_larger_than_5_mib(store: ObjectStore, kind: str) -> None:
    etag = store.put("source", FIVE, PLAIN)
    upload = store.create_multipart("k", PLAIN)
    call = partial(store.copy_part, "k", upload, 1, "source", 0, 5 * MIB, if_match=etag)
    refused(kind, "more than 5 MiB for a copied part's source", REFUSED, call)


def test_a_copied_part_ends_within_its_source(store: ObjectStore, kind: str) -> None:
    etag = store.put("source", FIVE + b"b", PLAIN)
    upload = store.create_multipart("k", PLAIN)
    call = partial(store.copy_part, "k", upload, 1, "source", 0, 5 * MIB + 2, if_match=etag)
    refused(kind, "the end of a copied part's source", REFUSED, call)


def test_a_completion_whose_condition_is_false_keeps_the_upload(store: ObjectStore) -> None:
    store.put("k", b"old", PLAIN)
    upload = store.create_multipart("k", PLAIN)
    part = (1, store.upload_part("k", upload, 1, b"new"))
    with pytest.raises(PreconditionFailedError):
        store.complete_multipart("k", upload, [part], ABSENT)
    store.complete_multipart("k", upload, [part])
    assert store.get("k").body == b"new"


def test_a_second_completion_changes_nothing(store: ObjectStore) -> None:
    """S3 may repeat its first response (as both emulators do), or respond that the upload does not exist."""
    upload, parts = two_parts(store)
    etag = store.complete_multipart("k", upload, parts)
    with suppress(ObjectNotFoundError):
        assert store.complete_multipart("k", upload, parts) == etag
    assert store.head("k").etag == etag


def test_one_of_sixteen_replaces_a_version(store: ObjectStore) -> None:
    etag = store.put("k", b"old", PLAIN)
    won = race(lambda number: store.put("k", str(number).encode(), PLAIN, Condition(if_match=etag)))
    assert len(won) == 1 and store.get("k").body == str(won[0]).encode()


def test_one_of_sixteen_completions_takes_a_key(store: ObjectStore, kind: str) -> None:
    uploads = [store.create_multipart("k", PLAIN) for _ in range(WRITERS)]
    parts = [[(1, store.upload_part("k", upload, 1, str(number).encode()))] for number, upload in enumerate(uploads)]
    won = race(lambda number: store.complete_multipart("k", uploads[number], parts[number], ABSENT))
    assert is_one_completion(kind, won) and int(store.get("k").body) in won


def test_all_of_sixteen_deletions_of_one_version_succeed(store: ObjectStore) -> None:
    """A late deletion finds no object, which is the intended state."""
    etag = store.put("k", b"x", PLAIN)
    assert len(race(lambda _: store.delete("k", if_match=etag))) == WRITERS
    assert keys(store) == []


def two_parts(store: ObjectStore) -> tuple[str, list[tuple[int, str]]]:
    upload = store.create_multipart("k", PLAIN)
    return upload, [(1, store.upload_part("k", upload, 1, FIVE)), (2, store.upload_part("k", upload, 2, b"end"))]
