"""Responses of the API of dead letters."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import Field

from chalicelib.routes.schemas import Count, Cursor, Moment, ResponseModel

DEFAULT_LIMIT, MAX_LIMIT = 100, 1000
MAX_HANDLER_CHARS, MAX_LINE = 1000, 10**15 - 1


class DeadLetterItem(ResponseModel):
    """An event that a handler failed to process."""

    pipeline: Annotated[str, Field(description="The processing pipeline.")]
    handler: str
    fqn: str
    runId: str
    line: Count
    storedAt: Annotated[Moment, Field(description="Time of the last attempt.")]
    bytes: Count


class DeadLetterItemPage(ResponseModel):
    """A page of dead letters."""

    letters: Annotated[list[DeadLetterItem], Field(max_length=MAX_LIMIT)]
    cursor: Cursor


class DeadLetterEvent(ResponseModel):
    """The event of a dead letter."""

    fqn: str
    runId: str
    line: Count
    time: Annotated[int, Field(description="Milliseconds since the epoch.")]
    level: str
    logger: str
    message: str
    step: str
    data: dict[str, Any]


class DeadLetterDetails(ResponseModel):
    """A dead letter with its event."""

    pipeline: str
    handler: str
    reason: Annotated[str, Field(description="The error of the last attempt.")]
    trace: Annotated[str | None, Field(description="Its traceback; null without the scope `admin` of `pipelines/{name}`.")]
    attempts: Count
    failedAt: Moment
    resendRequestedAt: Annotated[Moment | None, Field(description="Time of a request to send it again that was not tried yet.")]
    event: DeadLetterEvent
    truncated: Annotated[
        bool, Field(description="Whether the event is too large for a response: its message is cut, or its data are empty.")
    ]


class ResendState(ResponseModel):
    """The request to send a dead letter again is stored."""

    requestedAt: Moment
