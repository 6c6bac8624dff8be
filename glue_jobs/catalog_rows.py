"""The catalog's rows of runs that are gone: they would expire by themselves, but lists would name the runs until then."""

from __future__ import annotations

import time
from collections.abc import Iterator
from itertools import islice
from typing import Any

from chalicelib.aws.dynamodb import BATCH_ROWS, in_rounds, packed
from chalicelib.aws.errors import translated
from chalicelib.catalog.segments import run_key
from chalicelib.ports import Run

_NAMES = {"#run": "run", "#at": "at"}


class DynamoDbRows:
    """``expiry.CatalogRows`` on the two tables of runs. ``client`` is boto3's."""

    def __init__(self, client: Any, runs_table: str, segments_table: str) -> None:
        self._client, self._runs, self._segments = client, runs_table, segments_table

    def forget(self, run: Run) -> None:
        """A DeleteItem, a Query for each MB of segments' rows, a request for 25 of them."""
        with translated("delete_item", self._runs, write=True):
            self._client.delete_item(TableName=self._runs, Key=packed({"fqn": run.fqn, "run_id": run.run_id}))
        keys = self._keys(run)
        while batch := list(islice(keys, BATCH_ROWS)):
            self._delete([{"DeleteRequest": {"Key": key}} for key in batch])

    def _keys(self, run: Run) -> Iterator[dict[str, Any]]:
        start: dict[str, Any] = {}
        while True:
            with translated("query", self._segments, write=False):
                answer = self._client.query(
                    TableName=self._segments,
                    KeyConditionExpression="#run = :run",
                    ExpressionAttributeNames=_NAMES,
                    ExpressionAttributeValues=packed({":run": run_key(run)}),
                    ProjectionExpression="#run, #at",
                    ConsistentRead=True,
                    **start,
                )
            yield from answer["Items"]
            if "LastEvaluatedKey" not in answer:
                return
            start = {"ExclusiveStartKey": answer["LastEvaluatedKey"]}

    def _delete(self, requests: list[Any]) -> None:
        def write(requests: dict[str, Any]) -> dict[str, Any]:
            with translated("batch_write_item", self._segments, write=True):
                answer = self._client.batch_write_item(RequestItems=requests)
            left: dict[str, Any] = answer.get("UnprocessedItems") or {}
            return left

        in_rounds(write, {self._segments: requests}, time.sleep)
