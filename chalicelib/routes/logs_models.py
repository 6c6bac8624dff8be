"""Responses of run logs: typed dictionaries, which views import for mypy only: appends and pages are frequent, and the first one of a process
must not wait for schemas."""

from __future__ import annotations

from typing import Annotated, Literal, NotRequired

from pydantic import Field
from typing_extensions import TypedDict

from chalicelib.routes.schemas import Clock, Count, Cursor, Uri
from chalicelib.runlog.following import FollowEnd


class StoredBatch(TypedDict):
    """The batch is stored. If it has no lines, the response has only a position."""

    position: Annotated[str, Field(description="The position, as in the cookie.")]
    sequence: NotRequired[Annotated[Count, Field(description="Number of the segment.")]]
    line: NotRequired[Annotated[Count, Field(description="Number of the batch's first line in the log, from 0.")]]
    lines: NotRequired[Annotated[int, Field(ge=1, description="Number of lines in the batch.")]]
    repeated: NotRequired[Annotated[bool, Field(description="Whether an earlier request stored the batch.")]]


class ClosedRun(TypedDict):
    """The run is closed: no line can be appended."""

    message: Literal["Log stream closed successfully"]


class LogPage(TypedDict):
    """A page of lines; empty for an unknown run."""

    logs: Annotated[str, Field(description="Lines joined by newlines, none at the end.")]
    after: Annotated[str | None, Field(description="First line of the next page; null at the current end of the log.")]
    total: Annotated[Count, Field(description="Number of lines in the log.")]
    streaming: Annotated[bool, Field(description="Whether the run is running, so that lines may follow.")]
    clock: NotRequired[Clock]
    zone: NotRequired[
        Annotated[str, Field(description="Zone of times without one in the lines, if one was stated and `clock` is `lines`.")]
    ]


class TaskPage(TypedDict):
    """A page of lines as OpenMetadata's older pages read it: `logs` again under the key of the pipeline's type, such as `ingestion_task`."""

    logs: str
    after: Annotated[str, Field(description="First line of the next page; `total` on the last page.")]
    total: Annotated[str, Field(description="Number of lines in the log.")]
    ingestion_task: NotRequired[str]
    application_task: NotRequired[str]
    profiler_task: NotRequired[str]
    usage_task: NotRequired[str]
    lineage_task: NotRequired[str]
    dbt_task: NotRequired[str]
    test_suite_task: NotRequired[str]
    data_insight_task: NotRequired[str]
    elasticsearch_reindex_task: NotRequired[str]
    auto_classification_task: NotRequired[str]


class RunIdPage(TypedDict):
    """Runs of a pipeline by start time, newest first."""

    runs: Annotated[list[str], Field(description="Ids of runs.")]
    cursor: Cursor


class LogLink(TypedDict):
    """Link to the log, as in the header `Location`; null for a small log, which the request without `link` returns."""

    location: Uri | None


class LogError(TypedDict):
    """An error. `message` is lowercase and ends with relevant values as `key=value`."""

    code: Annotated[int | str, Field(description="The HTTP status, or `run_deleted`.")]
    message: str


# Events of the live stream: OpenAPI 3.1 has no schemas of frames.


class LinesEvent(TypedDict):
    """Complete lines, each with its newline. ``cut``: the only line does not fit a response, and its rest is missing. ``truncated`` of
    OpenMetadata's protocol is absent: a stream never skips earlier lines."""

    eventType: Literal["logs"]
    runId: str
    logs: str
    after: str
    replay: bool
    cut: bool


class CompleteEvent(TypedDict):
    """The end of a response. ``maxDuration``: the stream continues from ``after``; ``idleTimeout``: so it does, but no line came for long; other
    reasons: the end of the stream."""

    eventType: Literal["complete"]
    runId: str
    after: str
    reason: FollowEnd | Literal["maxDuration"]


class InterruptedEvent(TypedDict):
    """A temporary failure of the service: the response has no ``complete``. OpenMetadata's page ignores this event."""

    eventType: Literal["interrupted"]
    runId: str
    message: str


class ErrorEvent(TypedDict):
    """A permanent failure. ``final``: the same request would fail again."""

    eventType: Literal["error"]
    runId: str
    message: str
    final: Literal[True]


StreamEvent = LinesEvent | CompleteEvent | InterruptedEvent | ErrorEvent
