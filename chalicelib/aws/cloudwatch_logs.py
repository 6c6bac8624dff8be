"""CloudWatch Logs as a target of events: PutLogEvents, with one log stream for each run.

Source: the API reference of PutLogEvents. A request has at most 10,000 events and 1,048,576 bytes (26 for each event in addition to its
message), ordered by time and no more than 24 hours apart; sequence tokens are ignored. The response lists the indexes of rejected events:
older than 14 days (or than the group's retention) or more than 2 hours ahead. Duplicates are not detected.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from hashlib import blake2b
from typing import Any, Literal

from botocore.exceptions import ClientError

from chalicelib.aws.errors import translate_errors
from chalicelib.errors import RequestRefusedError
from chalicelib.events.event import Event, Loggable, WriterEndEvent
from chalicelib.events.ports import Limits, Refused
from chalicelib.events.targets.document import document, packed

EVENT_OVERHEAD_BYTES = 26
MAX_EVENT_BYTES = 262_144
"""Overhead included. Most regions accept 1 MB since 2025; longer events are sent in parts, so the smaller limit costs nothing."""
_DAY_MS = 86_400_000
_MAX_NAME_CHARS = 512
_BYTES_A_CHAR = 6  # ``\u0000`` in JSON; 4 in UTF-8
_PART_OVERHEAD_BYTES = 40
_REFUSED = frozenset({"InvalidParameterException", "ValidationException", "SerializationException"})


class CloudWatchLogsTarget:
    """A log group. ``shape``: ``json`` sends the event as a document, ``text`` its message only (an empty message as a space), and no
    records of closed writers.

    ``client`` is a boto3 ``logs`` client. A missing group or stream is created.
    """

    limits = Limits(events=10_000, bytes=1_048_576, span_ms=_DAY_MS)
    per_run = True

    def __init__(
        self, client: Any, group: str, shape: Literal["json", "text"] = "json", event_bytes: int = MAX_EVENT_BYTES
    ) -> None:
        self._client, self._group, self._shape = client, group, shape
        self._room = event_bytes - EVENT_OVERHEAD_BYTES

    def size(self, event: Event) -> int:
        """See the port. The sum of all parts."""
        return sum(len(part) + EVENT_OVERHEAD_BYTES for part in self._parts(event))

    def send(self, loggable: Loggable, events: Sequence[Event]) -> Sequence[Refused]:
        """See the port. Events with the same millisecond stay in order."""
        parts = [(event.timestamp, index, part) for index, event in enumerate(events) for part in self._parts(event)]
        too_large = {index for _, index, part in parts if len(part) > self._room}
        rows = sorted((part for part in parts if part[1] not in too_large), key=lambda part: part[0])
        refused = dict.fromkeys(too_large, "too large for an event")
        if rows:
            answer = self._put(stream_name(loggable), [{"timestamp": at, "message": part.decode()} for at, _, part in rows])
            rejected = answer.get("rejectedLogEventsInfo") or {}
            refused |= {rows[row][1]: reason for row, reason in _rejected(rejected, len(rows))}
        return tuple(Refused(index, refused[index]) for index in sorted(refused))

    def close(self) -> None:
        """See the port."""
        self._client.close()

    def _parts(self, event: Event) -> Sequence[bytes]:
        """The event in one or more parts; JSON parts have the same ``uid``, their number and the number of parts."""
        if self._shape == "text":
            if isinstance(event, WriterEndEvent):
                return []  # text alone would be a line of the log
            complete = (event.message or " ").encode()
            return [complete] if len(complete) <= self._room else [piece.encode() for piece in _pieces(event.message, self._room)]
        fields = document(event)
        complete = packed(fields)
        if len(complete) <= self._room:
            return [complete]
        around = len(packed({**fields, "message": ""})) + _PART_OVERHEAD_BYTES
        if self._room - around < _BYTES_A_CHAR:
            return [complete]
        pieces = _pieces(event.message, self._room - around)
        return [
            packed({**fields, "message": piece, "part": number, "parts": len(pieces)})
            for number, piece in enumerate(pieces, start=1)
        ]

    def _put(self, stream: str, rows: Sequence[Mapping[str, Any]]) -> Mapping[str, Any]:
        where = {"logGroupName": self._group, "logStreamName": stream}
        try:
            return self._call("put_log_events", logEvents=rows, **where)
        except _MissingError:
            with suppress(_AlreadyExistsError):
                self._make_stream(where)
            return self._call("put_log_events", logEvents=rows, **where)

    def _make_stream(self, where: Mapping[str, str]) -> None:
        try:
            self._call("create_log_stream", **where)
        except _MissingError:
            with suppress(_AlreadyExistsError):
                self._call("create_log_group", logGroupName=self._group)
            self._call("create_log_stream", **where)

    def _call(self, operation: str, **parameters: Any) -> Mapping[str, Any]:
        with translate_errors(operation, self._group, write=True):
            try:
                answer: Mapping[str, Any] = getattr(self._client, operation)(**parameters)
                return answer
            except ClientError as error:
                code = error.response.get("Error", {}).get("Code")
                if code == "ResourceNotFoundException":
                    raise _MissingError(f"no such log group or stream what={self._group}") from error
                if code == "ResourceAlreadyExistsException":
                    raise _AlreadyExistsError(f"the log group or stream exists what={self._group}") from error
                if code in _REFUSED:
                    raise RequestRefusedError(f"{operation} was rejected code={code} what={self._group}") from error
                raise


class _MissingError(RequestRefusedError):
    """The log group or stream does not exist."""


class _AlreadyExistsError(RequestRefusedError):
    """A group or stream with this name exists."""


def stream_name(loggable: Loggable) -> str:
    """The stream of a run: pipeline and run id, with characters that are not allowed percent-encoded. Longer names end in a digest."""
    names = [name for name in (loggable.job_id, loggable.loggable_id) if name]
    name = "/".join(name.replace("%", "%25").replace(":", "%3A").replace("*", "%2A") for name in names)
    if len(name) <= _MAX_NAME_CHARS:
        return name
    return f"{name[: _MAX_NAME_CHARS - 33]}-{blake2b(name.encode(), digest_size=16).hexdigest()}"


def _pieces(text: str, room: int) -> Sequence[str]:
    """Splits a text into parts that fit for any characters, without splitting a character."""
    if len(text) * _BYTES_A_CHAR <= room:
        return [text]
    step = max(room // _BYTES_A_CHAR, 1)
    return [text[at : at + step] for at in range(0, len(text), step)]


def _rejected(info: Mapping[str, int], count: int) -> Iterator[tuple[int, str]]:
    """(row, reason) of the rejected rows. The first two indexes are exclusive, the third is inclusive."""
    for row in range(info.get("expiredLogEventEndIndex") or 0):
        yield row, "older than the group's retention"
    for row in range(info.get("tooOldLogEventEndIndex") or 0):
        yield row, "older than 14 days"
    start = info.get("tooNewLogEventStartIndex")
    for row in range(count if start is None else start, count):
        yield row, "more than 2 hours ahead"
