"""Data Prepper's algorithm over the same table, as a baseline, as documented, without changes.

For each acquisition it queries the index for assigned, closed and waiting partitions, in order of priority and in pages of 1, 1 and
5, and tries them in order. To end one it reads the item (eventually consistent), compares the owner, and writes it. It creates
partitions sequentially with a read and a write each.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

from botocore.exceptions import ClientError

from chalicelib.aws.dynamodb import deserialize_item, serialize_item

TIMEOUT = timedelta(minutes=10)
_PAGES = (("ASSIGNED", "partitionOwnershipTimeout", 1), ("CLOSED", "reOpenAt", 1), ("UNASSIGNED", None, 5))


class DataPrepper:
    """One node; ``owner``: its host name."""

    def __init__(self, client: Any, table: str, source: str, owner: str) -> None:
        self._client, self._table, self._source, self._owner = client, table, f"{source}|PARTITION", owner

    def create_partitions(self, keys: list[str]) -> None:
        """Create the missing ones."""
        for key in keys:
            if self._get(key) is None:
                row = {"sourceIdentifier": self._source, "sourcePartitionKey": key, "closedCount": 0, "version": 0}
                self._put(row | self._status("UNASSIGNED", _text(_now())), "attribute_not_exists(sourceIdentifier)", {})

    def next_partition(self) -> dict[str, Any] | None:
        """Acquire a partition and return its item."""
        for status, until, page in _PAGES:
            for item in self._items(status, page):
                if until and item.get(until) and _text(_now()) < item[until]:
                    break
                timeout = _text(_now() + TIMEOUT)
                item |= {"partitionOwner": self._owner, "partitionOwnershipTimeout": timeout, **self._status("ASSIGNED", timeout)}
                if self._update(item):
                    return item
        return None

    def complete(self, key: str) -> None:
        """Raises LookupError if this host does not own the item."""
        item = self._get(key)
        if item is None or item.get("partitionOwner") != self._owner:
            raise LookupError(f"not owned key={key}")
        for name in ("partitionOwner", "partitionOwnershipTimeout", "reOpenAt"):
            item.pop(name, None)
        if not self._update(item | self._status("COMPLETED", item["partitionPriority"])):
            raise LookupError(f"not updated key={key}")

    def _items(self, status: str, page: int) -> Iterator[dict[str, Any]]:
        start: dict[str, Any] = {}
        while True:
            answer = self._client.query(
                TableName=self._table,
                IndexName="source-status",
                KeyConditionExpression="sourceStatusCombinationKey = :status",
                ExpressionAttributeValues=serialize_item({":status": f"{self._source}|{status}"}),
                Limit=page,
                **start,
            )
            yield from map(deserialize_item, answer["Items"])
            if "LastEvaluatedKey" not in answer:
                return
            start = {"ExclusiveStartKey": answer["LastEvaluatedKey"]}

    def _get(self, key: str) -> dict[str, Any] | None:
        wanted = {"sourceIdentifier": self._source, "sourcePartitionKey": key}
        answer = self._client.get_item(TableName=self._table, Key=serialize_item(wanted))
        return deserialize_item(answer["Item"]) if "Item" in answer else None

    def _update(self, item: dict[str, Any]) -> bool:
        old = item["version"]
        condition = "attribute_exists(sourceIdentifier) AND attribute_exists(sourcePartitionKey) AND version = :old"
        return self._put(item | {"version": old + 1}, condition, {":old": old})

    def _put(self, item: dict[str, Any], condition: str, values: dict[str, Any]) -> bool:
        given = {"ExpressionAttributeValues": serialize_item(values)} if values else {}
        try:
            self._client.put_item(TableName=self._table, Item=serialize_item(item), ConditionExpression=condition, **given)
        except ClientError as error:
            if error.response["Error"]["Code"] != "ConditionalCheckFailedException":
                raise
            return False
        return True

    def _status(self, status: str, priority: str) -> dict[str, str]:
        combination = f"{self._source}|{status}"
        return {"sourcePartitionStatus": status, "sourceStatusCombinationKey": combination, "partitionPriority": priority}


def _now() -> datetime:
    return datetime.fromtimestamp(time.time(), UTC)


def _text(moment: datetime) -> str:
    return moment.isoformat(timespec="microseconds").replace("+00:00", "Z")
