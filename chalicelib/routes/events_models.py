"""Requests and responses of the API of events. Other requests are the models of the package ``events``, which validate events from elsewhere too.
Responses are typed dictionaries: events and rows are served as they are stored, without the time of a validation."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, NotRequired

from pydantic import BaseModel, ConfigDict, Field, JsonValue
from typing_extensions import TypedDict

from chalicelib.events.completeness import COMPLETE, LOST, MAX_LISTED_RANGES, PENDING
from chalicelib.events.event import Annotation, Timestamp
from chalicelib.events.event_browser import MAX_LIMIT
from chalicelib.events.event_view import SEVERITIES
from chalicelib.events.names import MAX_NAME_CHARS
from chalicelib.events.ranges import Range
from chalicelib.events.step_updates import StepStatus
from chalicelib.events.steps import MAX_LINE_RANGES
from chalicelib.events.writers import MAX_COUNT
from chalicelib.routes.schemas import Count, DescribedBy, ResponseModel, one_of

MAX_LINES = 1_000_000
"""Of a part of a log."""
MAX_TEXT_CHARS = 500
MAX_LISTED = 10_000
"""Steps or writers per page: about as many as fit into a response."""
Name = Annotated[str, Field(min_length=1, max_length=MAX_NAME_CHARS)]
Object = Mapping[str, JsonValue]
NextPage = Annotated[str | None, Field(description="Beginning of the next page; null on the last page.")]


class WriterEnd(BaseModel):
    """The end of a writer. Its events have the ids 0 to `count` - 1."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, populate_by_name=True)

    count: Annotated[int, Field(ge=0, le=MAX_COUNT, description="Number of its events.")]
    last_timestamp: Timestamp | None = Field(None, alias="lastTimestamp")


class RejectedEvent(TypedDict):
    """A rejected item of a request."""

    index: Annotated[Count, Field(description="Index of the item in the request.")]
    code: int
    message: str


class AcceptedEvents(TypedDict):
    """Valid items are stored; the response lists the rejected ones."""

    accepted: Annotated[Count, Field(description="Number of stored events.")]
    firstLine: Annotated[Count | None, Field(description="Number of the first line of the first stored event.")]
    position: Annotated[str, Field(description="The position, as in the cookie.")]
    repeated: Annotated[bool, Field(description="Whether the batch was stored before.")]
    errors: list[RejectedEvent]


class EventOutline(TypedDict):
    """An event without its text, returned with `outline`."""

    line: Annotated[Count, Field(description="Number of its first line, from 0.")]
    lines: Annotated[Count, Field(description="Number of its lines.")]
    severity: Annotated[
        Annotated[str, one_of(SEVERITIES)] | None, Field(description="Standard name of its level; null without a level.")
    ]
    hasData: Annotated[bool, Field(description="Whether it has data in addition to the fields that the archive adds.")]


class BrowsedEvent(EventOutline):
    """An event of a log. Plain lines of the log are events too, with the line number as id and an empty writer."""

    id: Annotated[Count, Field(description="Unique within its writer.")]
    writer: str
    timestamp: Annotated[int | None, Field(description="In ms since the epoch; null for a plain line without a time.")]
    level: str | None
    step: str | None
    message: str
    data: Object
    annotations: Sequence[Annotated[Object, DescribedBy(Annotation)]]
    truncated: NotRequired[
        Annotated[
            bool,
            Field(description="The message is too large for a response and is truncated; `log` returns all of it."),
        ]
    ]


class BrowsedEventPage(TypedDict):
    """Events in the order of the log. A page may have fewer events than `limit`, or none, and still have an `after`."""

    events: Annotated[
        list[BrowsedEvent | EventOutline],
        Field(max_length=MAX_LIMIT, description="EventOutline with `outline`, else BrowsedEvent."),
    ]
    after: Annotated[str | None, Field(description="Beginning of the next page; null: no more events at present.")]


class LogPart(TypedDict):
    """Part of a log: complete lines, or a part of a line that is too long for a response."""

    text: str
    next: Annotated[Count, Field(description="Byte offset of the end of this part: `start` of the next request.")]
    complete: Annotated[bool, Field(description="Whether no more lines can follow.")]
    lines: Annotated[Count, Field(description="Number of line ends in this part.")]


class MergedStep(TypedDict):
    """All updates of a step, merged."""

    step: str
    name: Name | None
    parent: Name | None
    startedMs: Timestamp | None
    endedMs: Timestamp | None
    status: StepStatus | None


class StepEntry(TypedDict):
    """A step, combined from its events and its updates."""

    step: str
    name: Annotated[str, Field(description="The name in the update; default: the step's id.")]
    parent: str | None
    startedMs: Timestamp | None
    endedMs: Timestamp | None
    durationMs: Annotated[Count | None, Field(description="Until its end, or until its last event if the end is unknown.")]
    lines: Annotated[Count, Field(description="Number of lines in its log.")]
    bytes: Annotated[Count, Field(description="Size of its log in bytes.")]
    errors: Annotated[Count, Field(description="Number of its events that are errors.")]
    firstLine: Annotated[Count | None, Field(description="Number of its first line in the log of the run.")]
    lineRanges: Annotated[
        Sequence[Range],
        Field(
            max_length=MAX_LINE_RANGES,
            description=f"Its longest ranges of lines in the log of the run, {MAX_LINE_RANGES} at most: first and last line, ascending.",
        ),
    ]
    status: StepStatus | None
    complete: Annotated[bool, Field(description="Whether no more events can follow.")]


class StepEntryPage(TypedDict):
    """Steps in the order of their start."""

    steps: Sequence[StepEntry]
    after: NextPage


class StartedAttempt(TypedDict):
    """A started attempt."""

    runId: Annotated[str, Field(description="The run that stores its log: `run-1~2` for attempt 2 of `run-1`.")]
    attempt: Annotated[int, Field(ge=1, description="Number of the attempt, from 1.")]
    startedMs: Timestamp
    position: Annotated[str, Field(description="The position for its first batch, as in the cookie.")]
    joined: Annotated[bool, Field(description="With `join`: another client started the attempt, and closes it.")]
    instanceId: Annotated[str, Field(description="The name of this installation, which events in another store need.")]


class HeartbeatResult(TypedDict):
    """The result of a heartbeat."""

    recorded: Annotated[
        bool, Field(description="False: the run has ended, is not catalogued yet, or a later heartbeat is recorded.")
    ]


class RegisteredWriter(TypedDict):
    """A registered writer."""

    writer: str


class ClosedWriter(TypedDict):
    """A closed writer."""

    writer: str
    count: Annotated[Count, Field(description="Number of its events.")]


class WriterCompleteness(TypedDict):
    """The completeness of a writer's events."""

    writer: str
    opened: bool
    closed: bool
    count: Annotated[Count | None, Field(description="The count that the writer reported when it was closed.")]
    visible: Annotated[Count, Field(description="Number of indexed events, or of those in the run's store.")]
    missing: Annotated[
        Sequence[Range],
        Field(max_length=MAX_LISTED_RANGES, description="The first ten ranges of missing ids: first and last id."),
    ]
    lastTimestamp: Timestamp | None


class RunCompleteness(TypedDict):
    """`complete`: the run is sealed, every registered writer is closed, and all their events are visible. `lost`: after a grace period, events
    of a closed writer are missing, or a writer of a sealed run is not closed. `pending`: neither."""

    state: Annotated[str, one_of([COMPLETE, PENDING, LOST])]
    sealed: bool
    after: NextPage
    writers: Sequence[WriterCompleteness]
    lost: Annotated[list[str], Field(description="Writers with missing events, or that were not closed.")]


class LocatorEntry(ResponseModel):
    """A locator with what it chooses, in the order in which they are tried."""

    pattern: str
    browser: str
    outputs: Annotated[list[str], Field(description="Names of outputs.")]


class PluginEntry(ResponseModel):
    """A log browser or a configured output."""

    kind: Annotated[str, one_of(["browser", "output"])]
    name: str
    protocol: Annotated[int | None, Field(description="The version of the protocol that it declares.")]
    problem: Annotated[str | None, Field(description="Why it cannot be used.")]
    fallback: Annotated[str | None, Field(description="Used in its place.")]


class ChosenEntry(ResponseModel):
    """What a new run of a pipeline gets."""

    fqn: str
    browser: str
    outputs: Annotated[list[str], Field(description="Names of outputs.")]
    locator: Annotated[str | None, Field(description="The pattern of the locator that chose; null: none matches.")]


class RedactedConfiguration(ResponseModel):
    """Configuration of where events are browsed and forwarded. Secrets are replaced by `***`."""

    browser: str
    browsers: Annotated[dict[str, Any], Field(description="Options by name.")]
    rules: Annotated[list[Any], Field(description="Rules that assign agents' records to runs.")]
    outputs: Annotated[list[Any], Field(description="Other systems that events are forwarded to.")]
    installed: Annotated[dict[str, list[str]], Field(description="Available browsers.")]
    locators: list[LocatorEntry]
    plugins: list[PluginEntry]
    chosen: Annotated[ChosenEntry | None, Field(description="With `fqn`: what a new run of that pipeline gets.")]
