"""CloudWatch Logs as a log browser: GetLogEvents on the stream of a run, and FilterLogEvents for a step and the records of closed
writers.

Source: the API reference. Both return at most 1 MB and 10,000 rows, in the order of their times; rows of one millisecond are in the order
in which they were stored. Pages may be empty; GetLogEvents' last one repeats the token of the request. Rows are stored at least once.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from botocore.exceptions import ClientError

from chalicelib.aws.cloudwatch_logs import stream_name
from chalicelib.aws.errors import translate_errors
from chalicelib.errors import DamagedLogError
from chalicelib.events.browsers.query import EventHit, EventHits, EventQuery, decode_position, encode_position
from chalicelib.events.browsers.query_browser import QueryBrowser
from chalicelib.events.event import STEP_ID, Event, Loggable, WriterEndEvent
from chalicelib.events.targets.document import WRITER_END, document, parse_document
from chalicelib.ports import Clock

_FIELDS: Mapping[str, type] = {"@timestamp": str, "uid": str, "id": int, "writer": str, "data": dict, "message": str}
_MAX_ROWS, _MIN_ROWS = 10_000, 100
_ENDS = f"{{ $.{WRITER_END}.count >= 0 }}"
_KINDS = (int, str, int, int)
_Key = tuple[str, int, int]
"""Writer, id, and for a row that is not a document its number in the millisecond."""
_PLAIN_NAME = re.compile(r"[A-Za-z0-9_.:/-]+")
_BEFORE_ALL: _Key = ("", -1, 0)


class CloudWatchBrowser(QueryBrowser):
    """``LogBrowser`` of a log group. A group or stream that does not exist has no events. ``client`` is a boto3 ``logs`` client.

    Rows that are not documents of events are events without a writer, in the order in which they were stored. Documents of other
    installations are skipped. A long event is returned once all its parts are there. The stream is not ordered within a
    millisecond, so a page reads the complete millisecond in which it starts, and the one in which it ends. Memory: an answer, and
    twice the events of a query.
    """

    def __init__(self, client: Any, group: str, loggable: Loggable, clock: Clock, grace_ms: int) -> None:
        super().__init__(loggable, clock, grace_ms)
        self._client, self._where = client, {"logGroupName": group, "logStreamName": stream_name(loggable)}

    def find(self, query: EventQuery) -> EventHits:
        """See ``QueryBrowser``: a request for each 1 MB or 10,000 rows. Uses the times of the filter, and the step if its name has only
        letters, digits and ``_.:/-``: other characters have a meaning in patterns, so all rows are read."""
        event_filter, page = query.event_filter, _SortedPage(self._loggable, query)
        from_ms, to_ms = max(page.start_ms, event_filter.from_ms or 0), event_filter.to_ms
        if to_ms is not None and to_ms <= from_ms:
            return EventHits([], None, False)
        if event_filter.step is not None and _PLAIN_NAME.fullmatch(event_filter.step):
            rows = self._matching_rows(f'{{ $.data.{STEP_ID} = "{event_filter.step}" }}', from_ms, to_ms)
        else:
            rows = self._rows(from_ms, to_ms, min(max(query.limit + 1, _MIN_ROWS), _MAX_ROWS))
        for row in rows:
            if not page.add(row["timestamp"], row["message"]):
                return page.answer(has_more=True)
        return page.answer(has_more=False)

    def ends(self) -> Iterator[WriterEndEvent]:
        """See ``QueryBrowser``: a request for each 1 MB or 10,000 rows of the result."""
        for row in self._matching_rows(_ENDS):
            fields = _document(row["message"])
            event = parse_document(fields) if fields is not None and self._loggable.owns(fields["data"]) else None
            if isinstance(event, WriterEndEvent):
                yield event

    def time_of_last(self, count: int) -> int | None:
        """See ``QueryBrowser``: GetLogEvents backwards, a request for each 1 MB or 10,000 rows. Memory: the keys of the events."""
        counted, plain_rows, last_ms = set[tuple[str, int]](), 0, None
        for row in self._rows(0, None, min(max(count, _MIN_ROWS), _MAX_ROWS), is_backward=True):
            if len(counted) + plain_rows >= count:
                break
            fields = _document(row["message"])
            if fields is None:
                plain_rows, last_ms = plain_rows + 1, row["timestamp"]
            elif self._loggable.owns(fields["data"]) and WRITER_END not in fields and fields.get("part", 1) == 1:
                counted.add((fields["writer"], fields["id"]))
                last_ms = row["timestamp"]
        return last_ms

    def delete_events(self) -> None:
        """Deletes the stream, also with events that other installations sent for the same pipeline and run. One request."""
        self._call("delete_log_stream", self._where, write=True)

    def _rows(self, from_ms: int, to_ms: int | None, limit: int, *, is_backward: bool = False) -> Iterator[Mapping[str, Any]]:
        request: dict[str, Any] = {**self._where, "startTime": from_ms, "limit": limit, "startFromHead": not is_backward}
        if to_ms is not None:
            request["endTime"] = to_ms
        token: dict[str, str] = {}
        while True:
            answer = self._call("get_log_events", {**request, **token})
            rows = answer.get("events") or ()
            yield from reversed(rows) if is_backward else rows
            following = answer.get("nextBackwardToken" if is_backward else "nextForwardToken")
            if not following or following == token.get("nextToken"):
                return
            token = {"nextToken": following}

    def _matching_rows(self, pattern: str, from_ms: int = 0, to_ms: int | None = None) -> Iterator[Mapping[str, Any]]:
        """Rows that match a pattern, and maybe others, in the order of their times."""
        group, stream = self._where["logGroupName"], self._where["logStreamName"]
        request = {"logGroupName": group, "logStreamNames": [stream], "filterPattern": pattern, "startTime": from_ms}
        if to_ms is not None:
            request["endTime"] = to_ms - 1  # included, other than GetLogEvents' end
        token: dict[str, str] = {}
        while True:
            answer = self._call("filter_log_events", {**request, **token})
            yield from answer.get("events") or ()
            if not answer.get("nextToken"):
                return
            token = {"nextToken": answer["nextToken"]}

    def _call(self, operation: str, parameters: Mapping[str, Any], *, write: bool = False) -> Mapping[str, Any]:
        with translate_errors(operation, self._where["logGroupName"], write=write):
            try:
                answer: Mapping[str, Any] = getattr(self._client, operation)(**parameters)
                return answer
            except ClientError as error:
                if error.response.get("Error", {}).get("Code") == "ResourceNotFoundException":
                    return {}
                raise


@dataclass(slots=True)
class _Draft:
    """The document of an event, of which some parts are read. ``messages`` by number."""

    fields: Mapping[str, Any]
    messages: dict[int, str] = field(default_factory=dict)

    @property
    def is_complete(self) -> bool:
        return len(self.messages) >= int(self.fields.get("parts", 1))

    def event(self, at_ms: int) -> Event:
        message = "".join(self.messages[number] for number in sorted(self.messages))
        event = parse_document({**self.fields, "message": message})
        return event if event.timestamp == at_ms else event.model_copy(update={"timestamp": at_ms})


class _SortedPage:
    """The first events after a position, from rows in the order of their times: the events of each millisecond are sorted by writer
    and id. Of a millisecond with very many events only the first ones are kept, at most twice the limit."""

    def __init__(self, loggable: Loggable, query: EventQuery) -> None:
        self._loggable, self._limit = loggable, query.limit
        self._ms, self._after = _position(query.after)
        self._drafts: dict[_Key, _Draft] = {}
        self._plain_rows = 0
        self._bound: _Key | None = None  # greater keys of the millisecond were dropped
        self._hits: list[EventHit] = []
        self._end: str | None = None
        self._is_full = self._is_cut = False

    @property
    def start_ms(self) -> int:
        """The millisecond in which the page starts."""
        return self._ms

    def add(self, at_ms: int, text: str) -> bool:
        """Add a row. False: the page is full without it."""
        if at_ms < self._ms:
            raise DamagedLogError(f"rows are not in the order of their times timestamp={at_ms} before={self._ms}")
        if at_ms > self._ms:
            self._settle()
            if self._is_full:
                return False
            self._ms, self._after, self._plain_rows = at_ms, _BEFORE_ALL, 0
        fields = _document(text)
        if fields is None:
            self._plain_rows += 1
            self._add(("", 0, self._plain_rows), _plain_fields(text, at_ms, self._loggable), text)
        elif self._loggable.owns(fields["data"]):
            self._add((fields["writer"], fields["id"], 0), fields, fields["message"])
        return True

    def answer(self, *, has_more: bool) -> EventHits:
        """The events of the rows that were added."""
        self._settle()
        return EventHits(self._hits, self._end, has_more or self._is_cut)

    def _add(self, key: _Key, fields: Mapping[str, Any], message: str) -> None:
        if key <= self._after or (self._bound is not None and key > self._bound):
            return
        draft = self._drafts.setdefault(key, _Draft({name: value for name, value in fields.items() if name != "message"}))
        draft.messages[fields.get("part", 1)] = message
        if len(self._drafts) > 2 * self._limit:
            first = sorted(self._drafts)[: self._limit]
            self._drafts = {each: self._drafts[each] for each in first}
            self._bound = first[-1]

    def _settle(self) -> None:
        """Move the events of the millisecond to the page."""
        for key in sorted(self._drafts):
            if len(self._hits) >= self._limit:
                self._is_cut = True
                break
            self._end, draft = encode_position((self._ms, *key)), self._drafts[key]
            if draft.is_complete:
                self._hits.append(EventHit(draft.event(self._ms), self._end))
        self._is_cut = self._is_cut or self._bound is not None
        self._is_full = self._is_cut or len(self._hits) >= self._limit
        self._drafts, self._bound = {}, None


def _position(after: str | None) -> tuple[int, _Key]:
    if after is None:
        return 0, _BEFORE_ALL
    at_ms, writer, number, row = decode_position(after, _KINDS)
    return int(at_ms or 0), (str(writer), int(number or 0), int(row or 0))


def _document(text: str) -> dict[str, Any] | None:
    """The document of an event; None for another row."""
    try:
        fields = json.loads(text) if text.startswith("{") else None
    except (ValueError, RecursionError):
        return None
    if not isinstance(fields, dict) or not all(isinstance(fields.get(name), kind) for name, kind in _FIELDS.items()):
        return None
    return fields if all(isinstance(fields.get(name, 1), int) for name in ("part", "parts")) else None


def _plain_fields(text: str, at_ms: int, loggable: Loggable) -> dict[str, Any]:
    event = Event(id=0, message=text, timestamp=at_ms, data=loggable.mandatory_data())
    return document(event)
