"""Limits of operations; ``operations`` has the one of each.

A request over a limit is rejected before any part is stored: 413 for its size, 400 for its names. ``docs/limits.md`` and the tests are
generated from them. API Gateway and Lambda have limits as well: 10,240 bytes of request line and headers, 6 MiB of event.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import ClassVar
from urllib.parse import unquote

from chalicelib.catalog.file_ids import MAX_ID_BYTES
from chalicelib.errors import BatchTooLargeError, InvalidInputError
from chalicelib.events.depth import MAX_DEPTH, MAX_OTLP_DEPTH
from chalicelib.events.names import MAX_NAME_CHARS
from chalicelib.response_size import RESPONSE_BYTES
from chalicelib.runlog.layout import MAX_KEY_BYTES

KIB, MIB = 1024, 1024 * 1024
EVENT_BYTES = 6 * MIB
"""Limit of a body in Lambda's event."""
_SLUG_CHARS = 256
"""As in ``catalog.metadata``, which is not imported here because it imports pydantic."""
NAME_CHARS: Mapping[str, int] = {
    "fqn": MAX_KEY_BYTES,
    "runId": MAX_KEY_BYTES,
    "writer": MAX_NAME_CHARS,
    "step": MAX_NAME_CHARS,
    "start": MAX_NAME_CHARS,
    "index": _SLUG_CHARS,
    "id": MAX_ID_BYTES,
    "what": _SLUG_CHARS,
    "where": _SLUG_CHARS,
    "source": _SLUG_CHARS,
    "name": _SLUG_CHARS,
    "file": _SLUG_CHARS,
}
"""Characters of each name in a path, decoded. A run's names must also fit into an S3 key."""


class BodyForm(StrEnum):
    """The kind of body of an operation."""

    IGNORED = "ignored"
    TEXT = "text"
    DOCUMENT = "one document"
    RECORDS = "records"


@dataclass(frozen=True, slots=True)
class Growth:
    """A limit that grows with the bytes received, so a small body cannot cause a large amount of work."""

    floor: int
    per_byte: float
    limit: int

    def of(self, received_bytes: int) -> int:
        """The limit for a body of ``received_bytes``."""
        return min(self.limit, max(self.floor, int(self.per_byte * received_bytes)))


NOTHING = Growth(0, 0, 0)


@dataclass(frozen=True, slots=True)
class Budget:
    """Limits of one operation. ``body_bytes``: as the function receives the body. ``expanded_bytes``: decompressed. ``values``: JSON or
    MessagePack values. ``items``: events, records or actions. ``streams``: runs and writers that items name; each is an append. ``depth``:
    nesting of lists and objects. ``shared_bytes``: bytes shared by several items, counted in each (``events.weight``). ``members``: members
    of gzip. ``fields``: of protobuf. ``target_chars``: path and query together, their values decoded. ``time_s`` of the function and
    ``response_bytes`` of Lambda are the same for all operations."""

    form: BodyForm = BodyForm.IGNORED
    body_bytes: int = 64 * KIB
    expanded_bytes: Growth = NOTHING
    values: Growth = NOTHING
    items: Growth = NOTHING
    streams: int = 0
    shared_bytes: Growth = NOTHING
    depth: int = 0
    members: int = 1000
    fields: Growth = NOTHING
    target_chars: int = 8 * KIB
    time_s: ClassVar[int] = 29
    response_bytes: ClassVar[int] = RESPONSE_BYTES

    def check_request(self, target_chars: int, body_bytes: int) -> None:
        """Enforce the limits of target and body. Raises InvalidInputError, BatchTooLargeError."""
        if target_chars > self.target_chars:
            raise InvalidInputError(f"path and query are too long chars={target_chars} limit={self.target_chars}")
        if body_bytes > self.body_bytes:
            raise BatchTooLargeError(f"body is too large bytes={body_bytes} limit={self.body_bytes}")


_TEXT_BYTES = Growth(6 * MIB, 200, 256 * MIB)
"""The cost of text is linear in its length. ``maxExpandedBytes`` is the limit of an installation."""
_STRUCTURED_BYTES = Growth(4 * MIB, 100, 16 * MIB)
_VALUES = Growth(75_000, 5, 1_000_000)
_FIELDS = Growth(500_000, 5, 1_000_000)
"""A field takes up to 90 bytes once it is parsed."""
_ITEMS = Growth(8_192, 0.75, 50_000)
_ACTIONS = Growth(5_000, 0.25, 10_000)
_EVENT_ITEMS = Growth(10_000, 0, 10_000)
_SHARED_BYTES = Growth(8 * MIB, 800, 64 * MIB)
"""For OTLP's resources and scopes, and for log groups and streams: 3 KiB for each of 2,500 records, 8 KiB for each of 8,192."""

READ = Budget()
DOCUMENT = Budget(BodyForm.DOCUMENT, expanded_bytes=Growth(64 * KIB, 0, 64 * KIB), depth=MAX_DEPTH)
PLAIN_DOCUMENT = Budget(BodyForm.DOCUMENT)
"""A document that must not be compressed."""
LINES = Budget(BodyForm.TEXT, EVENT_BYTES, _TEXT_BYTES, _VALUES)
EVENTS = Budget(BodyForm.RECORDS, EVENT_BYTES, _STRUCTURED_BYTES, _VALUES, _EVENT_ITEMS, streams=1, depth=MAX_DEPTH)
RECORDS = Budget(BodyForm.RECORDS, EVENT_BYTES, _STRUCTURED_BYTES, _VALUES, _ITEMS, streams=250, depth=MAX_DEPTH)
SHARING = replace(RECORDS, shared_bytes=_SHARED_BYTES)
OTLP = replace(SHARING, fields=_FIELDS, depth=MAX_OTLP_DEPTH)
BULK = Budget(BodyForm.RECORDS, EVENT_BYTES, _STRUCTURED_BYTES, _VALUES, _ACTIONS, streams=250, depth=MAX_DEPTH)
"""Its response has an item per action, so the number of actions bounds the response."""


def check_names(names: Mapping[str, str]) -> None:
    """Check the lengths of names in a path, as sent. Raises InvalidInputError."""
    for placeholder, name in names.items():
        limit = NAME_CHARS[placeholder]
        if len(name) > limit and (chars := len(unquote(name, errors="replace"))) > limit:
            raise InvalidInputError(f"{placeholder} is too long chars={chars} limit={limit}")
