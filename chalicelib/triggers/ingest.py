"""Consumes the queue of S3's notifications in batches. Only the messages that failed are delivered again."""

from __future__ import annotations

from typing import Any

from aws_lambda_powertools.utilities.data_classes.sqs_event import SQSEvent

from chalicelib.deadline import Deadline
from chalicelib.ingestion.ingester import Ingester
from chalicelib.ingestion.report import Report
from chalicelib.observability import logger

STOP_BEFORE_S = 10.0
"""Reserve of the function's time for rows and reports after contents were read."""


def ingest(ingester: Ingester, event: dict[str, Any], remaining_ms: int) -> dict[str, Any]:
    """Ingest one batch. Returns the messages that failed (ReportBatchItemFailures)."""
    messages = list(SQSEvent(event).records)
    deadline = Deadline(ingester.clock, remaining_ms / 1000 - STOP_BEFORE_S)
    results = ingester.ingest([message.body for message in messages], deadline)
    failed = []
    for message, result in zip(messages, results, strict=True):
        if not isinstance(result, Report):
            logger.error("could not ingest a message", exc_info=result, extra={"message_id": message.message_id})
            failed.append({"itemIdentifier": message.message_id})
    return {"batchItemFailures": failed}
