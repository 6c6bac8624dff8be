"""Responses of deletions."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from chalicelib.routes.schemas import Count, ResponseModel

DATASET_UNTIL = "the next job build_dataset has ended; by default it runs every night"
LATE_UNTIL = "20 minutes have passed: a process that read the run before could still write; the schedule removes that"
NEWER, NEWER_UNTIL = (
    "runs that began after deletedAt",
    "late writes are removed: then the same request deletes these too; or delete each run",
)
SHARED, SHARED_UNTIL = (
    "logs that openmetadata stored under a name of several pipelines",
    "a request whose scope logs:delete covers all of these pipelines",
)
OUTSIDE = (
    "copies that were forwarded to other systems, and messages to subscribers",
    "logs that the client wrote to another store by its logging method",
    "backups, restored tables, replicas, and object versions under Object Lock",
    "datasets in other destinations, and files that users downloaded",
    "lines in the spools of clients: the server refuses them",
)


class OutstandingRemoval(ResponseModel):
    """Something that remains, and until when. Only runs of a deleted pipeline that it names as such can still be read."""

    what: str
    until: str


class RunDeletion(ResponseModel):
    """A deletion. Whatever its state, a deleted run can neither be read nor appended to."""

    state: Annotated[
        Literal["deleted", "deleting"],
        Field(description="deleting: too much for one request; repeat it, or wait for the schedule."),
    ]
    deletedAt: Annotated[Count, Field(description="Time of the first request, in milliseconds since the epoch.")]
    deletedBy: str
    reason: str | None
    counts: Annotated[
        dict[str, Count],
        Field(description="What was removed, by kind, such as objects, rows, files; of a pipeline: by this request."),
    ]
    outstanding: list[OutstandingRemoval]
    outside: Annotated[list[str], Field(description="What lies outside of this installation, and is not removed.")]
