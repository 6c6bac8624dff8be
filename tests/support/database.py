"""``Database`` in memory: the conditions and limits of DynamoDB, for tests and for runs without AWS.

Any call can be made to fail as on DynamoDB (``failures``). A request that DynamoDB would reject raises ``RequestRejectedError``. It
counts requests, and the bytes of rows read and written as DynamoDB does, so that tests can assert exact costs.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from decimal import Decimal
from threading import RLock
from typing import Any

from chalicelib.errors import PreconditionFailedError
from chalicelib.ports import (
    MAX_PARTITION_KEY_BYTES,
    MAX_SORT_KEY_BYTES,
    MAX_TRANSACTION_WRITES,
    Check,
    Clause,
    Delete,
    Key,
    Put,
    Row,
    RowCondition,
    Write,
)
from tests.support.failures import Failures, RequestRejectedError, can_fail

_ABSENT = object()
MAX_READ_BYTES = 1024 * 1024
MAX_ROW_BYTES = 400 * 1024
MAX_TRANSACTION_BYTES = 4 * 1024 * 1024
MAX_DEPTH = 32
MAX_DIGITS = 38
BATCH_ROWS = 25


class _Partition:
    """Rows by sort key. Keys are sorted lazily, so that a million rows can be put in any order."""

    def __init__(self) -> None:
        self.rows: dict[str, Row] = {}
        self._sorted: list[str] | None = []

    def put(self, sort: str, row: Row) -> None:
        if sort not in self.rows:
            self._sorted = None
        self.rows[sort] = row

    def delete(self, sort: str) -> None:
        if self.rows.pop(sort, None) is not None:
            self._sorted = None

    def sorted(self) -> list[str]:
        if self._sorted is None:
            self._sorted = sorted(self.rows)  # by code point: the order of UTF-8 bytes
        return self._sorted


class InMemoryDatabase:
    """All tables. ``calls`` counts requests, ``read_bytes`` and ``written_bytes`` the sizes of rows as DynamoDB bills them."""

    def __init__(self) -> None:
        self.calls: Counter[str] = Counter()
        self.failures = Failures()
        self.read_bytes = 0
        self.read_rows = 0
        self.written_bytes = 0
        self._tables: dict[str, dict[str, _Partition]] = defaultdict(dict)
        self._lock = RLock()

    def rows(self, table: str) -> list[Row]:
        """Every row of a table."""
        return [row for partition in self._tables[table].values() for row in partition.rows.values()]

    def forget(self, table: str, partition: str) -> int:
        """Delete a partition. Returns the number of its rows."""
        with self._lock:
            found = self._tables[table].pop(partition, None)
            return len(found.rows) if found else 0

    @can_fail
    def get_many(self, keys: Sequence[Key]) -> Mapping[Key, Row]:
        """See the port."""
        with self._lock:
            self.calls["get_many"] += -(-len(keys) // 100)
            for key in keys:
                _check_key(key)
            found = {key: row for key in keys if (row := self._row(key)) is not None}
            self._count_read(list(found.values()))
            return found

    @can_fail
    def query(
        self,
        table: str,
        partition: str,
        first: str | None,
        last: str | None,
        *,
        limit: int,
        newest_first: bool = False,
        only: str | None = None,
    ) -> tuple[Sequence[Row], bool]:
        """See the port."""
        with self._lock:
            self.calls["query"] += 1
            for bound in (first or "", last or ""):
                _check_key(Key(table, partition, bound))
            if limit < 1:
                raise RequestRejectedError(f"a query's limit must be positive limit={limit}")
            stored = self._tables[table].get(partition)
            keys = _between(stored.sorted(), first, last) if stored else []
            ordered = reversed(keys) if newest_first else iter(keys)
            rows: list[Row] = []
            size = 0
            for key in ordered:
                if stored is None or len(rows) == limit or size >= MAX_READ_BYTES:
                    break
                rows.append(stored.rows[key])
                size += row_bytes(stored.rows[key])
            self._count_read(rows)
            more = len(rows) < len(keys) or len(rows) == limit
            return [{only: row[only]} for row in rows] if only else rows, more

    @can_fail
    def put_many(self, rows: Sequence[Put]) -> None:
        """See the port."""
        if len({row.key for row in rows}) < len(rows):
            raise RequestRejectedError("a row is written twice")
        with self._lock:
            self.calls["put_many"] += -(-len(rows) // BATCH_ROWS)
            for first in range(0, len(rows), BATCH_ROWS):
                batch = rows[first : first + BATCH_ROWS]
                for each in batch:
                    _check_write(each)
                for each in batch:
                    self._apply(each)

    @can_fail
    def transact(self, writes: Sequence[Write]) -> None:
        """See the port."""
        if not 0 < len(writes) <= MAX_TRANSACTION_WRITES or len({write.key for write in writes}) < len(writes):
            raise RequestRejectedError(f"a transaction has 1 to 100 writes of distinct rows count={len(writes)}")
        with self._lock:
            self.calls["transact"] += 1
            size = sum(_check_write(write) for write in writes)
            if size > MAX_TRANSACTION_BYTES:
                raise RequestRejectedError(f"a transaction has at most 4 MB size={size}")
            for write in writes:
                if not holds(write.when, self._row(write.key)):
                    raise PreconditionFailedError(f"a condition of a transaction is false key={write.key}")
            for write in writes:
                self._apply(write)

    def _row(self, key: Key) -> Row | None:
        partition = self._tables[key.table].get(key.partition)
        return partition.rows.get(key.sort) if partition else None

    def _apply(self, write: Write) -> None:
        partition = self._tables[write.key.table].setdefault(write.key.partition, _Partition())
        if isinstance(write, Put):
            partition.put(write.key.sort, write.row)
            self.written_bytes += row_bytes(write.row)
        elif isinstance(write, Delete):
            partition.delete(write.key.sort)
        else:
            assert isinstance(write, Check)

    def _count_read(self, rows: Sequence[Row]) -> None:
        self.read_rows += len(rows)
        self.read_bytes += sum(map(row_bytes, rows))


def holds(when: RowCondition, row: Row | None) -> bool:
    """Whether a row satisfies a condition."""
    return not when or any(all(_is_true(clause, row) for clause in clauses) for clauses in when)


def row_bytes(row: Row) -> int:
    """The size of a row by DynamoDB's rules: names and values."""
    return sum(_text_bytes(name) + _value_bytes(value) for name, value in row.items())


def _check_key(key: Key) -> None:
    partition, sort = _text_bytes(key.partition), _text_bytes(key.sort)
    if not 0 < partition <= MAX_PARTITION_KEY_BYTES or sort > MAX_SORT_KEY_BYTES:
        raise RequestRejectedError(f"a partition key has 1 to 2,048 bytes, a sort key at most 1,024 key={str(key)[:200]}")


def _check_write(write: Write) -> int:
    """The size of a write in bytes. Raises RequestRejectedError if DynamoDB would reject it."""
    _check_key(write.key)
    if not isinstance(write, Put):
        return 0
    _check_value(write.row)
    size = row_bytes(write.row)
    if size > MAX_ROW_BYTES:
        raise RequestRejectedError(f"a row has at most 400 KB size={size} key={str(write.key)[:200]}")
    return size


def _check_value(value: Any, depth: int = 0) -> None:
    if isinstance(value, float):
        raise TypeError("a number must be an int or a Decimal")  # as boto3
    if depth > MAX_DEPTH:
        raise RequestRejectedError("a row is nested at most 32 levels deep")
    if isinstance(value, int | Decimal) and not isinstance(value, bool):
        if _digits(value) > MAX_DIGITS:
            raise RequestRejectedError("a number has at most 38 digits")
    elif isinstance(value, Mapping):
        for name, item in value.items():
            _text_bytes(name)
            _check_value(item, depth + 1)
    elif isinstance(value, list | tuple):
        for item in value:
            _check_value(item, depth + 1)


def _digits(number: int | Decimal) -> int:
    """Significant digits: without leading and trailing zeros."""
    return len("".join(map(str, Decimal(number).as_tuple().digits)).strip("0"))


def _text_bytes(text: str) -> int:
    try:
        return len(text.encode())
    except UnicodeEncodeError as error:
        raise RequestRejectedError(f"a text must be valid utf-8 text={text[:100]!r}") from error


def _is_true(clause: Clause, row: Row | None) -> bool:
    value: Any = row if row is not None else _ABSENT
    for name in clause.path:
        value = value.get(name, _ABSENT) if isinstance(value, Mapping) else _ABSENT
    if clause.operator == "absent":
        return value is _ABSENT
    if value is _ABSENT:
        return False
    match clause.operator:
        case "=":
            return bool(value == clause.value)
        case "!=":
            return bool(value != clause.value)
        case "<":
            return bool(value < clause.value)
        case _:
            return bool(value > clause.value)


def _value_bytes(value: Any) -> int:
    if isinstance(value, str):
        return _text_bytes(value)
    if value is None or isinstance(value, bool):
        return 1
    if isinstance(value, int | Decimal):
        return len(str(value)) // 2 + 1
    if isinstance(value, Mapping):
        return 3 + sum(1 + len(name.encode()) + _value_bytes(item) for name, item in value.items())
    return 3 + sum(1 + _value_bytes(item) for item in value)


def _between(keys: list[str], first: str | None, last: str | None) -> list[str]:
    return keys[0 if first is None else bisect_left(keys, first) : None if last is None else bisect_right(keys, last)]
