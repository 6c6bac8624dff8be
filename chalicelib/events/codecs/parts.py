"""Joins the parts of lines that a container runtime split, usually at 16 KiB, within the items of one request.

The runtime's own fields mark parts: ``logtag`` of CRI (P, then F), ``partial_message`` of Docker's fluentd driver,
``CONTAINER_PARTIAL_MESSAGE`` of its journald driver, and a ``log`` of Docker's json-file, with its ``stream``, that lacks the newline.
The last are joined only if a record with the newline follows, because agents may remove it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from chalicelib.events.codecs.items import Decoded, Item
from chalicelib.events.codecs.json_text import compact

MAX_JOINED_BYTES = 1024 * 1024
"""Of a message; further parts are further events."""
MAX_WAITING = 1000
"""Items between the first part of a line and its last; a longer line stays in parts."""
_PARTIAL = (
    ("partial_message", "partial_id", "partial_last"),
    ("CONTAINER_PARTIAL_MESSAGE", "CONTAINER_PARTIAL_ID", "CONTAINER_PARTIAL_LAST"),
)
_MARKS = frozenset({"logtag", "log", "CONTAINER_ID", "container_id", *(name for name, _, _ in _PARTIAL)})
"""A record without any of these is no container's."""
_VARYING = frozenset({
    "log", "message", "MESSAGE", "msg", "logtag", "time", "timestamp", "@timestamp", "date", "ts", "offset", "log.offset",
    "partial_message", "partial_id", "partial_ordinal", "partial_last", "CONTAINER_PARTIAL_MESSAGE", "CONTAINER_PARTIAL_ID",
    "CONTAINER_PARTIAL_ORDINAL", "CONTAINER_PARTIAL_LAST", "CONTAINER_LOG_EPOCH", "CONTAINER_LOG_ORDINAL", "SYSLOG_TIMESTAMP",
    "SOURCE_REALTIME_TIMESTAMP", "_SOURCE_REALTIME_TIMESTAMP", "__REALTIME_TIMESTAMP", "__MONOTONIC_TIMESTAMP", "__CURSOR", "__SEQNUM",
})  # fmt: skip
"""Fields that differ between the parts of one line. All other fields are those of its container and stream."""


@dataclass(slots=True)
class _Place:
    """The place of an item among those that wait. ``line``: it is a part of this line, whose end is not known yet."""

    item: Item | None
    line: _Line | None = None


@dataclass(slots=True)
class _Line:
    """The parts of one line. ``must_end``: they are parts only if another record ends their line."""

    key: str
    must_end: bool
    places: list[_Place] = field(default_factory=list)

    def close(self, is_complete: bool) -> None:
        """Join the parts in the place of the first; beyond the limit also in the places of later ones."""
        chosen: list[Decoded] = []
        first, size = self.places[0], 0
        for place in self.places:
            place.line = None
            if not isinstance(place.item, Decoded) or (self.must_end and not is_complete):
                continue
            size += (part_bytes := len(place.item.event.message.encode()))
            if chosen and size > MAX_JOINED_BYTES:
                first.item = _event_of(chosen)
                chosen, first, size = [], place, part_bytes
            chosen.append(place.item)
            place.item = None
        if chosen:
            first.item = _event_of(chosen)


def joined(items: Iterable[Item]) -> Iterator[Item]:
    """The items in their order, with one event for all parts of a line. Holds items from a first part on, at most ``MAX_WAITING``."""
    waiting: deque[_Place] = deque()
    lines: dict[str, _Line] = {}
    for item in items:
        record = item.sources.get("record") if isinstance(item, Decoded) else None
        part = None
        if type(record) is dict and not _MARKS.isdisjoint(record) and (waiting or not _has_newline(record.get("log"))):
            part = _part_of(record)
        if not waiting and (part is None or part[0]):
            yield item
            continue
        place = _Place(item)
        waiting.append(place)
        if part is not None and isinstance(item, Decoded):
            _add(place, item, part, lines)
        if len(waiting) > MAX_WAITING and (longest := waiting[0].line):
            lines.pop(longest.key).close(is_complete=False)
        yield from _known(waiting)
    for line in lines.values():
        line.close(is_complete=False)
    yield from _known(waiting)


def _add(place: _Place, item: Decoded, part: tuple[bool, bool, str], lines: dict[str, _Line]) -> None:
    is_last, must_end, id = part
    key = compact([item.sources.get("tag"), id or _container(item.sources["record"])])
    line = lines.get(key)
    if line is None:
        if is_last:
            return
        line = lines[key] = _Line(key, must_end)
    place.line = line
    line.places.append(place)
    if is_last:
        lines.pop(key).close(is_complete=True)


def _known(waiting: deque[_Place]) -> Iterator[Item]:
    while waiting and waiting[0].line is None:
        if (item := waiting.popleft().item) is not None:
            yield item


def _event_of(parts: list[Decoded]) -> Decoded:
    """One event with the fields of the first part."""
    if len(parts) == 1:
        return parts[0]
    first, *others = parts
    event = first.event.model_copy(update={"message": "".join(each.event.message for each in parts)})
    return replace(first, event=event, is_unique=all(each.is_unique for each in parts), parts=tuple(each.index for each in others))


def _part_of(record: Mapping[str, Any]) -> tuple[bool, bool, str] | None:
    """Whether a record is the last part of its line, whether the line must have an end, and the line's id ("": none); None for a
    record of no container. A record with a complete line is a last part."""
    if "logtag" in record:
        tag = record["logtag"]
        return (not (isinstance(tag, str) and tag.partition(":")[0] == "P"), False, "") if "stream" in record else None
    for name, id_name, last_name in _PARTIAL:
        if name in record:
            id = record.get(id_name)
            return record.get(last_name) in ("true", True), False, id if isinstance(id, str) else ""
    text = record.get("log")
    if not isinstance(text, str):
        return (True, False, "") if "CONTAINER_ID" in record else None
    if record.get("stream") in ("stdout", "stderr"):
        return (text.endswith("\n"), True, "") if "_p" not in record else None  # Fluent Bit joined those of CRI itself
    return (True, False, "") if "container_id" in record and "source" in record else None


def _has_newline(text: Any) -> bool:
    return type(text) is str and text[-1:] == "\n"


def _container(record: Mapping[str, Any]) -> Mapping[str, Any]:
    return {name: value for name, value in record.items() if name not in _VARYING}
