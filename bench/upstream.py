"""The algorithm of Planet's datalake over the same tables, as a baseline: the AWS requests of its ingester and its API.

A GET of the whole object for its metadata, a put for each day bucket, a conditional put in ``latest``, a publish; a query for each
day of an interval, whose rows are filtered afterwards; the latest by reading every record of day after day, backwards.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from typing import Any

import boto3
from botocore.exceptions import ClientError

DAY_MS = 86_400_000
MAX_RESULTS = 100


class Upstream:
    """Works on the given bucket and the tables ``files`` and ``latest``."""

    def __init__(self, files: str, latest: str, topic_arn: str) -> None:
        self._s3, self._sns = boto3.resource("s3"), boto3.client("sns")
        self._files, self._latest = boto3.resource("dynamodb").Table(files), boto3.resource("dynamodb").Table(latest)
        self._topic_arn = topic_arn

    def ingest(self, bucket: str, key: str) -> None:
        """Process one notification."""
        started_s = time.time()
        found = self._s3.Object(bucket, key).get()
        found["Body"].read()
        metadata = json.loads(found["Metadata"]["datalake"])
        url, size = f"s3://{bucket}/{key}", found["ContentLength"]
        create_time = int(found["LastModified"].timestamp() * 1000)
        for day in range(metadata["start"] // DAY_MS, (metadata["end"] or metadata["start"]) // DAY_MS + 1):
            record = _record(url, metadata, day, create_time, size)
            self._put_latest(record)
            self._files.put_item(Item=record)
        told = {"url": url, "size": size, "create_time": create_time, "metadata": metadata}
        report = {
            "version": 0,
            "status": "success",
            "start": int(started_s * 1000),
            "duration": time.time() - started_s,
            "records": [told],
        }
        self._sns.publish(TopicArn=self._topic_arn, Message=json.dumps(report))

    def list_(self, start_ms: int, end_ms: int, what: str) -> str:
        """The first page of an interval, as JSON."""
        results: list[dict[str, Any]] = []
        for day in range(start_ms // DAY_MS, end_ms // DAY_MS + 1):
            self._query_day(day, results, start_ms, end_ms, what)
        seen: dict[str, Any] = {}
        for record in results:
            seen.setdefault(record["metadata"]["id"], _answer(record))
        return json.dumps({"records": list(seen.values()), "next": None}, default=int)

    def latest(self, what: str, where: str, lookback_days: int = 14) -> str:
        """The latest file of a source, as JSON."""
        today = int(time.time() * 1000) // DAY_MS
        for day in range(today, today - lookback_days - 1, -1):
            records = list(self._all_of(day, what, where))
            if records:
                best = max(records, key=lambda record: (record["metadata"]["start"], record["create_time"]))
                return json.dumps(_answer(best), default=int)
        raise LookupError(f"no file what={what} where={where}")

    def _put_latest(self, record: dict[str, Any]) -> None:
        metadata = record["metadata"]
        try:
            self._latest.put_item(
                Item=record | {"what_where_key": f"{metadata['what']}:{metadata['where']}"},
                ConditionExpression="attribute_not_exists(what_where_key) OR metadata.#start < :start",
                ExpressionAttributeNames={"#start": "start"},
                ExpressionAttributeValues={":start": metadata["start"]},
            )
        except ClientError as error:
            if error.response["Error"]["Code"] != "ConditionalCheckFailedException":
                raise

    def _query_day(self, day: int, results: list[dict[str, Any]], start_ms: int, end_ms: int, what: str) -> None:
        options: dict[str, Any] = {}
        while len(results) < MAX_RESULTS:
            answer = self._files.query(
                KeyConditionExpression="time_index_key = :key",
                ExpressionAttributeValues={":key": f"{day}:{what}"},
                Limit=MAX_RESULTS - len(results),
                **options,
            )
            results += [record for record in answer["Items"] if _overlaps(record["metadata"], start_ms, end_ms)]
            if "LastEvaluatedKey" not in answer:
                return
            options = {"ExclusiveStartKey": answer["LastEvaluatedKey"]}

    def _all_of(self, day: int, what: str, where: str) -> Iterator[dict[str, Any]]:
        options: dict[str, Any] = {}
        while True:
            answer = self._files.query(
                KeyConditionExpression="time_index_key = :key AND begins_with(range_key, :where)",
                ExpressionAttributeValues={":key": f"{day}:{what}", ":where": f"{where}:"},
                **options,
            )
            yield from answer["Items"]
            if "LastEvaluatedKey" not in answer:
                return
            options = {"ExclusiveStartKey": answer["LastEvaluatedKey"]}


def _record(url: str, metadata: dict[str, Any], day: int, create_time: int, size: int) -> dict[str, Any]:
    return {
        "version": 0,
        "url": url,
        "time_index_key": f"{day}:{metadata['what']}",
        "work_id_index_key": f"{metadata['work_id'] or 'null' + metadata['id']}:{metadata['what']}",
        "range_key": f"{metadata['where']}:{metadata['id']}",
        "create_time": create_time,
        "size": size,
        "metadata": metadata,
    }


def _overlaps(metadata: dict[str, Any], start_ms: int, end_ms: int) -> bool:
    end = metadata["start"] if metadata.get("end") is None else metadata["end"]
    return bool(end >= start_ms and metadata["start"] <= end_ms)


def _answer(record: dict[str, Any]) -> dict[str, Any]:
    http_url = f"http://localhost/api/v0/archive/files/{record['metadata']['id']}/data"
    return {name: record[name] for name in ("url", "metadata", "create_time", "size")} | {"http_url": http_url}
