"""Requests and responses of the API of processing pipelines."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field
from pydantic.json_schema import SkipJsonSchema

from chalicelib.catalog.timestamps import parse_time_ms
from chalicelib.errors import InvalidInputError, InvalidTimeError
from chalicelib.routes.schemas import Count, Moment, RequestModel, ResponseModel

DEFAULT_LIMIT, MAX_LIMIT = 100, 200
MAX_PROBLEMS = 100
FROM_REQUIRED = "the field from is required: the time to replay from (ISO 8601, or ms since the epoch)"

PipelineStatus = Literal["new", "running", "silent", "disabled"]
HandlerStatus = Literal["enabled", "disabled", "failed", "replaying"]


class HandlerBody(RequestModel):
    """A request that changes a pipeline or one of its handlers."""

    handler: Annotated[str | SkipJsonSchema[None], Field(description="Name of a handler. Default: the whole pipeline.")] = None


class ReplayBody(RequestModel):
    """A request to replay a pipeline."""

    time: Annotated[
        Any,
        Field(alias="from", description="ISO 8601, or ms since the epoch.", json_schema_extra={"type": ["string", "integer"]}),
    ]

    def from_ms(self, now_ms: int) -> int:
        """The time to replay from. Raises InvalidInputError."""
        if self.time is None:
            raise InvalidInputError(FROM_REQUIRED)
        try:
            return parse_time_ms(self.time, now_ms)
        except InvalidTimeError as error:
            raise InvalidInputError(f"{error}: from is ISO 8601, or ms since the epoch") from None


class HandlerPosition(ResponseModel):
    """The position of an event."""

    run: str
    line: Count


class PipelineHandler(ResponseModel):
    """A handler of a pipeline."""

    name: str
    state: Annotated[
        HandlerStatus,
        Field(
            description="disabled: it failed too often, blocked, or an operator disabled it. failed: it could not be started; each start of "
            "the pipeline retries. replaying: it receives the events that it missed."
        ),
    ]
    reason: str | None
    since: Moment | None
    at: Annotated[HandlerPosition | None, Field(description="The event at which it was disabled.")]
    errors: Count


class ProcessingPipeline(ResponseModel):
    """The last reported status of a processing pipeline."""

    name: str
    state: Annotated[
        PipelineStatus,
        Field(description="new: has never run. silent: its worker has reported no status for ten minutes."),
    ]
    reported_at: Annotated[Moment | None, Field(serialization_alias="told_at", description="Time of the last status report.")]
    lag_events: Annotated[Count, Field(description="Lines of known runs that are not processed yet.")]
    lag_s: Annotated[float, Field(ge=0, description="Age of the oldest of these lines in seconds.")]
    runs: Annotated[Count, Field(description="Active runs.")]
    events: Annotated[
        Count, Field(description="Events processed since the worker started. All counters below also start with the worker.")
    ]
    late: Annotated[Count, Field(description="Events that arrived after later events were delivered.")]
    dropped: Annotated[Count, Field(description="Events dropped because their run, pipeline or namespace was deleted.")]
    dead_letters: Annotated[Count, Field(description="Events that a handler failed to process; they are stored below `_dead/`.")]
    errors: Count
    last_error: str | None
    replay_from: Annotated[Moment | None, Field(description="Start time of a requested replay that has not begun.")]
    handlers: list[PipelineHandler]


class InvalidPipelineFile(ResponseModel):
    """A file that is not a valid pipeline."""

    file: str
    reason: str


class ProcessingPipelinePage(ResponseModel):
    """A page of processing pipelines. The first page also lists invalid pipeline files."""

    pipelines: Annotated[list[ProcessingPipeline], Field(max_length=MAX_LIMIT)]
    cursor: Annotated[str | None, Field(description="Beginning of the next page; null on the last page.")]
    problems: Annotated[list[InvalidPipelineFile], Field(max_length=MAX_PROBLEMS)]
    more_problems: Annotated[Count, Field(description="Number of problems that are not listed.")]
