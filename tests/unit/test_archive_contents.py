"""How a file's contents are answered: of which type, packed or not, whole or as a link, and at what cost."""

from __future__ import annotations

import gzip
from concurrent.futures import ThreadPoolExecutor
from hashlib import blake2b
from threading import Lock
from typing import Any, cast

import pytest

from chalicelib.archive.contents import MAX_INLINE_BYTES, Contents, content_type, contents_of
from chalicelib.archive.hashing import PIECE_BYTES, content_hash
from chalicelib.catalog.metadata import Metadata
from chalicelib.deadline import Deadline
from chalicelib.errors import DeadlineExceededError, ObjectNotFoundError, PreconditionFailedError, UnavailableError
from chalicelib.ports import ObjectStore, PutOptions
from tests.world import World

HASHED = "0123456789abcdef" * 2


def metadata_of_path(path: str) -> Metadata:
    document: dict[str, Any] = {
        "version": 0,
        "start": 0,
        "end": None,
        "work_id": None,
        "where": "w",
        "what": "x",
        "id": HASHED,
        "hash": HASHED,
    }
    return Metadata.model_validate(document | {"path": path})


def contents(body: bytes, path: str = "/x", world: World | None = None) -> Contents:
    world = world or World()
    world.archive_store.put_repeated("key", body or b"x", len(body), {})
    return contents_of(world.archive_store, world.archive_store.head("key"), metadata_of_path(path))


@pytest.mark.parametrize(
    ("path", "kind"),
    [
        ("/x.json", "application/json"),
        ("/x.txt", "text/plain"),
        ("/x.html", "text/html"),
        ("/x.csv", "text/csv"),
        ("/x.png", "image/png"),
        ("/x.tar.gz", "application/x-tar"),
        ("/x.json.gz", "application/json"),
        ("/x.JSON", "application/json"),
        ("/x", "text/plain"),
        ("/", "text/plain"),
        ("/.json", "text/plain"),
        ("/x.unheard-of", "text/plain"),
        ("/dir.json/x", "text/plain"),
        ("C:\\x.json", "application/json"),
        ("C:\\dir.json\\x", "text/plain"),
        ("c:\\a b\\x.txt", "text/plain"),
        (f"/x.json-{HASHED}", "application/json"),
        (f"/x.json-{HASHED}01234567", "application/json"),
        (f"C:\\x.json-{HASHED}", "application/json"),
        (f"/x-y.json-{HASHED}", "application/json"),
        (f"/x.json-{HASHED}-{HASHED}", "text/plain"),
        (f"/x.json-{HASHED[1:]}", "text/plain"),
        (f"/x.json-{HASHED}012345678", "text/plain"),
        (f"/x.json-{HASHED.upper()}", "text/plain"),
        (f"/x.json-{HASHED}.txt", "text/plain"),
        (f"-{HASHED}", "text/plain"),
        ("/a\nb.json", "application/json"),
        (f"/a\nb.json-{HASHED}", "application/json"),
        ("//host/x.json", "application/json"),
        ("//[/x.json", "application/json"),
        ("/ä.json", "application/json"),
    ],
)
def test_type_by_path(path: str, kind: str) -> None:
    assert content_type(path) == kind


def test_empty_contents_cost_no_request() -> None:
    world = World()
    assert contents(b"", "/x.json", world) == Contents("application/json", "", "")
    assert world.archive_store.calls["get"] == 0


def test_text_comes_whole_with_one_request() -> None:
    world = World()
    assert contents("ä\r\n\0".encode(), "/x", world) == Contents("text/plain", "", "ä\r\n\0")
    assert world.archive_store.calls["get"] == 1


@pytest.mark.parametrize("body", [b"\xff", b"ok\n\x80", b"\xed\xa0\x80", b"a" * 1000 + b"\xc3"])
def test_what_is_no_text_is_a_link(body: bytes) -> None:
    found = contents(body)
    assert found.text is None and found.content_encoding == "" and "content_encoding=&" in found.link + "&"


@pytest.mark.parametrize(
    ("body", "is_gzip"),
    [(gzip.compress(b"x", mtime=0), True), (b"\x1f\x8b\x08", True), (b"\x1f\x8b\x09", False), (b"\x1f\x8b", False)],
)
def test_gzip_by_its_first_bytes(body: bytes, is_gzip: bool) -> None:
    found = contents(body, "/x.json.gz")
    assert found.text is None and found.content_type == "application/json"
    assert (found.content_encoding == "gzip") == is_gzip == ("content_encoding=gzip" in found.link)


@pytest.mark.parametrize(
    ("letter", "size", "is_link"),
    [
        ("x", MAX_INLINE_BYTES - 2, False),
        ("x", MAX_INLINE_BYTES - 1, True),
        ("x", MAX_INLINE_BYTES, True),
        ("x", MAX_INLINE_BYTES + 1, True),
        ("x", 10 * MAX_INLINE_BYTES, True),
        ('"', MAX_INLINE_BYTES // 2 - 1, False),
        ('"', MAX_INLINE_BYTES // 2, True),
        ("\0", MAX_INLINE_BYTES // 6 + 1, True),
    ],
)
def test_the_limit_of_an_answer(letter: str, size: int, is_link: bool) -> None:
    """What counts is the size of the JSON that holds it."""
    world = World()
    assert bool(contents(letter.encode() * size, "/x", world).link) == is_link
    assert world.archive_store.calls["get"] == 1


def test_large_gzip_is_detected_without_a_full_read() -> None:
    world = World()
    world.archive_store.put_repeated("key", b"\x1f\x8b\x08" + bytes(5), 10 * MAX_INLINE_BYTES, {})
    info = world.archive_store.head("key")
    get, read = world.archive_store.get, []

    def counted(key: str, start: int | None = None, end: int | None = None, *, if_match: str | None = None) -> Any:
        read.append((start, end))
        return get(key, start, end, if_match=if_match)

    world.archive_store.get = counted  # type: ignore[method-assign]
    assert contents_of(world.archive_store, info, metadata_of_path("/x")).content_encoding == "gzip"
    assert read == [(0, 3)]


def test_versions_of_a_changing_object_are_not_mixed() -> None:
    world = World()
    world.archive_store.put("key", b"one", PutOptions())
    info = world.archive_store.head("key")
    world.archive_store.put("key", b"other", PutOptions())
    with pytest.raises(PreconditionFailedError):
        contents_of(world.archive_store, info, metadata_of_path("/x"))
    world.archive_store.delete("key")
    with pytest.raises(ObjectNotFoundError):
        contents_of(world.archive_store, info, metadata_of_path("/x"))


# The datalake's hash


@pytest.mark.parametrize("size", [0, 1, PIECE_BYTES - 1, PIECE_BYTES, PIECE_BYTES + 1, 5 * PIECE_BYTES + 7])
def test_hash_of_any_size(size: int) -> None:
    world = World()
    body = (bytes(range(251)) * (size // 251 + 1))[:size]
    world.archive_store.put("key", body, PutOptions())
    assert (
        content_hash(world.archive_store, world.archive_store.head("key"), Deadline(world.clock))
        == blake2b(body, digest_size=16).hexdigest()
    )
    assert world.archive_store.calls["get"] == -(-size // PIECE_BYTES)


def test_hash_of_a_changing_object_is_retryable() -> None:
    world = World()
    world.archive_store.put("key", b"x" * (PIECE_BYTES + 1), PutOptions())
    info = world.archive_store.head("key")
    world.archive_store.put("key", b"y" * (PIECE_BYTES + 1), PutOptions())
    with pytest.raises(UnavailableError):
        content_hash(world.archive_store, info, Deadline(world.clock))


def test_a_hash_stops_in_time() -> None:
    world = World()
    world.archive_store.put("key", b"x" * (PIECE_BYTES + 1), PutOptions())
    info = world.archive_store.head("key")
    deadline = Deadline(world.clock, 1)
    world.clock.advance(2)
    with pytest.raises(DeadlineExceededError):
        content_hash(world.archive_store, info, deadline)


@pytest.mark.slow
def test_large_objects_are_hashed_one_after_the_other() -> None:
    """Side by side each would have a part of the time that there is, and none might be done, however often they come again."""
    world = World()
    at_work: list[str] = []
    most: list[int] = []

    class Watched:
        def get(self, key: str, *given: Any, **more: Any) -> Any:
            with lock:
                at_work.append(key)
                most.append(len(set(at_work)))
            found = world.archive_store.get(key, *given, **more)
            with lock:
                at_work.remove(key)
            return found

    lock, store = Lock(), cast(ObjectStore, Watched())
    keys = [f"key-{number}" for number in range(4)]
    for key in keys:
        world.archive_store.put(key, key.encode() * PIECE_BYTES, PutOptions())
    with ThreadPoolExecutor(4) as threads:
        hashes = threads.map(lambda key: content_hash(store, world.archive_store.head(key), Deadline(world.clock)), keys)
        assert list(hashes) == [blake2b(key.encode() * PIECE_BYTES, digest_size=16).hexdigest() for key in keys]
    assert set(most) == {1}
