"""``Publisher`` in memory, for tests."""

from __future__ import annotations

from collections.abc import Sequence

from chalicelib.errors import UnavailableError
from chalicelib.ports import Message
from tests.support.failures import Failures, RequestRejectedError, can_fail

MAX_MESSAGE_BYTES = 256 * 1024


class InMemoryPublisher:
    """Stores ``messages`` with their attributes, in order of arrival. A call can be made to fail as on SNS (``failures``)."""

    def __init__(self) -> None:
        self.messages: list[tuple[str, dict[str, str]]] = []
        self.failures = Failures()

    def publish(self, messages: Sequence[Message]) -> Sequence[UnavailableError | None]:
        """See the port."""
        try:
            return self.publish_batch(messages)
        except UnavailableError as error:
            return [error] * len(messages)

    @can_fail
    def publish_batch(self, messages: Sequence[Message]) -> Sequence[UnavailableError | None]:
        """The request of ``publish``. A message that exceeds a limit of SNS is rejected alone."""
        answers = [_refusal(message) for message in messages]
        sent = [message for message, refusal in zip(messages, answers, strict=True) if refusal is None]
        self.messages += [(message.body, dict(message.attributes)) for message in sent]
        return answers


def _refusal(message: Message) -> UnavailableError | None:
    attributes = sum(len((name + "String" + value).encode()) for name, value in message.attributes.items())
    size = len(message.body.encode()) + attributes
    if size > MAX_MESSAGE_BYTES or not message.body or not all(message.attributes.values()):
        return RequestRejectedError(f"a message has 1 byte to 256 KiB, an attribute a value size={size}")
    return None
