"""The ingester over an in-memory world, or over wrappers of its ports; messages as the queue delivers them."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any
from urllib.parse import quote_plus

from chalicelib.archive.objects import ArchiveObjects
from chalicelib.catalog.latest import LatestFiles
from chalicelib.catalog.registration import FileCatalogWriter
from chalicelib.catalog.runs import RunCatalog
from chalicelib.catalog.search import Search
from chalicelib.deadline import Deadline
from chalicelib.errors import UnavailableError
from chalicelib.ingestion.ingester import Ingester
from chalicelib.ingestion.report import Report
from chalicelib.ingestion.run_files import RunFiles
from chalicelib.ingestion.run_objects import RunObjects
from chalicelib.ports import Publisher, Run
from chalicelib.runlog.layout import ParsedKey
from tests.world import World

BUCKET, ARCHIVE = "bucket", "archive"


def ingester_of(
    world: World,
    runs: RunCatalog,
    topic: Publisher,
    port: Callable[[Any], Any] = lambda inner: inner,
    watermark_bytes: int = 10**9,
    early_flush: Callable[[Run], None] = lambda run: None,
    index_sidecar: Callable[[ParsedKey], None] = lambda parsed: None,
) -> Ingester:
    """``port`` wraps each port except the clock."""
    store, index, runs, database = port(world.store), port(world.index), port(runs), port(world.database)
    return Ingester(
        run_objects=RunObjects(BUCKET, store, index, runs, world.layout, watermark_bytes, early_flush, index_sidecar),
        run_files=RunFiles(BUCKET, store, index, world.layout),
        archive=ArchiveObjects(port(world.archive_store), ARCHIVE),
        registration=FileCatalogWriter(database, LatestFiles(database, Search(database)), world.clock),
        clock=world.clock,
        publisher=port(topic),
    )


def ingest_one(ingester: Ingester, body: str) -> Report:
    """Ingest one message; raises its error."""
    (result,) = ingester.ingest([body], Deadline(ingester.clock))
    if isinstance(result, UnavailableError):
        raise result
    return result


def s3_record(key: str, name: str = "ObjectCreated:Put", bucket: str = BUCKET, version: str = "2.1") -> dict[str, Any]:
    """One event of S3."""
    where = {"bucket": {"name": bucket}, "object": {"key": quote_plus(key, safe="/")}}
    return {"eventVersion": version, "eventName": name, "s3": where}


def message(*records: dict[str, Any]) -> str:
    """A message's body."""
    return json.dumps({"Records": list(records)})


def queued(*bodies: str) -> dict[str, Any]:
    """An event of SQS; a message's id is ``message-{place}``."""
    about = {
        "receiptHandle": "handle", "attributes": {"ApproximateReceiveCount": "1"}, "messageAttributes": {}, "md5OfBody": "",
        "eventSource": "aws:sqs", "eventSourceARN": "arn:aws:sqs:::ingest", "awsRegion": "x",
    }  # fmt: skip
    return {"Records": [{"messageId": f"message-{number}", "body": body, **about} for number, body in enumerate(bodies)]}
