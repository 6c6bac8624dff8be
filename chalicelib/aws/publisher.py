"""``ports.Publisher`` on an SNS topic."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from chalicelib.aws.errors import translate_errors
from chalicelib.errors import RunlakeError, StoreUnavailableError, UnavailableError
from chalicelib.ports import Message

BATCH_MESSAGES = 10
BATCH_BYTES = 262_144


class SnsPublisher:
    """``client`` is a boto3 SNS client."""

    def __init__(self, client: Any, topic_arn: str) -> None:
        self._client, self._topic_arn = client, topic_arn

    def publish(self, messages: Sequence[Message]) -> Sequence[UnavailableError | None]:
        """See the port. One PublishBatch per ten messages."""
        return [result for batch in _batches(messages) for result in self._publish_batch(batch)]

    def _publish_batch(self, batch: Sequence[Message]) -> list[UnavailableError | None]:
        entries = [{"Id": str(number), **_entry(message)} for number, message in enumerate(batch)]
        try:
            with translate_errors("publish_batch", self._topic_arn, write=True):
                answer = self._client.publish_batch(TopicArn=self._topic_arn, PublishBatchRequestEntries=entries)
        except UnavailableError as error:
            return [error] * len(batch)
        except RunlakeError as error:  # for example, no such topic
            return [StoreUnavailableError(str(error))] * len(batch)
        failed = {int(row["Id"]): str(row.get("Code", "")) for row in answer.get("Failed", ())}
        return [
            StoreUnavailableError(f"a message was refused code={failed[number]} what={self._topic_arn}")
            if number in failed
            else None
            for number in range(len(batch))
        ]


def _entry(message: Message) -> dict[str, Any]:
    packed = {name: {"DataType": "String", "StringValue": value} for name, value in message.attributes.items()}
    return {"Message": message.body, "MessageAttributes": packed}


def _batches(messages: Sequence[Message]) -> Iterator[list[Message]]:
    batch: list[Message] = []
    room = BATCH_BYTES
    for message in messages:
        size = message_bytes(message)
        if batch and (len(batch) == BATCH_MESSAGES or size > room):
            yield batch
            batch, room = [], BATCH_BYTES
        batch.append(message)
        room -= size
    if batch:
        yield batch


def message_bytes(message: Message) -> int:
    """The size that SNS counts: the body, and names, types and values of the attributes."""
    attributes = sum(len((name + "String" + value).encode()) for name, value in message.attributes.items())
    return len(message.body.encode()) + attributes
