"""Background work in the OpenAPI document: texts and examples; schemas are generated from the models. ``openapi`` documents the format."""

from __future__ import annotations

from typing import Any

from chalicelib.composition import SOURCES
from chalicelib.routes.coordination_models import DEFAULT_LIMIT, MAX_LIMIT, PartitionItem, PartitionItemPage
from chalicelib.routes.openapi_logs import query_parameter
from chalicelib.routes.schemas import component_schemas

_PARTITION = {
    "key": "mysql.ingest/run-1",
    "fqn": "mysql.ingest",
    "run_id": "run-1",
    "status": "COMPLETED",
    "set_aside": True,
    "failures": 20,
    "error": "StoreUnavailableError: get failed code=AccessDenied what=pipeline-logs/mysql.ingest/run-1/segments/0000000004",
    "failed_at": "2026-09-21T14:13:20.000Z",
    "reopen_at": None,
    "owner": None,
    "owned_until": None,
    "since": "2026-09-21T14:13:20.000Z",
    "age_s": 3600,
    "version": 43,
}
_WAITING = _PARTITION | {
    "status": "UNASSIGNED",
    "set_aside": False,
    "failures": 0,
    "since": "2026-09-21T15:13:20.000Z",
    "age_s": 0,
    "version": 44,
}

SCHEMAS = component_schemas(
    {"Partition": PartitionItem, "PartitionList": PartitionItemPage},
    {"Partition": [_WAITING, _PARTITION], "PartitionList": [{"partitions": [_PARTITION], "cursor": None}]},
)

ERRORS: dict[int, tuple[int, str, str]] = {
    400: (
        400,
        "The request is invalid.",
        "status must be one of COMPLETED, CLOSED, ASSIGNED, UNASSIGNED status='done'",
    ),
    404: (
        404,
        "No such source, or no such partition: its work is done and it was deleted.",
        "no such partition key=mysql.ingest/run-9",
    ),
    503: (503, "Temporarily unavailable: repeat the request.", "query failed code=ThrottlingException what=runlake-coordination"),
}


PARAMETERS: dict[str, dict[str, Any]] = {
    "source": {
        "name": "source",
        "in": "path",
        "required": True,
        "description": "Kind of work: compaction and finalization of runs, the sweep, which ends idle runs, explanations of failed runs, or "
        "bundling of the event data of ended runs.",
        "schema": {"enum": list(SOURCES)},
        "example": "compaction",
    },
    "partitionStatus": query_parameter(
        "status",
        {"enum": SCHEMAS["Partition"]["properties"]["status"]["enum"]},
        "Only partitions with this status, case-insensitive: COMPLETED is no longer worked on, CLOSED failed and waits for its next "
        "attempt, ASSIGNED is leased by a worker, UNASSIGNED waits for one. Default: all, in this order.",
    ),
    "partitionLimit": query_parameter(
        "limit", {"type": "integer", "minimum": 1, "maximum": MAX_LIMIT, "default": DEFAULT_LIMIT}, "Maximum number of partitions."
    ),
    "partitionCursor": query_parameter("cursor", {"type": "string"}, "`cursor` of the previous response, for the same `status`."),
}

OPERATIONS: dict[str, dict[str, Any]] = {
    "listPartitions": {
        "summary": "List partitions of background work",
        "description": "Within a status, the oldest come first; CLOSED ones by their next attempts. Read from an index that may lag "
        "slightly: a partition that changes its status between pages may be missing or appear twice. A partition is deleted when its work "
        "is done.",
        "parameters": ["source", "partitionStatus", "partitionLimit", "partitionCursor"],
        "responses": {200: "PartitionList"},
    },
    "retryPartition": {
        "summary": "Retry a failed or quarantined partition now",
        "description": "A CLOSED or COMPLETED partition becomes UNASSIGNED, and its failures are counted from 0. Idempotent: other "
        "partitions do not change, and a 404 means that the work is done. A body is ignored.",
        "parameters": ["source", "fqn", "runId"],
        "responses": {200: "Partition"},
    },
    "releasePartition": {
        "summary": "Release a partition from its owner",
        "description": "An ASSIGNED partition becomes UNASSIGNED; others do not change. The owner stops at its next request to the store. "
        "Seldom needed: the lease of a dead worker expires. A repeat may take the partition from its next owner. A body is ignored.",
        "parameters": ["source", "fqn", "runId"],
        "responses": {200: "Partition"},
    },
}
