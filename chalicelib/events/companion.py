"""A companion: what is not text of a segment's events, beside the segment, with places in the whole log (decision 0022).

::

    {run}/events/{sequence:010d}     gzip of lines of JSON: one of the batch, then one of each event, in the log's order

Written once, put-if-absent. A later version may add fields: what is not known is left aside.
"""

from __future__ import annotations

import gzip
import json
import zlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from pydantic import JsonValue

from chalicelib.errors import DamagedLogError
from chalicelib.ports import SegmentEntry

VERSION = 1


@dataclass(frozen=True, slots=True)
class Noted:
    """One event: ``lines`` of the log from ``line`` on, whose message are ``bytes`` bytes from ``byte`` on; a newline follows them.

    ``id`` None: its line is its id. ``error``: whether it tells of one.
    """

    line: int
    byte: int
    lines: int
    bytes: int
    timestamp: int
    id: int | None = None
    step: str | None = None
    level: str | None = None
    error: bool = False
    data: Mapping[str, JsonValue] = field(default_factory=dict)
    annotations: Sequence[Mapping[str, JsonValue]] = ()

    @property
    def end_byte(self) -> int:
        """Where the next event begins: behind the newline."""
        return self.byte + self.bytes + 1

    @property
    def end_line(self) -> int:
        """The first line behind it."""
        return self.line + self.lines


@dataclass(frozen=True, slots=True)
class Companion:
    """What lies beside a segment. ``writer`` empty: nobody in particular; ``instance``: the installation that took it."""

    sequence: int
    line: int
    byte: int
    lines: int
    bytes: int
    writer: str
    instance: str
    appended_ms: int
    events: Sequence[Noted]

    @classmethod
    def beside(cls, entry: SegmentEntry, writer: str, instance: str, events: Sequence[Noted]) -> Companion:
        """Of a segment."""
        place = (entry.sequence, entry.line, entry.byte, entry.lines, entry.bytes)
        return cls(*place, writer, instance, entry.appended_ms, events)

    @property
    def end_line(self) -> int:
        """The first line behind it."""
        return self.line + self.lines


def packed(companion: Companion) -> bytes:
    """The object's bytes: the same companion is the same bytes."""
    head = {name: getattr(companion, name) for name in Companion.__dataclass_fields__ if name != "events"}
    documents = [{"v": VERSION} | head, *map(_document, companion.events)]
    lines = "".join(json.dumps(each, ensure_ascii=False, separators=(",", ":")) + "\n" for each in documents)
    return gzip.compress(lines.encode(), mtime=0)


def unpacked(body: bytes) -> Companion:
    """The inverse of ``packed``. Raises DamagedLogError."""
    try:
        head, *events = _documents(body)
        known = {name: head[name] for name in Companion.__dataclass_fields__ if name != "events"}
        return Companion(**known, events=tuple(map(_noted, events)))
    except (OSError, EOFError, zlib.error, ValueError, TypeError, KeyError) as error:
        raise DamagedLogError(f"not a companion of a segment bytes={len(body)} error={type(error).__name__}") from error


def _documents(body: bytes) -> Iterator[dict[str, Any]]:
    for line in gzip.decompress(body).split(b"\n"):
        if line:
            yield json.loads(line)


def _document(noted: Noted) -> dict[str, Any]:
    given = {name: getattr(noted, name) for name in Noted.__dataclass_fields__}
    return {name: value for name, value in given.items() if value is not None and value is not False and value not in ({}, ())}


def _noted(document: Mapping[str, Any]) -> Noted:
    return Noted(**{name: document[name] for name in Noted.__dataclass_fields__ if name in document})
