"""Transactions that other transactions at the same rows do not stop."""

from __future__ import annotations

from collections.abc import Sequence

from chalicelib.errors import StoreUnavailableError, WriteConflictError
from chalicelib.ports import Clock, Database, Write

_TRIES = 6
_FIRST_PAUSE_S = 0.02


def transact_with_retry(database: Database, clock: Clock, writes: Sequence[Write]) -> None:
    """Apply all writes or none. A conflict with another transaction is tried again, six times in all within 0.7 s. Raises
    PreconditionFailedError, OutcomeUnknownError, and StoreUnavailableError also when the conflict does not end: nothing was applied."""
    pause_s = _FIRST_PAUSE_S
    for attempt in range(_TRIES):
        try:
            return database.transact(writes)
        except WriteConflictError as error:
            if attempt == _TRIES - 1:
                raise StoreUnavailableError(f"other transactions are at the same rows: {error} tries={_TRIES}") from error
        clock.sleep(pause_s)
        pause_s *= 2
