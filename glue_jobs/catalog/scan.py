"""Parallel scans of complete tables."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any
from urllib.parse import unquote

from chalicelib.aws.dynamodb import Item, deserialize_item, serialize_item
from chalicelib.aws.errors import translate_errors
from chalicelib.ports import Run
from chalicelib.settings import Settings


def scan_table(client: Any, table: str, segment: int, of: int, attributes: tuple[str, ...] = ()) -> Iterator[Item]:
    """One segment of a table, with consistent reads. One Scan for each MB."""
    names = {f"#n{number}": name for number, name in enumerate(attributes)}
    projection = {"ProjectionExpression": ", ".join(names), "ExpressionAttributeNames": names} if names else {}
    start: Item | None = None
    while True:
        more = {"ExclusiveStartKey": serialize_item(start)} if start else {}
        with translate_errors("scan", table, write=False):
            answer = client.scan(TableName=table, Segment=segment, TotalSegments=of, ConsistentRead=True, **projection, **more)
        yield from map(deserialize_item, answer["Items"])
        start = deserialize_item(answer["LastEvaluatedKey"]) if answer.get("LastEvaluatedKey") else None
        if start is None:
            return


def known_runs(client: Any, settings: Settings, segment: int, of: int) -> Iterator[Run]:
    """Runs that have rows in one segment of the two tables; duplicates are possible."""
    for row in scan_table(client, settings.runs_table, segment, of, ("fqn", "run_id")):
        yield Run(row["fqn"], row["run_id"])
    last = ""
    for row in scan_table(client, settings.segments_table, segment, of, ("run",)):
        if row["run"] != last:
            last = row["run"]
            fqn, _, run_id = last.partition("/")
            yield Run(unquote(fqn), unquote(run_id))
