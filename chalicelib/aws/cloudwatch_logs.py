"""CloudWatch Logs as a target of events: PutLogEvents, a log stream for each run.

Source: the API reference of PutLogEvents. A request holds 10,000 events and 1,048,576 bytes (26 for each event beside its message), no
more than 24 hours apart, in order of time; sequence tokens are ignored. Events older than 14 days (or than the group's retention) or more
than 2 hours ahead are rejected one by one, and told by index. It cannot tell an event that it has already.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from hashlib import blake2b
from typing import Any, Literal

from botocore.exceptions import ClientError

from chalicelib.aws.errors import translated
from chalicelib.errors import RequestRefusedError
from chalicelib.events.event import Event, Loggable
from chalicelib.events.ports import Limits, Refused
from chalicelib.events.targets.document import document, packed

EVENT_OVERHEAD_BYTES = 26
EVENT_BYTES = 262_144
"""With the overhead. Most regions take 1 MB since 2025; a longer event is sent in parts, so the smaller limit costs nothing."""
_DAY_MS = 86_400_000
_MOST_NAME = 512
_BYTES_A_CHAR = 6  # ``\u0000`` in JSON; 4 in UTF-8
_FOR_A_PART = 40
_REFUSED = frozenset({"InvalidParameterException", "ValidationException", "SerializationException"})


class CloudWatchLogsTarget:
    """A log group. ``shape``: ``json``, the event as a document, or ``text``, its message alone (an empty one as a blank).

    ``client`` is a boto3 client of ``logs``. Group and stream are made when they are missed.
    """

    limits = Limits(events=10_000, bytes=1_048_576, span_ms=_DAY_MS)

    def __init__(self, client: Any, group: str, shape: Literal["json", "text"] = "json", event_bytes: int = EVENT_BYTES) -> None:
        self._client, self._group, self._shape = client, group, shape
        self._room = event_bytes - EVENT_OVERHEAD_BYTES

    def size(self, event: Event) -> int:
        """See the port. Of all its parts."""
        return sum(len(part) + EVENT_OVERHEAD_BYTES for part in self._parts(event))

    def send(self, loggable: Loggable, events: Sequence[Event]) -> Sequence[Refused]:
        """See the port. Events of one millisecond stay in order."""
        parts = [(event.timestamp, index, part) for index, event in enumerate(events) for part in self._parts(event)]
        too_large = {index for _, index, part in parts if len(part) > self._room}
        rows = sorted((part for part in parts if part[1] not in too_large), key=lambda part: part[0])
        refused = dict.fromkeys(too_large, "too large for an event")
        if rows:
            answer = self._put(stream_of(loggable), [{"timestamp": at, "message": part.decode()} for at, _, part in rows])
            rejected = answer.get("rejectedLogEventsInfo") or {}
            refused |= {rows[row][1]: reason for row, reason in _rejected(rejected, len(rows))}
        return tuple(Refused(index, refused[index]) for index in sorted(refused))

    def close(self) -> None:
        """See the port."""
        self._client.close()

    def _parts(self, event: Event) -> Sequence[bytes]:
        """One, or as many as it takes; in JSON they have their number and their count beside the same ``uid``."""
        if self._shape == "text":
            whole = (event.message or " ").encode()
            return [whole] if len(whole) <= self._room else [piece.encode() for piece in _pieces(event.message, self._room)]
        found = document(event)
        whole = packed(found)
        if len(whole) <= self._room:
            return [whole]
        around = len(packed({**found, "message": ""})) + _FOR_A_PART
        if self._room - around < _BYTES_A_CHAR:
            return [whole]
        pieces = _pieces(event.message, self._room - around)
        return [
            packed({**found, "message": piece, "part": number, "parts": len(pieces)})
            for number, piece in enumerate(pieces, start=1)
        ]

    def _put(self, stream: str, rows: Sequence[Mapping[str, Any]]) -> Mapping[str, Any]:
        where = {"logGroupName": self._group, "logStreamName": stream}
        try:
            return self._asked("put_log_events", logEvents=rows, **where)
        except _MissingError:
            with suppress(_ThereError):
                self._make_stream(where)
            return self._asked("put_log_events", logEvents=rows, **where)

    def _make_stream(self, where: Mapping[str, str]) -> None:
        try:
            self._asked("create_log_stream", **where)
        except _MissingError:
            with suppress(_ThereError):
                self._asked("create_log_group", logGroupName=self._group)
            self._asked("create_log_stream", **where)

    def _asked(self, operation: str, **given: Any) -> Mapping[str, Any]:
        with translated(operation, self._group, write=True):
            try:
                answer: Mapping[str, Any] = getattr(self._client, operation)(**given)
                return answer
            except ClientError as error:
                code = error.response.get("Error", {}).get("Code")
                if code == "ResourceNotFoundException":
                    raise _MissingError(f"there is none what={self._group}") from error
                if code == "ResourceAlreadyExistsException":
                    raise _ThereError(f"somebody was faster what={self._group}") from error
                if code in _REFUSED:
                    raise RequestRefusedError(f"{operation} was refused code={code} what={self._group}") from error
                raise


class _MissingError(RequestRefusedError):
    """No such group or stream."""


class _ThereError(RequestRefusedError):
    """A group or stream of that name is there already."""


def stream_of(loggable: Loggable) -> str:
    """A run's stream: its pipeline and its id. What names of streams may not have is percent-encoded, and what is too long ends in a digest."""
    names = [name for name in (loggable.job_id, loggable.loggable_id) if name]
    name = "/".join(name.replace("%", "%25").replace(":", "%3A").replace("*", "%2A") for name in names)
    if len(name) <= _MOST_NAME:
        return name
    return f"{name[: _MOST_NAME - 33]}-{blake2b(name.encode(), digest_size=16).hexdigest()}"


def _pieces(text: str, room: int) -> Sequence[str]:
    """A text in parts that surely fit: none of them is cut within a character."""
    if len(text) * _BYTES_A_CHAR <= room:
        return [text]
    step = max(room // _BYTES_A_CHAR, 1)
    return [text[at : at + step] for at in range(0, len(text), step)]


def _rejected(info: Mapping[str, int], count: int) -> Iterator[tuple[int, str]]:
    """Which rows were rejected, and why. The first two limits are exclusive, the third is inclusive."""
    for row in range(info.get("expiredLogEventEndIndex") or 0):
        yield row, "older than the group's retention"
    for row in range(info.get("tooOldLogEventEndIndex") or 0):
        yield row, "older than 14 days"
    start = info.get("tooNewLogEventStartIndex")
    for row in range(count if start is None else start, count):
        yield row, "more than 2 hours ahead"
