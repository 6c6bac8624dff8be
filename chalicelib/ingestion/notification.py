"""Parse S3 event notifications from the queue: direct or wrapped by SNS, of AWS or of emulators that differ in details."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import unquote_plus

from chalicelib.errors import InvalidInputError

MAX_KEY_BYTES = 1024
CREATED = frozenset({"Put", "Post", "Copy", "CompleteMultipartUpload"})
REMOVED = frozenset({"Delete", "DeleteMarkerCreated"})


@dataclass(frozen=True, slots=True)
class ObjectEvent:
    """An event of an object. ``created`` is False if it was deleted or expired."""

    bucket: str
    key: str
    created: bool


@dataclass(frozen=True, slots=True)
class Notification:
    """A message: its events, and a problem for each record that could not be parsed, so that one bad record does not lose the
    rest."""

    events: tuple[ObjectEvent, ...]
    problems: tuple[str, ...] = ()


def parse_notification(body: str) -> Notification:
    """Parse a message's body. S3's test event has no events. Raises InvalidInputError if the body is not a notification."""
    document = _document(body)
    if isinstance(document.get("Message"), str):
        document = _document(document["Message"])
    if document.get("Event") == "s3:TestEvent":
        return Notification(())
    records = document.get("Records")
    if not isinstance(records, list):
        raise InvalidInputError("an s3 notification must have Records")
    events: list[ObjectEvent] = []
    problems: list[str] = []
    for record in records:
        try:
            events.append(_event(record))
        except InvalidInputError as error:
            problems.append(str(error))
    return Notification(tuple(events), tuple(problems))


def _document(body: str) -> Mapping[str, Any]:
    try:
        document = json.loads(body)
    except (ValueError, RecursionError) as error:
        raise InvalidInputError("a notification must be json") from error
    if not isinstance(document, dict):
        raise InvalidInputError(f"a notification must be a json object type={type(document).__name__}")
    return document


def _event(record: Any) -> ObjectEvent:
    try:
        name, version = str(record["eventName"]).removeprefix("s3:"), str(record["eventVersion"])
        bucket, key = record["s3"]["bucket"]["name"], record["s3"]["object"]["key"]
    except (KeyError, TypeError) as error:
        raise InvalidInputError(f"a record of a notification lacks a field field={error}") from error
    if not version.startswith("2."):
        raise InvalidInputError(f"unsupported version of an event version={version}")
    if not isinstance(bucket, str) or not isinstance(key, str):
        raise InvalidInputError("bucket and key of an event must be strings")
    return ObjectEvent(bucket, _decoded(key), created=_is_creation(name))


def _decoded(key: str) -> str:
    """The key of a form-encoded text. Raises InvalidInputError if S3 does not allow it, so no request is made for it."""
    decoded = unquote_plus(key)
    if not 0 < len(decoded.encode(errors="surrogatepass")) <= MAX_KEY_BYTES or any(
        "\ud800" <= letter <= "\udfff" for letter in decoded
    ):
        raise InvalidInputError(f"not a key of s3 key={decoded[:100]!r}")
    return decoded


def _is_creation(name: str) -> bool:
    kind, _, action = name.partition(":")
    if kind == "ObjectCreated" and action in CREATED:
        return True
    if kind == "LifecycleExpiration" or (kind == "ObjectRemoved" and action in REMOVED):
        return False
    raise InvalidInputError(f"unsupported event event={name[:80]}")
