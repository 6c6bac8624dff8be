"""The datalake's hash of contents: blake2b, 16 bytes, hex."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from hashlib import blake2b
from itertools import islice
from threading import TIMEOUT_MAX, Lock

from chalicelib.deadline import Deadline
from chalicelib.errors import DeadlineExceededError, PreconditionFailedError, RewrittenError
from chalicelib.ports import ObjectInfo, ObjectStore

PIECE_BYTES = 8 * 1024 * 1024
READ_AHEAD = 4
"""Pieces that are fetched while one is hashed: 40 MiB of memory for an object of any size."""
_one_large = Lock()
"""Large objects are read one at a time: in parallel, each might exceed the deadline on every attempt."""


def content_hash(store: ObjectStore, info: ObjectInfo, deadline: Deadline) -> str:
    """The hash of the version of an object that ``info`` describes. A GET for each 8 MiB. Raises ObjectNotFoundError,
    RewrittenError (the object was replaced meanwhile), UnavailableError, DeadlineExceededError."""
    hashed = blake2b(digest_size=16)
    try:
        for piece in _pieces(store, info, deadline):
            hashed.update(piece)
    except PreconditionFailedError as error:
        raise RewrittenError(f"the object was rewritten while it was read key={info.key}") from error
    return hashed.hexdigest()


def _pieces(store: ObjectStore, info: ObjectInfo, deadline: Deadline) -> Iterator[bytes]:
    def read(start: int) -> bytes:
        deadline.check()
        return store.get(info.key, start, min(start + PIECE_BYTES, info.size), if_match=info.etag).body

    if info.size <= PIECE_BYTES:
        if info.size:
            yield read(0)
        return
    starts = iter(range(0, info.size, PIECE_BYTES))
    with _alone(deadline), ThreadPoolExecutor(READ_AHEAD) as threads:
        coming = [threads.submit(read, start) for start in islice(starts, READ_AHEAD)]
        while coming:
            piece = coming.pop(0).result()
            coming += [threads.submit(read, start) for start in islice(starts, 1)]
            yield piece


@contextmanager
def _alone(deadline: Deadline) -> Iterator[None]:
    if not _one_large.acquire(timeout=max(0.0, min(deadline.remaining_s(), TIMEOUT_MAX))):
        raise DeadlineExceededError("no time left after waiting for another large object")
    try:
        yield
    finally:
        _one_large.release()
