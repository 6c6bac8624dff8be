"""Prepares events for an append to a run's log: validated one by one, masked together, each with its position in the text.

Secrets are searched in the text of all messages together, as in a batch of plain lines: a key that a writer split into lines is
found. Masking neither removes nor joins lines, so each message is located afterwards by its lines.
"""

from __future__ import annotations

import json
import re
from array import array
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from hashlib import blake2b
from itertools import chain

from chalicelib.errors import BatchTooLargeError, InvalidEventError
from chalicelib.events.event import Loggable, NewEvent
from chalicelib.events.masking import BatchMask, details
from chalicelib.events.ports import Refused
from chalicelib.events.sidecar import SidecarEntry
from chalicelib.events.validation import measured_event
from chalicelib.lines.errors import level_of_event
from chalicelib.lines.levels import is_error
from chalicelib.masking.fields import FieldMask, Mask
from chalicelib.masking.mask import Masked
from chalicelib.masking.offsets import OffsetMap
from chalicelib.runlog.batch import Batch

_NEWLINE = re.compile(rb"\n")
MAX_EVENTS = 10_000
MAX_DETAILS_BYTES = 96 * 1024 * 1024
"""Data and annotations of a batch as JSON: about the plain size of its sidecar."""


@dataclass(frozen=True, slots=True)
class PreparedBatch:
    """A batch and the entries of its sidecar. ``entries``: positions are relative to the batch. ``masked``: number of secrets by
    pattern."""

    batch: Batch
    entries: Sequence[SidecarEntry]
    refused: Sequence[Refused]
    masked: Mapping[str, int]


def prepare_batch(events: Sequence[NewEvent], loggable: Loggable, writer: str, now_ms: int, mask: Mask) -> PreparedBatch:
    """The valid events as a batch. Raises InvalidEventError if none is valid, BatchTooLargeError."""
    if len(events) > MAX_EVENTS:
        raise BatchTooLargeError(f"too many events in one batch events={len(events)} limit={MAX_EVENTS}")
    good, refused = _checked(events, loggable, writer)
    if not good:
        raise InvalidEventError(f"no event of the batch can be stored: {refused[0].reason}")
    sent = _as_sent(good, writer)
    body = b"".join(event.message.encode() + b"\n" for event in good)
    masked, fields = mask(body), FieldMask(mask)
    if fields.has_secrets(map(details, good)):
        details_mask = BatchMask(fields)
        good = [details_mask.masked(event) for event in good]
    counts = fields.counts + Counter(masked.counts)
    entries = [_entry(event, writer, place, now_ms) for event, place in zip(good, _placed(good, body, masked), strict=True)]
    digest = blake2b(sent, digest_size=16).hexdigest()
    errors, times_ms = sum(each.error for each in entries), (entries[0].timestamp, entries[-1].timestamp)
    batch = Batch(masked.body, masked.body.count(b"\n"), digest, writer, sent, len(good), errors, times_ms)
    return PreparedBatch(batch, entries, refused, counts)


def relocate_entries(body: bytes, entries: Sequence[SidecarEntry]) -> list[SidecarEntry]:
    """The same entries, located by their lines in stored bytes that differ from the batch."""
    starts = _line_starts(body)
    moved = (
        replace(each, byte=starts[each.line], bytes=starts[each.line + each.lines] - 1 - starts[each.line]) for each in entries
    )
    return list(moved)


def _checked(events: Sequence[NewEvent], loggable: Loggable, writer: str) -> tuple[list[NewEvent], list[Refused]]:
    """The valid events, and the refused ones with their reasons. Raises BatchTooLargeError."""
    good: list[NewEvent] = []
    refused: list[Refused] = []
    details_bytes = 0
    counts = writer != "" and any(event.id is not None for event in events)
    for index, event in enumerate(events):
        try:
            if counts and event.id is None:
                raise InvalidEventError("an event lacks its id, and others of its writer have one")
            checked, size = measured_event(event, loggable)
        except InvalidEventError as error:
            refused.append(Refused(index, str(error)))
            continue
        good.append(checked)
        details_bytes += size
        if details_bytes > MAX_DETAILS_BYTES:
            raise BatchTooLargeError(f"data and annotations of a batch are too large limit={MAX_DETAILS_BYTES}")
    return good, refused


def _as_sent(events: Sequence[NewEvent], writer: str) -> bytes:
    """The identity of a batch, to recognize a repeat: JSON of the writer's name and all events as sent, without fields added here.
    Encoded event by event."""
    documents = (json.dumps(event.model_dump(exclude_defaults=True), sort_keys=True).encode() for event in events)
    return b"[" + json.dumps(writer).encode() + b", [" + b", ".join(documents) + b"]]"


def _placed(events: Sequence[NewEvent], body: bytes, masked: Masked) -> Iterator[SidecarEntry]:
    """The position of each event in the masked text, with its annotations moved to the masked positions."""
    starts = _line_starts(masked.body)
    offsets = OffsetMap(masked.edits)
    line = byte = 0
    for event in events:
        size, lines = len(event.message.encode()), event.message.count("\n") + 1
        start, end = starts[line], starts[line + lines] - 1
        positions = [each.position for each in event.annotations]
        places = offsets.map_positions(positions, event.message, masked.body[start:end], byte, start) if positions else []
        notes = [{"position": at, "note": each.note} for at, each in zip(places, event.annotations, strict=True)]
        yield SidecarEntry(line, start, lines, end - start, event.timestamp or 0, annotations=tuple(notes))
        line, byte = line + lines, byte + size + 1


def _line_starts(body: bytes) -> Sequence[int]:
    """The first byte of each line, and the end: in 8 bytes each, since one event may have a million lines."""
    return array("q", chain((0,), (newline.end() for newline in _NEWLINE.finditer(body))))


def _entry(event: NewEvent, writer: str, place: SidecarEntry, now_ms: int) -> SidecarEntry:
    """A masked event with its position. Ids are unique within a writer: without one, other systems would take events of several batches
    with the same ids for repeats, so such an event is identified by its line."""
    return replace(
        place,
        timestamp=now_ms if event.timestamp is None else event.timestamp,
        id=event.id if writer else None,
        step=event.step,
        level=event.level,
        error=is_error(level_of_event(event.level, event.message.encode())),
        data=event.data,
    )
