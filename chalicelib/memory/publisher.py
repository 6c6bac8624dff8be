"""A topic in memory: it keeps what was published."""

from __future__ import annotations

from collections.abc import Mapping


class InMemoryPublisher:
    """``messages`` in the order in which they came, with their attributes."""

    def __init__(self) -> None:
        self.messages: list[tuple[str, dict[str, str]]] = []

    def publish(self, message: str, attributes: Mapping[str, str]) -> None:
        """See the port."""
        self.messages.append((message, dict(attributes)))
