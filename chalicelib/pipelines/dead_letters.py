"""Dead letters: events that a handler failed to process, stored with the reason, so that somebody can inspect and resend them.

``_dead/{fqn}/{run id}/{pipeline}/{handler}/{line:010d}.json``, percent-encoded like run logs. The same event is always the same
object, and the dead letters of a run are found, and deleted, by its prefix. If a key exceeds S3's limit, long parts are
shortened: their first bytes, ``+`` (which no encoded name contains) and a digest.
"""

from __future__ import annotations

import json
import logging
import traceback
from collections.abc import Mapping
from dataclasses import dataclass
from hashlib import blake2b
from typing import Any

from chalicelib.errors import DamagedLogError, ObjectNotFoundError, StoreUnavailableError, UnavailableError, WriteConflictError
from chalicelib.pipelines.ports import ANNOTATIONS, DATA, EVENT_ID, FQN, INSTANCE, LEVEL, LINE, RUN_ID, STEP, TIME_MS, WRITER
from chalicelib.ports import Clock, Condition, ObjectStore, PutOptions, Run
from chalicelib.runlog.layout import MAX_KEY_BYTES, encode_name

DEAD = "_dead"
_ORIGIN = {"id": EVENT_ID, "writer": WRITER, "level": LEVEL, "annotations": ANNOTATIONS, "instance": INSTANCE}
_OPTIONS = PutOptions(content_type="application/json")
_TRACE_CHARS = 4000
_MESSAGE_CHARS = 1_000_000
_SHORT_BYTES = 64
_DIGEST_CHARS = 32
_MAX_PREFIX_BYTES = MAX_KEY_BYTES - 2 * (_SHORT_BYTES + 1 + _DIGEST_CHARS + 1) - len("0123456789.json") - 9
"""Leaves room for two shortened names and a line number; a log has fewer than 10**19 lines."""


def dead_prefixes(run: Run) -> tuple[str, ...]:
    """Every dead letter of a run has a key that begins with one of these: one prefix, or two if the run's names are very long."""
    prefix = f"{DEAD}/{encode_name(run.fqn)}/{encode_name(run.run_id)}/"
    if len(prefix) <= _MAX_PREFIX_BYTES:
        return (prefix,)
    names = json.dumps([run.fqn, run.run_id])  # one digest of both: no other pair of names has the same text
    short = f"{DEAD}/{encode_name(run.fqn)[:_SHORT_BYTES]}+/{encode_name(run.run_id)[:_SHORT_BYTES]}+{_digest(names)}/"
    return (prefix, short) if len(prefix) < MAX_KEY_BYTES else (short,)


def prefixes_of_pipeline(fqn: str) -> tuple[str, ...]:
    """Every dead letter of a pipeline's runs has a key that begins with one of these. Below the second one there are also those of other
    pipelines whose names begin alike."""
    prefix, short = f"{DEAD}/{encode_name(fqn)}/", f"{DEAD}/{encode_name(fqn)[:_SHORT_BYTES]}+/"
    return (prefix, short) if len(prefix) < MAX_KEY_BYTES else (short,)


def dead_key(pipeline: str, handler: str, run: Run, line: int) -> str:
    """The key of a dead letter: at most 1,024 bytes, and the readable one wherever it fits."""
    prefixes = dead_prefixes(run)
    readable = f"{prefixes[0]}{_encoded(pipeline)}/{_encoded(handler)}/{line:010d}.json"
    if len(readable) <= MAX_KEY_BYTES:
        return readable
    return f"{prefixes[-1]}{_shortened(pipeline)}/{_shortened(handler)}/{line:010d}.json"


def _shortened(name: str) -> str:
    encoded = _encoded(name)
    return encoded if len(encoded) <= _SHORT_BYTES else f"{encoded[:_SHORT_BYTES]}+{_digest(name)}"


def _encoded(name: str) -> str:
    return encode_name(name.encode(errors="backslashreplace").decode())


def _digest(name: str) -> str:
    return blake2b(name.encode(errors="backslashreplace"), digest_size=16).hexdigest()


@dataclass(frozen=True, slots=True)
class DeadLetterId:
    """The handler of a pipeline that failed, and the line of the event."""

    pipeline: str
    handler: str
    run: Run
    line: int

    @property
    def key(self) -> str:
        """The key of its object."""
        return dead_key(self.pipeline, self.handler, self.run, self.line)


@dataclass(frozen=True, slots=True)
class DeadLetter:
    """A stored dead letter. ``event`` has fqn, run_id, line, time_ms, logger, level, message, and step and data if it has any; ``origin``
    of an event that is not a plain line: the fields that identify it in other systems."""

    id: DeadLetterId
    etag: str
    reason: str
    trace: str
    attempts: int
    dead_ms: int
    event: Mapping[str, Any]


def find_dead_letter(store: ObjectStore, key: str) -> DeadLetter | None:
    """Read a dead letter. One GET; it is as large as its event, whose message has at most a million characters. Raises
    DamagedLogError, UnavailableError."""
    try:
        stored = store.get(key)
    except ObjectNotFoundError:
        return None
    try:
        document = json.loads(stored.body)
        event = dict(document["event"])
        run, line = Run(str(event["fqn"]), str(event["run_id"])), int(event["line"])
        event |= {name: str(event[name]) for name in ("logger", "level", "message")} | {"time_ms": int(event["time_ms"])}
        if "origin" in event:
            event["origin"] = {name: event["origin"][name] for name in _ORIGIN}
        return DeadLetter(
            DeadLetterId(str(document["pipeline"]), str(document["handler"]), run, line),
            stored.info.etag,
            str(document["reason"]),
            str(document["trace"]),
            int(document["attempts"]),
            int(document["dead_ms"]),
            event,
        )
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise DamagedLogError(f"a dead letter cannot be read key={key}") from error


class DeadLetters:
    """The dead letters of one pipeline. ``count``: how many events were stored."""

    def __init__(self, store: ObjectStore, pipeline: str, clock: Clock) -> None:
        self._store, self._pipeline, self._clock = store, pipeline, clock
        self.count = 0

    def put(self, handler: str, record: logging.LogRecord, error: BaseException, attempts: int) -> None:
        """Store an event. One PUT. Raises UnavailableError."""
        attributes = record.__dict__
        id = DeadLetterId(self._pipeline, handler, Run(attributes[FQN], attributes[RUN_ID]), attributes[LINE])
        event = {
            "fqn": attributes[FQN],
            "run_id": attributes[RUN_ID],
            "line": attributes[LINE],
            "time_ms": attributes[TIME_MS],
            "logger": record.name,
            "level": record.levelname,
            "message": str(record.msg)[:_MESSAGE_CHARS],
        }
        event |= {name: value for name, value in (("step", attributes.get(STEP)), ("data", attributes.get(DATA))) if value}
        if attributes.get(INSTANCE):
            event["origin"] = {name: attributes[attribute] for name, attribute in _ORIGIN.items()}
        self._store.put(id.key, self._document(id, error, attempts, event), _OPTIONS)
        self.count += 1

    def update(self, letter: DeadLetter, error: BaseException) -> None:
        """Store the next failed attempt of a letter, unless it was deleted or replaced since it was read. One PUT. Raises
        PreconditionFailedError, UnavailableError."""
        body = self._document(letter.id, error, letter.attempts + 1, letter.event)
        try:
            self._store.put(letter.id.key, body, _OPTIONS, Condition(if_match=letter.etag))
        except WriteConflictError as error:
            raise StoreUnavailableError(f"another write changes the dead letter key={letter.id.key}") from error

    def delete(self, letter: DeadLetter) -> None:
        """Delete a letter, unless it was replaced since it was read. One DELETE. Raises PreconditionFailedError,
        UnavailableError."""
        self._store.delete(letter.id.key, if_match=letter.etag)

    def find(self, key: str) -> DeadLetter | None:
        """As ``find_dead_letter``."""
        return find_dead_letter(self._store, key)

    def _document(self, id: DeadLetterId, error: BaseException, attempts: int, event: Mapping[str, Any]) -> bytes:
        reason, trace = _stated(error)
        document = {
            "pipeline": id.pipeline,
            "handler": id.handler,
            "reason": reason[:1000],
            "trace": trace[-_TRACE_CHARS:],
            "attempts": attempts,
            "dead_ms": self._clock.now_ms(),
            "event": event,
        }
        return json.dumps(document, default=str).encode()


def _stated(error: BaseException) -> tuple[str, str]:
    """Reason and trace. A service that is unavailable failed a request with any events, also of pipelines that the letter's readers may
    not read: without its message, which may quote or name them."""
    name = type(error).__name__
    if isinstance(error, UnavailableError):
        reason = f"{name}: a service that the handler uses was unavailable"
        return reason, "".join([*traceback.format_tb(error.__traceback__), reason])
    return f"{name}: {error}", "".join(traceback.format_exception(error))
