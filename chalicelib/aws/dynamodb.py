"""One DynamoDB table: plain Python values, translated errors, all pages of queries, and retries of unprocessed items."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from itertools import islice
from typing import Any

from boto3.dynamodb.types import TypeDeserializer, TypeSerializer
from botocore.exceptions import ClientError

from chalicelib.aws.errors import translate_errors
from chalicelib.errors import PreconditionFailedError, StoreUnavailableError

Item = dict[str, Any]

BATCH_ROWS = 25
_MAX_LEFTOVER_ROUNDS = 7
_FIRST_PAUSE_S = 0.05  # doubled each time: 6 s in all

_serialize = TypeSerializer().serialize
_deserialize = TypeDeserializer().deserialize


@dataclass(frozen=True, slots=True)
class RejectedWrite:
    """A conditional write whose condition was false. ``item``: the stored item; None if there is none."""

    item: Item | None


class Table:
    """``client`` is a thread-safe boto3 DynamoDB client. Reads of the base table are strongly consistent; reads of an index cannot be."""

    def __init__(self, client: Any, name: str, pause: Callable[[float], None] = time.sleep) -> None:
        self._client, self._name, self._pause = client, name, pause

    def get(self, key: Mapping[str, Any]) -> Item | None:
        """One GetItem."""
        with translate_errors("get_item", self._name, write=False):
            answer = self._client.get_item(TableName=self._name, Key=serialize_item(key), ConsistentRead=True)
        return deserialize_item(answer["Item"]) if "Item" in answer else None

    def get_all(self, keys: Sequence[Mapping[str, Any]]) -> list[Item]:
        """The existing rows of up to 100 keys, unordered. One BatchGetItem, more for unprocessed keys. Raises StoreUnavailableError if
        keys stay unprocessed."""
        rows: list[Item] = []

        def get(requests: dict[str, Any]) -> dict[str, Any]:
            with translate_errors("batch_get_item", self._name, write=False):
                answer = self._client.batch_get_item(RequestItems=requests)
            rows.extend(deserialize_item(row) for row in answer["Responses"].get(self._name, []))
            left: dict[str, Any] = answer.get("UnprocessedKeys") or {}
            return left

        if keys:
            send_until_processed(
                get, {self._name: {"Keys": [serialize_item(key) for key in keys], "ConsistentRead": True}}, self._pause
            )
        return rows

    def query(self, condition: str, values: Mapping[str, Any], **options: Any) -> tuple[list[Item], Item | None]:
        """One Query: its rows, and the start key of the next page (None at the end). ``options`` are boto3's."""
        if "IndexName" not in options:
            options["ConsistentRead"] = True
        if start := options.pop("ExclusiveStartKey", None):
            options["ExclusiveStartKey"] = serialize_item(start)
        with translate_errors("query", self._name, write=False):
            answer = self._client.query(
                TableName=self._name, KeyConditionExpression=condition, ExpressionAttributeValues=serialize_item(values), **options
            )
        after = answer.get("LastEvaluatedKey")
        return [deserialize_item(row) for row in answer["Items"]], deserialize_item(after) if after else None

    def query_all(self, condition: str, values: Mapping[str, Any], **options: Any) -> Iterator[Item]:
        """All rows of a query, page by page."""
        start: Item | None = None
        while True:
            rows, start = self.query(condition, values, **options, **({"ExclusiveStartKey": start} if start else {}))
            yield from rows
            if start is None:
                return

    def put(self, item: Item) -> None:
        """Writes a row in place of any other. One PutItem."""
        with translate_errors("put_item", self._name, write=True):
            self._client.put_item(TableName=self._name, Item=serialize_item(item))

    def put_all(self, items: Sequence[Item]) -> None:
        """Writes rows, 25 per request. Idempotent. Raises StoreUnavailableError if items stay unprocessed."""
        for first in range(0, len(items), BATCH_ROWS):
            self._write_batch([{"PutRequest": {"Item": serialize_item(item)}} for item in items[first : first + BATCH_ROWS]])

    def delete(self, key: Mapping[str, Any]) -> None:
        """Deletes a row. One DeleteItem."""
        with translate_errors("delete_item", self._name, write=True):
            self._client.delete_item(TableName=self._name, Key=serialize_item(key))

    def delete_all(self, keys: Iterable[Mapping[str, Any]]) -> None:
        """Deletes rows, 25 per request. Raises StoreUnavailableError if items stay unprocessed."""
        remaining = iter(keys)
        while batch := list(islice(remaining, BATCH_ROWS)):
            self._write_batch([{"DeleteRequest": {"Key": serialize_item(key)}} for key in batch])

    def update(self, key: Mapping[str, Any], expression: str, values: Mapping[str, Any], **options: Any) -> Item:
        """One UpdateItem; returns the attributes that ``ReturnValues`` selects. Raises PreconditionFailedError if the condition is
        false."""
        with translate_errors("update_item", self._name, write=True):
            answer = self._client.update_item(
                TableName=self._name,
                Key=serialize_item(key),
                UpdateExpression=expression,
                ExpressionAttributeValues=serialize_item(values),
                **options,
            )
        return deserialize_item(answer.get("Attributes", {}))

    def update_if(
        self, key: Mapping[str, Any], expression: str, values: Mapping[str, Any], condition: str, **options: Any
    ) -> Item | None:
        """One conditional UpdateItem; None if the condition is false."""
        try:
            return self.update(key, expression, values, ConditionExpression=condition, **options)
        except PreconditionFailedError:
            return None

    def put_if(self, item: Item, condition: str, values: Mapping[str, Any], **options: Any) -> RejectedWrite | None:
        """One conditional PutItem; None if it was written. ``options`` are boto3's."""
        return self._if("put_item", condition, values, Item=serialize_item(item), **options)

    def delete_if(self, key: Mapping[str, Any], condition: str, values: Mapping[str, Any], **options: Any) -> RejectedWrite | None:
        """One conditional DeleteItem; None if it was deleted."""
        return self._if("delete_item", condition, values, Key=serialize_item(key), **options)

    def _if(self, operation: str, condition: str, values: Mapping[str, Any], **options: Any) -> RejectedWrite | None:
        value_arguments = {"ExpressionAttributeValues": serialize_item(values)} if values else {}
        with translate_errors(operation, self._name, write=True):
            try:
                getattr(self._client, operation)(
                    TableName=self._name,
                    ConditionExpression=condition,
                    ReturnValuesOnConditionCheckFailure="ALL_OLD",
                    **value_arguments,
                    **options,
                )
            except ClientError as error:
                if error.response["Error"]["Code"] != "ConditionalCheckFailedException":
                    raise
                return RejectedWrite(deserialize_item(error.response["Item"]) if error.response.get("Item") else None)
        return None

    def _write_batch(self, requests: list[Any]) -> None:
        def write(requests: dict[str, Any]) -> dict[str, Any]:
            with translate_errors("batch_write_item", self._name, write=True):
                answer = self._client.batch_write_item(RequestItems=requests)
            left: dict[str, Any] = answer.get("UnprocessedItems") or {}
            return left

        send_until_processed(write, {self._name: requests}, self._pause)


def send_until_processed(
    send: Callable[[dict[str, Any]], dict[str, Any]], requests: dict[str, Any], pause: Callable[[float], None]
) -> None:
    """Sends a batch, then its unprocessed rest until nothing is left. Raises StoreUnavailableError if the table keeps refusing a part."""
    for attempt in range(_MAX_LEFTOVER_ROUNDS):
        requests = send(requests)
        if not requests:
            return
        pause(_FIRST_PAUSE_S * 2**attempt)
    raise StoreUnavailableError(f"the table keeps refusing part of a batch tables={','.join(requests)}")


def serialize_item(values: Mapping[str, Any]) -> dict[str, Any]:
    """Plain values to DynamoDB's typed values."""
    return {name: _serialize(value) for name, value in values.items()}


def deserialize_item(item: Mapping[str, Any]) -> Item:
    """DynamoDB's typed values to plain ones; integral numbers become ``int``, in nested maps and lists too."""
    return {name: value["S"] if "S" in value else _plain(_deserialize(value)) for name, value in item.items()}


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _plain(each) for name, each in value.items()}
    if isinstance(value, list):
        return [_plain(each) for each in value]
    return int(value) if isinstance(value, Decimal) and value == value.to_integral_value() else value
