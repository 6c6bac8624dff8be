"""Transactions with retries on conflicts with other transactions."""

from __future__ import annotations

from collections.abc import Sequence

from chalicelib.errors import PreconditionFailedError, StoreUnavailableError, WriteConflictError
from chalicelib.ports import Clock, Database, Write

_TRIES = 6
_FIRST_PAUSE_S = 0.02


def transact_with_retry(database: Database, clock: Clock, writes: Sequence[Write]) -> None:
    """Apply all writes or none. A conflict with another transaction is retried, six attempts in all within 0.7 s. Raises
    PreconditionFailedError, OutcomeUnknownError, and StoreUnavailableError, also if the conflict persists: nothing was
    applied."""
    pause_s = _FIRST_PAUSE_S
    for attempt in range(_TRIES):
        try:
            return database.transact(writes)
        except WriteConflictError as error:
            if attempt == _TRIES - 1:
                raise StoreUnavailableError(f"other transactions keep changing the same rows: {error} tries={_TRIES}") from error
        clock.sleep(pause_s)
        pause_s *= 2


def apply_write(database: Database, clock: Clock, write: Write) -> bool:
    """Whether a conditional write was applied; False: the row has changed. Raises UnavailableError."""
    try:
        transact_with_retry(database, clock, [write])
    except PreconditionFailedError:
        return False
    return True
