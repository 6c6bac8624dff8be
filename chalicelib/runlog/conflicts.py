"""Operations that race with other processes: conditional PUTs that S3 answers with 409, and reads of a run that changes meanwhile."""

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
"""Of a PUT that S3 answers with 409, and of an operation whose run changes meanwhile."""
Outcome = TypeVar("Outcome")


def put_retrying_conflicts(store: ObjectStore, key: str, body: bytes, options: PutOptions, condition: Condition) -> str:
    """A conditional PUT, repeated while S3 answers 409; the ETag. Raises what ``put`` raises, and StoreUnavailableError when the conflict does
    not end within ``ATTEMPTS``."""
    for _ in range(ATTEMPTS):
        with suppress(WriteConflictError):
            return store.put(key, body, options, condition)
    raise StoreUnavailableError(f"conflicting writes do not settle key={key} tries={ATTEMPTS}")


def retry_on_change(
    attempt: Callable[[], Outcome], *, changes: type[StoreConditionError] = SnapshotChangedError, attempts: int = ATTEMPTS
) -> Outcome:
    """The outcome of an attempt that reads the run anew each time, repeated while it raises ``changes``.

    Raises DamagedLogError when two attempts in a row miss the same segment: listings are consistent and a number is never written twice,
    so no other process moved it. Raises StoreUnavailableError when the run still changes at the last attempt.
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
