"""Responses of the coordination API."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from chalicelib.routes.schemas import Count, Cursor, Moment, ResponseModel

DEFAULT_LIMIT, MAX_LIMIT = 25, 100


class PartitionItem(ResponseModel):
    """The partition of a run's background work."""

    key: Annotated[str, Field(description="`fqn/run_id`.")]
    fqn: str
    run_id: str
    status: Literal["COMPLETED", "CLOSED", "ASSIGNED", "UNASSIGNED"]
    set_aside: Annotated[
        bool, Field(description="Quarantined after repeated failures: no worker acquires it until an operator retries it.")
    ]
    failures: Annotated[Count, Field(description="Number of consecutive failures.")]
    error: Annotated[str | None, Field(description="Message of the last failure; null: none.")]
    failed_at: Annotated[Moment | None, Field(description="Time of the last failure.")]
    reopen_at: Annotated[Moment | None, Field(description="Time of the next attempt; only if CLOSED.")]
    owner: Annotated[str | None, Field(description="Owner of the lease, as `host:process:acquisition`; only if ASSIGNED.")]
    owned_until: Annotated[
        Moment | None,
        Field(description="End of the lease, unless its owner renews it; after that, another worker may acquire the partition."),
    ]
    since: Annotated[Moment | None, Field(description="Time since when it has this status; null if unknown, as for ASSIGNED.")]
    age_s: Annotated[Count | None, Field(description="Seconds since `since`.")]
    version: Annotated[Count, Field(description="Increases with each write of the item.")]


class PartitionItemPage(ResponseModel):
    """A page of partitions, oldest first within a status. The last page may be empty."""

    partitions: Annotated[list[PartitionItem], Field(max_length=MAX_LIMIT)]
    cursor: Cursor
