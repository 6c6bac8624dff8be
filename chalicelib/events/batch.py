"""From events as they come to a batch of the run's log: checked one by one, masked as a whole, each with its place in the text.

Secrets are looked for in the text of all messages together, as in a batch of plain lines: a key that a writer cut into lines is found.
Lines are neither lost nor joined by masking, so each message is found again behind it by its lines.
"""

from __future__ import annotations

import json
from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from hashlib import blake2b
from itertools import accumulate

from pydantic import JsonValue

from chalicelib.errors import BatchTooLargeError, InvalidEventError
from chalicelib.events.companion import Noted
from chalicelib.events.event import INSTANCE_ID, MANDATORY, RUN, STEP_ID, Loggable, NewEvent
from chalicelib.events.names import checked_name
from chalicelib.events.ports import Refused
from chalicelib.lines.parsed import CRITICAL, ERROR, level_of_word
from chalicelib.masking.mask import Masked
from chalicelib.runlog.batch import Batch
from chalicelib.runlog.segment import errors_of

MAX_EVENTS = 10_000
MAX_BESIDE_BYTES = 64 * 1024
"""What an event's data and annotations may take as JSON."""
MAX_LEVEL_CHARS = 40
_MASKED = "***masked***"
_ERRORS = frozenset({ERROR, CRITICAL})

Mask = Callable[[bytes], Masked]


@dataclass(frozen=True, slots=True)
class Prepared:
    """A batch and what lies beside it. ``noted``: places are relative to the batch. ``masked``: secrets by the name of their shape."""

    batch: Batch
    noted: Sequence[Noted]
    refused: Sequence[Refused]
    masked: Mapping[str, int]


def prepared(events: Sequence[NewEvent], loggable: Loggable, writer: str, now_ms: int, mask: Mask) -> Prepared:
    """The good ones of a batch. Raises InvalidEventError when none is, BatchTooLargeError."""
    if len(events) > MAX_EVENTS:
        raise BatchTooLargeError(f"too many events in one batch events={len(events)} limit={MAX_EVENTS}")
    good, refused = _checked(events, loggable, writer)
    if not good:
        raise InvalidEventError(f"no event of the batch can be stored: {refused[0].reason}")
    body = b"".join(event.message.encode() + b"\n" for event in good)
    masked, counts = mask(body), Counter[str]()
    counts.update(masked.counts)
    noted = [_beside(each, loggable, now_ms, mask, counts) for each in zip(good, _placed(good, body, masked), strict=True)]
    sent = _as_sent(good, writer)
    digest = blake2b(sent, digest_size=16).hexdigest()
    batch = Batch(masked.body, masked.body.count(b"\n"), digest, writer, sent, len(good))
    return Prepared(batch, noted, refused, counts)


def placed_in(body: bytes, noted: Sequence[Noted]) -> list[Noted]:
    """The same events in the bytes that were stored, where these are others: by their lines."""
    starts = [0, *accumulate(len(line) + 1 for line in body.split(b"\n"))]
    moved = (replace(each, byte=starts[each.line], bytes=starts[each.line + each.lines] - 1 - starts[each.line]) for each in noted)
    return list(moved)


def _checked(events: Sequence[NewEvent], loggable: Loggable, writer: str) -> tuple[list[NewEvent], list[Refused]]:
    good, refused = [], []
    counts = writer != "" and any(event.id is not None for event in events)
    for index, event in enumerate(events):
        try:
            good.append(_check(event, loggable, counts))
        except InvalidEventError as error:
            refused.append(Refused(index, str(error)))
    return good, refused


def _check(event: NewEvent, loggable: Loggable, counts: bool) -> NewEvent:
    """An event with its step in one place. ``counts``: its writer gives ids, so that all of them are needed."""
    if counts and event.id is None:
        raise InvalidEventError("an event lacks its id, and others of its writer have one")
    if event.level is not None and not 0 < len(event.level) <= MAX_LEVEL_CHARS:
        raise InvalidEventError(f"a level has 1 to {MAX_LEVEL_CHARS} characters length={len(event.level)}")
    if any(annotation.position > len(event.message) for annotation in event.annotations):
        raise InvalidEventError(f"an annotation stands behind the message's end length={len(event.message)}")
    own = loggable.mandatory_data()
    for name in (name for name in MANDATORY[RUN] if name != INSTANCE_ID and name in event.data):
        if event.data[name] != own.get(name):
            raise InvalidEventError(f"an event's data tell of another run name={name} value={str(event.data[name])[:80]!r}")
    said = event.data.get(STEP_ID, event.step)
    if event.step is not None and said != event.step:
        raise InvalidEventError(f"an event tells two steps step={event.step[:80]!r} {STEP_ID}={str(said)[:80]!r}")
    step = checked_name("step", said) if isinstance(said, str) else None
    if said is not None and step is None:
        raise InvalidEventError(f"a {STEP_ID} is a text")
    rest = {name: value for name, value in event.data.items() if name != STEP_ID and own.get(name) != value}
    checked = event.model_copy(update={"step": step, "data": rest})
    if len(_beside_text(checked)) > MAX_BESIDE_BYTES:
        raise InvalidEventError(f"an event's data and annotations are too large limit={MAX_BESIDE_BYTES}")
    return checked


def _beside_text(event: NewEvent) -> str:
    try:
        return json.dumps([dict(event.data), [each.model_dump() for each in event.annotations]], allow_nan=False)
    except ValueError as error:
        raise InvalidEventError("an event's data are json: no infinities, and no number that is none") from error


def _as_sent(events: Sequence[NewEvent], writer: str) -> bytes:
    """What tells a repeat from another batch: not what was added here."""
    documents = [event.model_dump(exclude_defaults=True) for event in events]
    return json.dumps([writer, documents], sort_keys=True).encode()


def _placed(events: Sequence[NewEvent], body: bytes, masked: Masked) -> Iterator[tuple[Noted, Callable[[int], int]]]:
    """Each event's place in the masked text, and what an offset in its message becomes there."""
    starts = [0, *accumulate(len(line) + 1 for line in masked.body.split(b"\n"))]
    line = byte = 0
    moves = _Moves(masked)
    for event in events:
        size, lines = len(event.message.encode()), event.message.count("\n") + 1
        start, end = starts[line], starts[line + lines] - 1
        yield Noted(line, start, lines, end - start, event.timestamp or 0), moves.within(event, byte, masked.body[start:end], start)
        line, byte = line + lines, byte + size + 1


class _Moves:
    """Where a place of the text is once secrets before it were replaced. A place within a secret is at its beginning."""

    def __init__(self, masked: Masked) -> None:
        self._starts = [start for start, _, _ in masked.edits]
        self._edits = masked.edits
        self._shifts = [0, *accumulate(size - (end - start) for start, end, size in masked.edits)]

    def within(self, event: NewEvent, byte: int, stored: bytes, start: int) -> Callable[[int], int]:
        """Of positions in characters of an event's message that began at a byte of what came."""
        if not self._edits or not event.annotations:
            return lambda position: position
        return lambda position: self._position(event.message, byte, stored, start, position)

    def _position(self, message: str, byte: int, stored: bytes, start: int, position: int) -> int:
        at = byte + len(message[:position].encode())
        before = bisect_right(self._starts, at)
        if before and at < self._edits[before - 1][1]:
            at, before = self._edits[before - 1][0], before - 1
        moved = min(max(at + self._shifts[before] - start, 0), len(stored))
        return len(stored[:moved].decode(errors="ignore"))


def _beside(
    each: tuple[NewEvent, tuple[Noted, Callable[[int], int]]], loggable: Loggable, now_ms: int, mask: Mask, counts: Counter[str]
) -> Noted:
    """What lies beside the text of one event, masked too."""
    event, (place, move) = each
    hide = _Hide(mask, counts)
    notes = [{"position": move(annotation.position), "note": hide.value(annotation.note)} for annotation in event.annotations]
    told = level_of_word(event.level) if event.level else None
    is_error = told in _ERRORS if event.level else errors_of(event.message.encode()) > 0
    return replace(
        place,
        timestamp=now_ms if event.timestamp is None else event.timestamp,
        id=event.id,
        step=event.step,
        level=event.level,
        error=is_error,
        data={name: hide.named(name, value) for name, value in event.data.items()},
        annotations=tuple(notes),
    )


@dataclass(frozen=True, slots=True)
class _Hide:
    """Masks what is in JSON: each text by itself, and with its name, which may say that it is a secret."""

    mask: Mask
    counts: Counter[str]

    def value(self, value: JsonValue) -> JsonValue:
        if isinstance(value, str):
            return self._text(value)
        if isinstance(value, list):
            return [self.value(each) for each in value]
        if isinstance(value, Mapping):
            return {name: self.named(name, each) for name, each in value.items()}
        return value

    def named(self, name: str, value: JsonValue) -> JsonValue:
        value = self.value(value)
        if value is None or isinstance(value, bool | list | Mapping):
            return value
        masked = self.mask(json.dumps({name: value}, ensure_ascii=False).encode())
        if not masked.counts:
            return value
        self.counts.update(masked.counts)
        try:
            found = json.loads(masked.body)
            return found.get(name, _MASKED) if isinstance(found, dict) else _MASKED
        except ValueError:
            return _MASKED

    def _text(self, text: str) -> str:
        masked = self.mask(text.encode())
        self.counts.update(masked.counts)
        return masked.body.decode(errors="replace") if masked.counts else text
