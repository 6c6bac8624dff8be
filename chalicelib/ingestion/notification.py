"""S3's notifications as they come on the queue: directly, or wrapped by SNS; from AWS, and from emulators that differ in details."""

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
    """One thing that happened to one object. ``created`` is False when it was removed or expired."""

    bucket: str
    key: str
    created: bool


@dataclass(frozen=True, slots=True)
class Notification:
    """One message: its events, and what in it could not be understood, told one by one so that no neighbour is dropped."""

    events: tuple[ObjectEvent, ...]
    problems: tuple[str, ...] = ()


def parse_notification(body: str) -> Notification:
    """A message's body. S3's test event has no events. Raises InvalidInputError when it is no notification at all."""
    document = _document(body)
    if isinstance(document.get("Message"), str):
        document = _document(document["Message"])
    if document.get("Event") == "s3:TestEvent":
        return Notification(())
    records = document.get("Records")
    if not isinstance(records, list):
        raise InvalidInputError("a notification of s3 has Records")
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
        raise InvalidInputError("a notification is json") from error
    if not isinstance(document, dict):
        raise InvalidInputError(f"a notification is a json object type={type(document).__name__}")
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
        raise InvalidInputError("bucket and key of an event are texts")
    return ObjectEvent(bucket, _decoded(key), created=_is_creation(name))


def _decoded(key: str) -> str:
    """A key from its form-encoding. What S3 could not have as a key nobody is asked for."""
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
