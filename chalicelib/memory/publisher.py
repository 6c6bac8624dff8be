"""A topic in memory: it keeps what was published."""

from __future__ import annotations

from collections.abc import Sequence

from chalicelib.errors import UnavailableError
from chalicelib.ports import Message


class InMemoryPublisher:
    """``messages`` in the order in which they came, with their attributes."""

    def __init__(self) -> None:
        self.messages: list[tuple[str, dict[str, str]]] = []

    def publish(self, messages: Sequence[Message]) -> Sequence[UnavailableError | None]:
        """See the port."""
        self.messages += [(message.body, dict(message.attributes)) for message in messages]
        return [None] * len(messages)
