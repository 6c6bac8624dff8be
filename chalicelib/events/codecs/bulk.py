"""Elasticsearch's and OpenSearch's ``_bulk``: a line with an action, for most actions followed by a line with the document.

Documents are events: ``create`` and ``index`` append one. A log has nothing to ``update`` or ``delete``: such an item is refused,
and no other.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, tzinfo
from typing import Any

from chalicelib.events.codecs import json_text, records
from chalicelib.events.codecs.items import DECODE_ERRORS, Item, reason_of
from chalicelib.events.event import NewEvent
from chalicelib.events.ports import Refused
from chalicelib.lines.timestamps import TimestampParser

CREATE, INDEX, UPDATE, DELETE = "create", "index", "update", "delete"
_SUPPORTED = (CREATE, INDEX)
_ACTIONS = (CREATE, INDEX, UPDATE, DELETE)
_INDEX, _ID = "_index", "_id"


@dataclass(frozen=True, slots=True)
class BulkAction:
    """A requested action; the response has one item for each, in the same order. ``name`` is ``index`` for an unreadable action,
    whose index and id are ""."""

    name: str
    index: str
    id: str
    item: Item


def decode(body: bytes | str, index: str = "", zone: tzinfo = UTC) -> Iterator[BulkAction]:
    """The actions of a body. ``index``: from the URL, for actions without one. ``zone``: of times without one."""
    clock = TimestampParser(zone)
    lines = _lines(body)
    for number, line in enumerate(lines):  # counts actions; their documents are consumed from the same iterator
        found = _head(line)
        if found is None:
            yield BulkAction(
                INDEX, index, "", Refused(number, "an action must be an object with one of create, index, update, delete")
            )
            continue
        name, meta = found
        document = None if name == DELETE else next(lines, None)
        its_index, its_id = _text(meta, _INDEX) or index, _text(meta, _ID)
        yield BulkAction(name, its_index, its_id, _item(number, name, document, _about(its_index, its_id), clock))


def encode(events: Sequence[NewEvent], index: str, ids: Sequence[str] | None = None) -> bytes:
    """``create`` actions, with ``ids`` if given."""
    lines = []
    for number, event in enumerate(events):
        meta = {_INDEX: index} | ({_ID: ids[number]} if ids else {})
        lines += [json_text.compact({CREATE: meta}), json_text.compact(records.record_of(event))]
    return "".join(f"{line}\n" for line in lines).encode()


def _lines(body: bytes | str) -> Iterator[str]:
    return (line for line in json_text.lines_of(json_text.text_of(body)) if line.strip())


def _head(line: str) -> tuple[str, Mapping[str, Any]] | None:
    try:
        action = json_text.value_of(line)
    except (ValueError, RecursionError):
        return None
    if not isinstance(action, dict) or len(action) != 1:
        return None
    ((name, meta),) = action.items()
    return (name, meta if isinstance(meta, dict) else {}) if name in _ACTIONS else None


def _item(number: int, name: str, document: str | None, sources: Mapping[str, Any], clock: TimestampParser) -> Item:
    if name not in _SUPPORTED:
        return Refused(number, f"a log is append-only: use create action={name}")
    if document is None:
        return Refused(number, "the document is missing")
    try:
        record = _record(document)
        decoded = records.decoded(number, record, clock, sources)
    except DECODE_ERRORS as error:
        return Refused(number, reason_of(error))
    if not sources.get("id"):
        return decoded
    event = decoded.event.model_copy(update={"data": {**decoded.event.data, _ID: sources["id"]}})
    return replace(decoded, event=event, is_unique=True)


def _record(document: str) -> Any:
    try:
        return json_text.value_of(document)
    except json.JSONDecodeError:
        return json_text.NotJson(document)


def _about(index: str, id: str) -> dict[str, Any]:
    return {name: value for name, value in (("index", index), ("id", id)) if value}


def _text(meta: Mapping[str, Any], name: str) -> str:
    value = meta.get(name)
    return str(value) if isinstance(value, str | int) and not isinstance(value, bool) else ""
