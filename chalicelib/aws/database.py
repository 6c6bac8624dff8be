"""``ports.Database`` on DynamoDB: condition expressions, all-or-nothing transactions, retries of unprocessed keys and items."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from botocore.exceptions import ClientError

from chalicelib.aws.dynamodb import BATCH_ROWS, deserialize_item, send_until_processed, serialize_item
from chalicelib.aws.errors import translate_errors
from chalicelib.errors import OutcomeUnknownError, PreconditionFailedError, StoreUnavailableError, WriteConflictError
from chalicelib.ports import Check, Clause, Delete, Key, Put, Row, RowCondition, Write

_READ_KEYS = 100
_CONTENT_TYPE = "application/x-amz-json"


@dataclass(frozen=True, slots=True)
class Schema:
    """A table's physical name and key attributes; ``sort`` is empty if it has no sort key."""

    name: str
    partition: str
    sort: str = ""

    def key(self, key: Key) -> dict[str, Any]:
        """The attributes of a key."""
        return {self.partition: key.partition} | ({self.sort: key.sort} if self.sort else {})


class DynamoDbDatabase:
    """``client`` is a thread-safe boto3 DynamoDB client; ``schemas`` are by logical name. All reads are strongly consistent."""

    def __init__(self, client: Any, schemas: Mapping[str, Schema], pause: Callable[[float], None] = time.sleep) -> None:
        self._client, self._schemas, self._pause = client, schemas, pause
        self._logical = {schema.name: table for table, schema in schemas.items()}

    def get_many(self, keys: Sequence[Key]) -> Mapping[Key, Row]:
        """See the port. One BatchGetItem per 100 keys, one GetItem for a single key."""
        unique = list(dict.fromkeys(keys))
        if len(unique) == 1:
            return self._get_one(unique[0])
        rows: dict[Key, Row] = {}
        for first in range(0, len(unique), _READ_KEYS):
            self._get_batch(self._request_items(unique[first : first + _READ_KEYS]), rows)
        return rows

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
        """See the port. One Query."""
        first = first or None  # all keys sort after the empty string, which DynamoDB does not accept as a key
        if last is not None and (first or "") >= last and first != last:
            return [], False  # DynamoDB rejects an empty range
        schema = self._schemas[table]
        with translate_errors("query", schema.name, write=False):
            answer = self._client.query(
                TableName=schema.name,
                **_selection(schema, partition, first, last, only),
                Limit=limit,
                ScanIndexForward=not newest_first,
                ConsistentRead=True,
            )
        items = _check_response(answer, write=False)["Items"]
        return [deserialize_item(row) for row in items], "LastEvaluatedKey" in answer

    def put_many(self, rows: Sequence[Put]) -> None:
        """See the port. One BatchWriteItem per 25 rows of any tables."""
        if len({row.key for row in rows}) < len(rows):
            raise ValueError("a row is written twice")  # DynamoDB rejects it in one batch
        for first in range(0, len(rows), BATCH_ROWS):
            requests: dict[str, list[Any]] = {}
            for each in rows[first : first + BATCH_ROWS]:
                requests.setdefault(self._schemas[each.key.table].name, []).append(
                    {"PutRequest": {"Item": serialize_item(each.row)}}
                )
            send_until_processed(self._write_batch, requests, self._pause)

    def transact(self, writes: Sequence[Write]) -> None:
        """See the port. One TransactWriteItems; its client request token makes retries by botocore idempotent."""
        with translate_errors("transact_write_items", "", write=True):
            try:
                answer = self._client.transact_write_items(TransactItems=[self._action(write) for write in writes])
            except ClientError as error:
                if refusal := _refusal(error):
                    raise refusal from error
                raise
        _check_response(answer, write=True)

    def _get_one(self, key: Key) -> Mapping[Key, Row]:
        schema = self._schemas[key.table]
        with translate_errors("get_item", schema.name, write=False):
            answer = self._client.get_item(TableName=schema.name, Key=serialize_item(schema.key(key)), ConsistentRead=True)
        return {key: deserialize_item(answer["Item"])} if "Item" in _check_response(answer, write=False) else {}

    def _request_items(self, keys: Sequence[Key]) -> dict[str, Any]:
        request_items: dict[str, Any] = {}
        for key in keys:
            schema = self._schemas[key.table]
            of_table = request_items.setdefault(schema.name, {"Keys": [], "ConsistentRead": True})
            of_table["Keys"].append(serialize_item(schema.key(key)))
        return request_items

    def _get_batch(self, requests: dict[str, Any], rows: dict[Key, Row]) -> None:
        def get(request_items: dict[str, Any]) -> dict[str, Any]:
            with translate_errors("batch_get_item", ",".join(request_items), write=False):
                answer = self._client.batch_get_item(RequestItems=request_items)
            for name, items in _check_response(answer, write=False)["Responses"].items():
                for item in items:
                    row = deserialize_item(item)
                    rows[self._key_of(name, row)] = row
            left: dict[str, Any] = answer.get("UnprocessedKeys") or {}
            return left

        send_until_processed(get, requests, self._pause)

    def _write_batch(self, requests: dict[str, Any]) -> dict[str, Any]:
        with translate_errors("batch_write_item", ",".join(requests), write=True):
            answer = self._client.batch_write_item(RequestItems=requests)
        left: dict[str, Any] = _check_response(answer, write=True).get("UnprocessedItems") or {}
        return left

    def _key_of(self, name: str, row: Row) -> Key:
        table = self._logical[name]
        schema = self._schemas[table]
        return Key(table, row[schema.partition], row[schema.sort] if schema.sort else "")

    def _action(self, write: Write) -> dict[str, Any]:
        schema = self._schemas[write.key.table]
        arguments = {"TableName": schema.name} | _condition(write.when)
        if isinstance(write, Put):
            return {"Put": {"Item": serialize_item(write.row)} | arguments}
        kind = "Delete" if isinstance(write, Delete) else "ConditionCheck"
        assert kind == "Delete" or isinstance(write, Check)
        return {kind: {"Key": serialize_item(schema.key(write.key))} | arguments}


def _check_response(answer: dict[str, Any], *, write: bool) -> dict[str, Any]:
    """Raises for a response that is not from DynamoDB: a proxy's 200 does not show whether the request was executed."""
    kind = str(answer.get("ResponseMetadata", {}).get("HTTPHeaders", {}).get("content-type", ""))
    if not kind.startswith(_CONTENT_TYPE):
        raise (OutcomeUnknownError if write else StoreUnavailableError)(f"not a DynamoDB response content_type={kind!r}")
    return answer


def _selection(schema: Schema, partition: str, first: str | None, last: str | None, only: str | None) -> dict[str, Any]:
    """Arguments of a query. Uses placeholders for attribute names, which may be reserved words."""
    bounds = {":first": first, ":last": last}
    values = {name: value for name, value in bounds.items() if value is not None}
    both, names = len(values) == 2, {"#partition": schema.partition} | ({"#sort": schema.sort} if values else {})
    range_ = (
        " AND #sort BETWEEN :first AND :last"
        if both
        else " AND #sort >= :first"
        if first
        else " AND #sort <= :last"
        if last
        else ""
    )
    return {
        "KeyConditionExpression": f"#partition = :partition{range_}",
        **({"ProjectionExpression": "#only"} if only else {}),
        "ExpressionAttributeNames": names | ({"#only": only} if only else {}),
        "ExpressionAttributeValues": serialize_item({":partition": partition, **values}),
    }


def _condition(when: RowCondition) -> dict[str, Any]:
    if not when:
        return {}
    names: dict[str, str] = {}
    values: dict[str, Any] = {}
    either = [" AND ".join(_clause(clause, names, values) for clause in clauses) for clauses in when]
    expression = {"ConditionExpression": " OR ".join(f"({each})" for each in either), "ExpressionAttributeNames": names}
    return expression | ({"ExpressionAttributeValues": serialize_item(values)} if values else {})


def _clause(clause: Clause, names: dict[str, str], values: dict[str, Any]) -> str:
    path = ".".join(f"#{name}" for name in clause.path)
    names |= {f"#{name}": name for name in clause.path}
    if clause.operator == "absent":
        return f"attribute_not_exists({path})"
    placeholder = f":v{len(values)}"
    values[placeholder] = clause.value
    if clause.operator == "!=":  # DynamoDB's <> is true for a missing attribute
        return f"attribute_exists({path}) AND {path} <> {placeholder}"
    return f"{path} {clause.operator} {placeholder}"


def _refusal(error: ClientError) -> Exception | None:
    """Our error for a cancelled transaction: a false condition, or a conflict with another transaction. None for other errors."""
    code = error.response["Error"]["Code"]
    if code in ("TransactionInProgressException", "TransactionConflictException"):
        return WriteConflictError(f"conflict with another transaction code={code}")
    if code != "TransactionCanceledException":
        return None
    reasons = {reason.get("Code") for reason in error.response.get("CancellationReasons", ())}
    if "ConditionalCheckFailed" in reasons:
        return PreconditionFailedError("a condition of a transaction is false")
    if "TransactionConflict" in reasons:
        return WriteConflictError("conflict with another transaction at one of the rows")
    return None
