"""Retries for races with other processes: conditional PUTs that S3 rejects with 409, and reads of a run that changes meanwhile."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import TypeVar

from chalicelib.errors import (
    DamagedLogError,
    MissingSegmentError,
    SnapshotChangedError,
    StoreConditionError,
    StoreUnavailableError,
    WriteConflictError,
)
from chalicelib.ports import Condition, ObjectStore, PutOptions

ATTEMPTS = 5
"""For a PUT that S3 rejects with 409, and for an operation whose run changes meanwhile."""
Outcome = TypeVar("Outcome")


def put_retrying_conflicts(store: ObjectStore, key: str, body: bytes, options: PutOptions, condition: Condition) -> str:
    """Conditional PUT, repeated while S3 responds 409; returns the ETag. Raises the errors of ``put``, and StoreUnavailableError after
    ``ATTEMPTS`` conflicts."""
    for _ in range(ATTEMPTS):
        with suppress(WriteConflictError):
            return store.put(key, body, options, condition)
    raise StoreUnavailableError(f"conditional write keeps conflicting key={key} tries={ATTEMPTS}")


def retry_on_change(
    attempt: Callable[[], Outcome], *, changes: type[StoreConditionError] = SnapshotChangedError, attempts: int = ATTEMPTS
) -> Outcome:
    """Repeat an attempt, which must read the run again each time, while it raises ``changes``; returns its result.

    Raises DamagedLogError if two attempts in a row miss the same segment: LIST is consistent and a number is never written twice, so no other
    process moved it. Raises StoreUnavailableError if the run still changes at the last attempt.
    """
    last: StoreConditionError | None = None
    for _ in range(attempts):
        try:
            return attempt()
        except changes as error:
            if isinstance(error, MissingSegmentError) and isinstance(last, MissingSegmentError) and str(error) == str(last):
                raise DamagedLogError(str(error)) from error
            last = error
    raise StoreUnavailableError(f"the run keeps changing tries={attempts} last={last}") from last
