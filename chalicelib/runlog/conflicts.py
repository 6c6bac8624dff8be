"""Conditional PUTs that race each other: S3 answers one of them with 409, which says nothing of who won."""

from __future__ import annotations

from contextlib import suppress

from chalicelib.errors import StoreUnavailableError, WriteConflictError
from chalicelib.ports import Condition, ObjectStore, PutOptions

ATTEMPTS = 5


def put_settled(store: ObjectStore, key: str, body: bytes, options: PutOptions, condition: Condition) -> str:
    """A conditional PUT, repeated while S3 answers 409; the ETag. Raises what ``put`` raises, and StoreUnavailableError when the conflict does
    not end within ``ATTEMPTS``."""
    for _ in range(ATTEMPTS):
        with suppress(WriteConflictError):
            return store.put(key, body, options, condition)
    raise StoreUnavailableError(f"conflicting writes do not settle key={key} tries={ATTEMPTS}")
