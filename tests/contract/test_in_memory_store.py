"""What the in-memory store adds for tests: objects of any size that cost nothing, counted calls, conflicts on demand."""

from __future__ import annotations

import tracemalloc

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chalicelib.errors import PreconditionFailedError, WriteConflictError
from chalicelib.ports import ABSENT, Condition, PutOptions
from tests.support.clock import ManualClock
from tests.support.object_store import InMemoryObjectStore
from tests.support.rope import Rope

GIB = 1024**3
MIB = 1024**2
PLAIN = PutOptions()


@pytest.fixture
def store() -> InMemoryObjectStore:
    return InMemoryObjectStore(ManualClock(1_790_000_000_000))


def test_six_gibibytes_are_copied_and_read_without_their_bytes(store: InMemoryObjectStore) -> None:
    line = b"0123456789abcde\n"
    tracemalloc.start()
    source = store.put_repeated("source", line, 6 * GIB, {})
    upload = store.create_multipart("target", PLAIN)
    parts = [
        (1, store.copy_part("target", upload, 1, "source", 0, 5 * GIB, if_match=source)),
        (2, store.copy_part("target", upload, 2, "source", 5 * GIB, 6 * GIB, if_match=source)),
        (3, store.upload_part("target", upload, 3, b"the end\n")),
    ]
    store.complete_multipart("target", upload, parts)
    assert store.head("target").size == 6 * GIB + 8
    assert store.get("target", 5 * GIB - 5, 5 * GIB + 5).body == b"bcde\n01234"
    assert store.get("target", 6 * GIB - 4).body == b"cde\nthe end\n"
    assert tracemalloc.get_traced_memory()[1] < MIB
    tracemalloc.stop()
    assert store.uploaded_bytes == 8


def test_a_part_has_5_gib(store: InMemoryObjectStore) -> None:
    source = store.put_repeated("source", b"x", 6 * GIB, {})
    upload = store.create_multipart("target", PLAIN)
    with pytest.raises(ValueError, match="invalid part"):
        store.copy_part("target", upload, 1, "source", 0, 5 * GIB + 1, if_match=source)


def test_calls_are_counted_also_those_that_fail(store: InMemoryObjectStore) -> None:
    store.put("k", b"x", PLAIN, ABSENT)
    with pytest.raises(PreconditionFailedError):
        store.put("k", b"x", PLAIN, ABSENT)
    store.get("k")
    assert store.calls == {"put": 2, "get": 1}


def test_scheduled_conflicts_change_nothing(store: InMemoryObjectStore) -> None:
    etag = store.put("k", b"old", PLAIN)
    store.conflict_next(2, lambda key: key == "k")
    store.put("k", b"old", PLAIN)  # without a condition there is no race
    store.put("other", b"x", PLAIN, ABSENT)
    for _ in range(2):
        with pytest.raises(WriteConflictError):
            store.put("k", b"new", PLAIN, Condition(if_match=etag))
    assert store.get("k").body == b"old"
    store.put("k", b"new", PLAIN, Condition(if_match=etag))


def test_a_conflict_keeps_the_upload(store: InMemoryObjectStore) -> None:
    upload = store.create_multipart("k", PLAIN)
    part = (1, store.upload_part("k", upload, 1, b"x"))
    store.conflict_next(1)
    with pytest.raises(WriteConflictError):
        store.complete_multipart("k", upload, [part], ABSENT)
    assert store.uploads == 1
    store.complete_multipart("k", upload, [part], ABSENT)
    assert store.uploads == 0


pieces = st.lists(st.tuples(st.binary(min_size=1, max_size=7), st.integers(1, 30)), max_size=5)


@given(pieces, st.integers(0, 160), st.integers(0, 160))
def test_a_rope_is_its_bytes(repeated: list[tuple[bytes, int]], start: int, end: int) -> None:
    rope = Rope.joined([Rope.repeated(pattern, size) for pattern, size in repeated])
    plain = b"".join((pattern * size)[:size] for pattern, size in repeated)
    assert (rope.size, rope.materialize()) == (len(plain), plain)
    cut = rope.cut(start, end)
    assert cut.materialize() == plain[start:end]
    assert Rope.joined([cut, rope]).cut(1, 50).materialize() == (plain[start:end] + plain)[1:50]
