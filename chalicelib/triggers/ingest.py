"""The queue of S3's notifications: each message by itself, and only those that failed come again."""

from __future__ import annotations

from typing import Any

from aws_lambda_powertools.utilities.batch import BatchProcessor, EventType, process_partial_response
from aws_lambda_powertools.utilities.data_classes.sqs_event import SQSRecord

from chalicelib.ingestion.ingester import Ingester
from chalicelib.observability import logger


def ingest(ingester: Ingester, event: dict[str, Any], context: Any) -> Any:
    """Ingest the messages of one batch. The answer names those that failed (ReportBatchItemFailures); when all did, it raises."""

    def handle(record: SQSRecord) -> str:
        try:
            return ingester.ingest(record.body).status
        except Exception:
            # The batch processor keeps it to itself; without this line nobody would learn why a message comes again and again.
            logger.exception("a message could not be ingested", extra={"message_id": record.message_id})
            raise

    processor = BatchProcessor(event_type=EventType.SQS, raise_on_entire_batch_failure=False)
    return process_partial_response(event=event, record_handler=handle, processor=processor, context=context)
