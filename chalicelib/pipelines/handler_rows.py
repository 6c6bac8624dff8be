"""Checks the rows that handlers add to a checkpoint's transaction. The store would refuse the transaction as a whole, without a word
about whose row is wrong: no checkpoint would be committed any more, and no handler counted the error."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from decimal import Decimal

from chalicelib.errors import InvalidInputError
from chalicelib.pipelines.ports import MAX_COMMITTED_WRITES
from chalicelib.ports import Check, Delete, Put, Write

MAX_ALL_WRITES = 95
"""Of all handlers; the rest of a transaction's hundred are the checkpoint's."""
MAX_ROW_BYTES = 390 * 1024
"""DynamoDB's limit is 400 KiB, with the names of attributes and some bytes for each."""
_MAX_DEPTH = 30
_MAX_NUMBER = 10**38


def checked_writes(pending: Iterable[object], others: Sequence[Write]) -> list[Write]:
    """The writes of a handler, which do not clash with those of ``others``. Raises InvalidInputError if no transaction can contain them."""
    writes = [_write_of(each) for each in pending]
    if len(writes) > MAX_COMMITTED_WRITES or len(writes) + len(others) > MAX_ALL_WRITES:
        raise InvalidInputError(
            f"a handler may add {MAX_COMMITTED_WRITES} rows to a checkpoint, all handlers {MAX_ALL_WRITES} rows={len(writes)}"
        )
    if len({each.key for each in (*writes, *others)}) < len(writes) + len(others):
        raise InvalidInputError("a row is written twice in a checkpoint")
    for each in writes:
        if isinstance(each, Put) and _size_of(each.row, 0) > MAX_ROW_BYTES:
            raise InvalidInputError(f"a handler's row must have at most {MAX_ROW_BYTES} bytes key={str(each.key)[:200]}")
    return writes


def _write_of(each: object) -> Write:
    if not isinstance(each, Put | Delete | Check):
        raise InvalidInputError(f"a handler's row must be a Put, Delete or Check type={type(each).__name__}")
    return each


def _size_of(value: object, depth: int) -> int:
    """About the stored size of a value, in bytes. Raises InvalidInputError if it cannot be stored."""
    match value:
        case str():
            return len(value.encode(errors="surrogatepass"))
        case bool() | None:
            return 1
        case int() | Decimal() if -_MAX_NUMBER < value < _MAX_NUMBER:
            return 21
        case bytes() | set() | frozenset():
            return len(value)
        case Mapping() if depth < _MAX_DEPTH:
            return sum(_size_of(str(name), depth) + _size_of(each, depth + 1) + 1 for name, each in value.items())
        case list() | tuple() if depth < _MAX_DEPTH:
            return sum(_size_of(each, depth + 1) + 1 for each in value)
    raise InvalidInputError(f"a handler's row has a value that cannot be stored type={type(value).__name__}")
