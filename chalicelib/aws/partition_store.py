"""``PartitionStore`` on DynamoDB: one request per call, on a table and index in Data Prepper's layout."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from chalicelib.aws.dynamodb import RejectedWrite, Table
from chalicelib.coordination.partition import (
    COMBINATION,
    INDEX,
    KEY,
    OWNER,
    PRIORITY,
    SOURCE,
    VERSION,
    ItemTtl,
    Partition,
    from_row,
    index_key,
    to_row,
)
from chalicelib.coordination.store import ConditionFailed, IndexPosition, PartitionQuery

_ABSENT = f"attribute_not_exists({SOURCE}) AND attribute_not_exists({KEY})"
_PRESENT = f"attribute_exists({SOURCE}) AND attribute_exists({KEY})"


class DynamoDbPartitionStore:
    """``prepare`` creates or checks the table; ``initialize`` calls it. There is no request before that."""

    def __init__(self, table: Table, item_ttl: ItemTtl | None = None, prepare: Callable[[], None] = lambda: None) -> None:
        self._table, self._retention, self._prepare = table, item_ttl or ItemTtl(), prepare

    @property
    def item_ttl(self) -> ItemTtl:
        """See the port."""
        return self._retention

    def initialize(self) -> None:
        """See the port."""
        self._prepare()

    def get(self, source: str, key: str) -> Partition | None:
        """See the port. One GetItem."""
        row = self._table.get({SOURCE: source, KEY: key})
        return from_row(row) if row else None

    def query(self, query: PartitionQuery) -> tuple[Sequence[Partition], IndexPosition | None]:
        """See the port. One Query of the index."""
        if query.first is not None and query.last is not None and query.first > query.last:
            return [], None  # DynamoDB rejects such a BETWEEN
        range_, values = _range(query)
        start = {"ExclusiveStartKey": _start(query, query.after)} if query.after else {}
        rows, after = self._table.query(
            f"{COMBINATION} = :combination{range_}",
            {":combination": index_key(query.source, query.status), **values},
            IndexName=INDEX,
            Limit=query.limit,
            ScanIndexForward=not query.newest_first,
            **start,
        )
        return [from_row(row) for row in rows], IndexPosition(after[PRIORITY], after[KEY]) if after else None

    def create(self, new: Partition) -> ConditionFailed | None:
        """See the port. One PutItem."""
        return self._outcome(new, self._table.put_if(to_row(new), _ABSENT, {}))

    def replace(self, old: Partition, new: Partition) -> ConditionFailed | None:
        """See the port. One PutItem."""
        return self._outcome(old, self._table.put_if(to_row(new), *_exactly(old)))

    def delete(self, old: Partition) -> ConditionFailed | None:
        """See the port. One DeleteItem."""
        return self._outcome(old, self._table.delete_if({SOURCE: old.source, KEY: old.key}, *_exactly(old)))

    def _outcome(self, partition: Partition, failure: RejectedWrite | None) -> ConditionFailed | None:
        if failure is None:
            return None
        if failure.item is None:  # no such item, or a service that does not return it
            return ConditionFailed(self.get(partition.source, partition.key))
        return ConditionFailed(from_row(failure.item))


def _exactly(old: Partition) -> tuple[str, Mapping[str, Any]]:
    """The condition that the item is unchanged. The version is not enough: a later item of the same key may have the same one."""
    clauses = [_PRESENT, f"{VERSION} = :version"]
    values: dict[str, Any] = {":version": old.version}
    for name, value in ((OWNER, old.owner), (PRIORITY, old.priority or None)):
        placeholder = f":{name}"
        if value is None:
            clauses.append(f"(attribute_not_exists({name}) OR {name} = {placeholder})")
        else:
            clauses.append(f"{name} = {placeholder}")
        values[placeholder] = value
    return " AND ".join(clauses), values


def _range(query: PartitionQuery) -> tuple[str, dict[str, str]]:
    if query.first is not None and query.last is not None:
        return f" AND {PRIORITY} BETWEEN :first AND :last", {":first": query.first, ":last": query.last}
    if query.first is not None:
        return f" AND {PRIORITY} >= :first", {":first": query.first}
    return (f" AND {PRIORITY} <= :last", {":last": query.last}) if query.last is not None else ("", {})


def _start(query: PartitionQuery, after: IndexPosition) -> dict[str, str]:
    return {SOURCE: query.source, KEY: after.key, COMBINATION: index_key(query.source, query.status), PRIORITY: after.priority}
