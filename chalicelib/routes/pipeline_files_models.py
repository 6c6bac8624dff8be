"""Responses of the API of pipeline files."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import ConfigDict, Field

from chalicelib.pipelines.files.repair import FindingKind
from chalicelib.pipelines.files.service import MAX_FINDINGS
from chalicelib.routes.schemas import Count, Cursor, ResponseModel, Uri

DEFAULT_LIMIT, MAX_LIMIT = 1000, 10_000
DEFAULT_FILES, MAX_FILES = 100, 1000
LINK_AGE_S = 3600
NO_LINE = -1


class FileEventItem(ResponseModel):
    """An event of a file."""

    model_config = ConfigDict(json_schema_serialization_defaults_required=False)

    time: Annotated[int, Field(description="Milliseconds since the epoch.")]
    level: str
    logger: str
    message: str
    fqn: Annotated[str, Field(description="Pipeline of the run that logged it; empty in text files.")]
    runId: str
    line: Annotated[int, Field(ge=NO_LINE, description="Its line in the run's log; -1 in text files.")]
    truncated: Annotated[
        bool,
        Field(description="True if the event is too large for a response and its texts are truncated; otherwise absent."),
    ] = False


class FileEventItemPage(ResponseModel):
    """Events in the order of time."""

    events: Annotated[list[FileEventItem], Field(max_length=MAX_LIMIT)]
    cursor: Annotated[str | None, Field(description="Beginning of the next page; null: no more events at present.")]
    leftOut: Annotated[Count, Field(description="Number of missing or damaged files and rows, which are left out.")]
    unsupported: Annotated[
        Count,
        Field(description="Number of files in a format that this server cannot read (Parquet); read them from the bucket."),
    ]


class PipelineFileItem(ResponseModel):
    """A file of a processing pipeline."""

    key: str
    fqn: Annotated[str, Field(description="Pipeline of the runs that logged its events.")]
    program: str
    format: str
    bytes: Annotated[Count, Field(description="The first bytes of the object that count; those after them were never committed.")]
    events: Count
    firstTime: Annotated[int, Field(description="Time of its earliest event, in milliseconds since the epoch.")]
    lastTime: Annotated[int, Field(description="Time of its latest event, in milliseconds since the epoch.")]
    complete: Annotated[bool, Field(description="Whether no events are added any more.")]
    url: Annotated[Uri, Field(description="Address of the object, without authentication, for an hour.")]


class PipelineFileItemPage(ResponseModel):
    """Files of an application, by program and first time."""

    files: Annotated[list[PipelineFileItem], Field(max_length=MAX_FILES)]
    cursor: Cursor
    leftOut: Annotated[Count, Field(description="Number of damaged rows, whose files are left out.")]


class FileBasePage(ResponseModel):
    """Bases of the handlers that have written files, in order."""

    bases: Annotated[list[str], Field(max_length=MAX_FILES)]
    cursor: Cursor


class DeletionState(ResponseModel):
    """The deletions of one request. Pipeline files are unreadable from the first request on."""

    state: Annotated[
        Literal["deleted", "deleting"],
        Field(description="deleting: repeat the request, or wait for the schedule."),
    ]
    files: Annotated[Count, Field(description="Number of deleted pipeline files.")]
    bytes: Annotated[Count, Field(description="Size of these files in bytes.")]
    runs: Annotated[Count, Field(description="Number of runs whose logs were deleted.")]
    waiting: Annotated[Count, Field(description="Number of runs whose last object is deleted 20 minutes after they were closed.")]
    shared: Annotated[
        Count,
        Field(description="Number of runs that remain: OpenMetadata stored them under a name that several pipelines share."),
    ]


class FileFindingItem(ResponseModel):
    """An inconsistency between a file and its row."""

    kind: FindingKind
    path: str
    detail: str


class FileFindingItems(ResponseModel):
    """Inconsistencies between files and their rows that are older than an hour."""

    findings: Annotated[list[FileFindingItem], Field(max_length=MAX_FINDINGS)]
    complete: Annotated[bool, Field(description="Whether all inconsistencies are listed.")]


class RepairedFileItems(ResponseModel):
    """The repaired inconsistencies."""

    mended: Annotated[list[FileFindingItem], Field(max_length=MAX_FINDINGS)]
    complete: Annotated[bool, Field(description="Whether none is left; false: repeat the request.")]
