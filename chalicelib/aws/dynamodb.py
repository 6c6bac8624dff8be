"""One table of DynamoDB: plain Python values in and out, errors of ours, every page read and every leftover sent again."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from itertools import islice
from typing import Any

from boto3.dynamodb.types import TypeDeserializer, TypeSerializer
from botocore.exceptions import ClientError

from chalicelib.aws.errors import translated
from chalicelib.errors import PreconditionFailedError, StoreUnavailableError

Item = dict[str, Any]

BATCH_ROWS = 25
_MAX_LEFTOVER_ROUNDS = 7
_FIRST_PAUSE_S = 0.05  # doubled each time: 6 s in all

_serialize = TypeSerializer().serialize
_deserialize = TypeDeserializer().deserialize


@dataclass(frozen=True, slots=True)
class Kept:
    """What a conditional write left as it was: the item that is there; None: there is none."""

    item: Item | None


class Table:
    """``client`` is a boto3 DynamoDB client that threads may share. Base-table reads are strongly consistent; an index cannot be."""

    def __init__(self, client: Any, name: str, pause: Callable[[float], None] = time.sleep) -> None:
        self._client, self._name, self._pause = client, name, pause

    def get(self, key: Mapping[str, Any]) -> Item | None:
        """One GetItem."""
        with translated("get_item", self._name, write=False):
            answer = self._client.get_item(TableName=self._name, Key=packed(key), ConsistentRead=True)
        return unpacked(answer["Item"]) if "Item" in answer else None

    def get_all(self, keys: Sequence[Mapping[str, Any]]) -> list[Item]:
        """Rows of up to 100 keys, those that there are, in no order. One BatchGetItem, more where the table refuses part of it. Raises
        StoreUnavailableError when it keeps refusing."""
        rows: list[Item] = []

        def get(requests: dict[str, Any]) -> dict[str, Any]:
            with translated("batch_get_item", self._name, write=False):
                answer = self._client.batch_get_item(RequestItems=requests)
            rows.extend(unpacked(row) for row in answer["Responses"].get(self._name, []))
            left: dict[str, Any] = answer.get("UnprocessedKeys") or {}
            return left

        if keys:
            in_rounds(get, {self._name: {"Keys": [packed(key) for key in keys], "ConsistentRead": True}}, self._pause)
        return rows

    def query(self, condition: str, values: Mapping[str, Any], **options: Any) -> tuple[list[Item], Item | None]:
        """One Query: its rows, and where the next one begins (None at the end). ``options`` as boto3 names them."""
        if "IndexName" not in options:
            options["ConsistentRead"] = True
        if start := options.pop("ExclusiveStartKey", None):
            options["ExclusiveStartKey"] = packed(start)
        with translated("query", self._name, write=False):
            answer = self._client.query(
                TableName=self._name, KeyConditionExpression=condition, ExpressionAttributeValues=packed(values), **options
            )
        after = answer.get("LastEvaluatedKey")
        return [unpacked(row) for row in answer["Items"]], unpacked(after) if after else None

    def query_all(self, condition: str, values: Mapping[str, Any], **options: Any) -> Iterator[Item]:
        """Every row of a query, page after page."""
        start: Item | None = None
        while True:
            rows, start = self.query(condition, values, **options, **({"ExclusiveStartKey": start} if start else {}))
            yield from rows
            if start is None:
                return

    def put_all(self, items: Sequence[Item]) -> None:
        """Write rows, 25 a request; the same row again is the same row. Raises StoreUnavailableError when the table keeps refusing."""
        for first in range(0, len(items), BATCH_ROWS):
            self._write_batch([{"PutRequest": {"Item": packed(item)}} for item in items[first : first + BATCH_ROWS]])

    def delete(self, key: Mapping[str, Any]) -> None:
        """Remove a row. One DeleteItem."""
        with translated("delete_item", self._name, write=True):
            self._client.delete_item(TableName=self._name, Key=packed(key))

    def delete_all(self, keys: Iterable[Mapping[str, Any]]) -> None:
        """Remove rows, 25 a request. Raises StoreUnavailableError when the table keeps refusing."""
        remaining = iter(keys)
        while batch := list(islice(remaining, BATCH_ROWS)):
            self._write_batch([{"DeleteRequest": {"Key": packed(key)}} for key in batch])

    def update(self, key: Mapping[str, Any], expression: str, values: Mapping[str, Any], **options: Any) -> Item:
        """One UpdateItem; the answer is what ``ReturnValues`` asks for. Raises PreconditionFailedError when the condition is false."""
        with translated("update_item", self._name, write=True):
            answer = self._client.update_item(
                TableName=self._name,
                Key=packed(key),
                UpdateExpression=expression,
                ExpressionAttributeValues=packed(values),
                **options,
            )
        return unpacked(answer.get("Attributes", {}))

    def update_if(
        self, key: Mapping[str, Any], expression: str, values: Mapping[str, Any], condition: str, **options: Any
    ) -> Item | None:
        """One conditional UpdateItem; None when the condition is false."""
        try:
            return self.update(key, expression, values, ConditionExpression=condition, **options)
        except PreconditionFailedError:
            return None

    def put_if(self, item: Item, condition: str, values: Mapping[str, Any], **options: Any) -> Kept | None:
        """One conditional PutItem; None when it was written. ``options`` as boto3 names them."""
        return self._if("put_item", condition, values, Item=packed(item), **options)

    def delete_if(self, key: Mapping[str, Any], condition: str, values: Mapping[str, Any], **options: Any) -> Kept | None:
        """One conditional DeleteItem; None when it was removed."""
        return self._if("delete_item", condition, values, Key=packed(key), **options)

    def _if(self, operation: str, condition: str, values: Mapping[str, Any], **options: Any) -> Kept | None:
        given = {"ExpressionAttributeValues": packed(values)} if values else {}
        with translated(operation, self._name, write=True):
            try:
                getattr(self._client, operation)(
                    TableName=self._name,
                    ConditionExpression=condition,
                    ReturnValuesOnConditionCheckFailure="ALL_OLD",
                    **given,
                    **options,
                )
            except ClientError as error:
                if error.response["Error"]["Code"] != "ConditionalCheckFailedException":
                    raise
                return Kept(unpacked(error.response["Item"]) if error.response.get("Item") else None)
        return None

    def _write_batch(self, requests: list[Any]) -> None:
        def write(requests: dict[str, Any]) -> dict[str, Any]:
            with translated("batch_write_item", self._name, write=True):
                answer = self._client.batch_write_item(RequestItems=requests)
            left: dict[str, Any] = answer.get("UnprocessedItems") or {}
            return left

        in_rounds(write, {self._name: requests}, self._pause)


def in_rounds(send: Callable[[dict[str, Any]], dict[str, Any]], requests: dict[str, Any], pause: Callable[[float], None]) -> None:
    """Send a batch, and what the answer says is left of it, until nothing is. Raises StoreUnavailableError when that takes too long."""
    for attempt in range(_MAX_LEFTOVER_ROUNDS):
        requests = send(requests)
        if not requests:
            return
        pause(_FIRST_PAUSE_S * 2**attempt)
    raise StoreUnavailableError(f"the table keeps refusing part of a batch tables={','.join(requests)}")


def packed(values: Mapping[str, Any]) -> dict[str, Any]:
    """Plain values as DynamoDB's typed ones."""
    return {name: _serialize(value) for name, value in values.items()}


def unpacked(item: Mapping[str, Any]) -> Item:
    """DynamoDB's typed values as plain ones, whole numbers as ``int``, inside of maps and lists too."""
    return {name: value["S"] if "S" in value else _plain(_deserialize(value)) for name, value in item.items()}


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _plain(each) for name, each in value.items()}
    if isinstance(value, list):
        return [_plain(each) for each in value]
    return int(value) if isinstance(value, Decimal) and value == value.to_integral_value() else value
