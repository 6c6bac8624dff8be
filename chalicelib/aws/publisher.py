"""A topic of SNS behind ``ports.Publisher``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from chalicelib.aws.errors import translated


class SnsPublisher:
    """``client`` is a boto3 SNS client."""

    def __init__(self, client: Any, topic_arn: str) -> None:
        self._client, self._topic_arn = client, topic_arn

    def publish(self, message: str, attributes: Mapping[str, str]) -> None:
        """See the port. One Publish."""
        packed = {name: {"DataType": "String", "StringValue": value} for name, value in attributes.items()}
        with translated("publish", self._topic_arn, write=True):
            self._client.publish(TopicArn=self._topic_arn, Message=message, MessageAttributes=packed)
