"""Secrets in an event: its whole message, the texts of its data and of its annotations. Who it is about is a name, and stays."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TypeVar

from pydantic import JsonValue

from chalicelib.events.event import INSTANCE_ID, JOB_ID, LOGGABLE_ID, LOGGABLE_TYPE, Annotation, Event, NewEvent
from chalicelib.masking.mask import Edit, Masked

Mask = Callable[[bytes], Masked]
"""Masks a text by the rules of one pipeline: ``partial(masker.mask, fqn)``."""
AnEvent = TypeVar("AnEvent", Event, NewEvent)
_NAMES = frozenset({INSTANCE_ID, LOGGABLE_TYPE, LOGGABLE_ID, JOB_ID})


def masked_event(event: AnEvent, mask: Mask) -> tuple[AnEvent, Mapping[str, int]]:
    """The event as it may leave, and how many secrets it had by their shapes; the very same event where it had none.

    Annotations stay at what they are about; one within a secret is put at its start. Raises UnavailableError when a value that is to be
    masked cannot be read: then nothing may leave.
    """
    counts: Counter[str] = Counter()
    message = mask(event.message.encode())
    counts.update(message.counts)
    changes: dict[str, object] = {}
    if message.counts:
        changes["message"] = message.body.decode()
    if event.data and _is_touched(event.data, mask):
        changes["data"] = {key: value if key in _NAMES else _masked(value, mask, counts, key) for key, value in event.data.items()}
    if event.annotations:
        notes = [_masked(each.note, mask, counts) if _is_touched(each.note, mask) else each.note for each in event.annotations]
        places = moved([each.position for each in event.annotations], event.message, message.edits)
        annotations = tuple(Annotation(position=place, note=note) for place, note in zip(places, notes, strict=True))
        if annotations != event.annotations:
            changes["annotations"] = annotations
    return (event.model_copy(update=changes), dict(counts)) if changes else (event, {})


def moved(positions: Sequence[int], text: str, edits: Sequence[Edit]) -> list[int]:
    """Where positions (in characters) of a text are after its edits (in bytes of UTF-8). In one pass over the text."""
    if not edits:
        return list(positions)
    spans = list(_in_characters(text, edits))
    places: dict[int, int] = {}
    shift, at = 0, 0
    for position in sorted(set(positions)):
        while at < len(spans) and spans[at][1] <= position:
            start, end, length = spans[at]
            shift += length - (end - start)
            at += 1
        is_within = at < len(spans) and spans[at][0] < position
        places[position] = (spans[at][0] if is_within else position) + shift
    return [places[position] for position in positions]


def _in_characters(text: str, edits: Sequence[Edit]) -> Iterator[tuple[int, int, int]]:
    """(start, end, length) of edits in characters. A marker is ASCII, so its length is the same."""
    body, at_byte, at = text.encode(), 0, 0
    for start, end, length in edits:
        first = at + len(body[at_byte:start].decode(errors="replace"))
        last = first + len(body[start:end].decode(errors="replace"))
        yield first, last, length
        at_byte, at = end, last


def _is_touched(value: object, mask: Mask) -> bool:
    """Whether anything in it is a secret: one look for most events."""
    return bool(mask(json.dumps(value, ensure_ascii=False, default=dict).encode(errors="replace")).counts)


def _masked(value: JsonValue, mask: Mask, counts: Counter[str], key: str | None = None) -> JsonValue:
    """The same with its secrets masked. A name tells of its value, as in a line of JSON: ``"password": 1234``."""
    if isinstance(value, Mapping):
        return {_masked_text(name, mask, counts): _masked(each, mask, counts, name) for name, each in value.items()}
    if isinstance(value, list):
        return [_masked(each, mask, counts, key) for each in value]
    if isinstance(value, str):
        masked = _masked_text(value, mask, counts)
        return masked if masked != value or key is None else _masked_by_name(key, value, mask, counts)
    if value is None or isinstance(value, bool) or key is None:
        return value
    return _masked_by_name(key, value, mask, counts)


def _masked_text(text: str, mask: Mask, counts: Counter[str]) -> str:
    found = mask(text.encode(errors="replace"))
    counts.update(found.counts)
    return found.body.decode(errors="replace") if found.counts else text


def _masked_by_name(key: str, value: JsonValue, mask: Mask, counts: Counter[str]) -> JsonValue:
    """A value of which its name says that it is secret is masked whole."""
    name = json.dumps(key, ensure_ascii=False)
    head = len(name.encode()) + 2
    found = mask(f"{name}: {json.dumps(value, ensure_ascii=False)}".encode(errors="replace"))
    edits = [edit for edit in found.edits if edit.end > head]
    if not edits:
        return value
    counts.update(found.counts)
    last = edits[-1]
    at = last.start + sum(edit.length - (edit.end - edit.start) for edit in found.edits[:-1])
    return found.body[at : at + last.length].decode(errors="replace")
