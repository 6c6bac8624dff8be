"""Background work in the OpenAPI document: tables only; ``openapi`` documents their format."""

from __future__ import annotations

from typing import Any

_BASE = "/v1/coordination/{source}"
_RUN = f"{_BASE}/{{fqn}}/{{runId}}"
_STATUSES = ["COMPLETED", "CLOSED", "ASSIGNED", "UNASSIGNED"]
_MOMENT = {"type": ["string", "null"], "format": "date-time"}
_PARTITION = {
    "key": "mysql.ingest/run-1",
    "fqn": "mysql.ingest",
    "run_id": "run-1",
    "status": "COMPLETED",
    "set_aside": True,
    "failures": 20,
    "error": "StoreUnavailableError: get_object failed code=AccessDenied what=pipeline-logs/mysql.ingest/run-1/segments/0000000004",
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

SCHEMAS: dict[str, dict[str, Any]] = {
    "Partition": {
        "description": "The work on a run, as it is now.",
        "type": "object",
        "required": list(_PARTITION),
        "properties": {
            "key": {"type": "string", "description": "`fqn/run_id`."},
            "fqn": {"type": "string"},
            "run_id": {"type": "string"},
            "status": {"enum": _STATUSES},
            "set_aside": {
                "type": "boolean",
                "description": "It failed so often in a row that nobody works it until it is retried.",
            },
            "failures": {"type": "integer", "minimum": 0, "description": "How often it has failed in a row."},
            "error": {"type": ["string", "null"], "description": "What its last failure said; null: none is known."},
            "failed_at": {**_MOMENT, "description": "When that was."},
            "reopen_at": {**_MOMENT, "description": "Of a CLOSED one: when it is tried again."},
            "owner": {
                "type": ["string", "null"],
                "description": "Of an ASSIGNED one: who works it, as `host:process:acquisition`.",
            },
            "owned_until": {
                **_MOMENT,
                "description": "Until when, unless its owner renews; when that is past, others may take it.",
            },
            "since": {
                **_MOMENT,
                "description": "When it came to wait (UNASSIGNED), was put off (CLOSED) or set aside (COMPLETED); null where that is "
                "not known, as of an ASSIGNED one.",
            },
            "age_s": {"type": ["integer", "null"], "minimum": 0, "description": "Whole seconds since then."},
            "version": {"type": "integer", "minimum": 0, "description": "Grows with each write of the item."},
        },
        "examples": [_WAITING, _PARTITION],
    },
    "PartitionList": {
        "description": "A page of partitions, oldest first within a status. The last page may be empty.",
        "type": "object",
        "required": ["partitions", "cursor"],
        "properties": {
            "partitions": {"type": "array", "maxItems": 100, "items": {"$ref": "#/components/schemas/Partition"}},
            "cursor": {"type": ["string", "null"], "description": "Where the next page begins; null at the end."},
        },
        "examples": [{"partitions": [_PARTITION], "cursor": None}],
    },
}

ERRORS: dict[int, tuple[int, str, str]] = {
    400: (
        400,
        "The request can never work: fix it.",
        "status is one of COMPLETED, CLOSED, ASSIGNED, UNASSIGNED status='done'",
    ),
    404: (
        404,
        "There is no such source, or no such partition: it was worked, and is gone.",
        "no such partition key=mysql.ingest/run-9",
    ),
    503: (503, "Trouble of ours: repeat it.", "the store is away"),
}


def _query(name: str, schema: dict[str, Any], description: str) -> dict[str, Any]:
    return {"name": name, "in": "query", "description": description, "schema": schema}


PARAMETERS: dict[str, dict[str, Any]] = {
    "source": {
        "name": "source",
        "in": "path",
        "required": True,
        "description": "Which work: compacting and finishing runs, or ending abandoned ones.",
        "schema": {"enum": ["compaction", "sweep"]},
        "example": "compaction",
    },
    "partitionStatus": _query(
        "status", {"enum": _STATUSES}, "Only these, in small letters too. Without it all, one status after the other."
    ),
    "partitionLimit": _query("limit", {"type": "integer", "minimum": 1, "maximum": 100, "default": 25}, "Partitions at most."),
    "partitionCursor": _query("cursor", {"type": "string"}, "`cursor` of the answer before, for the same `status`."),
}

OPERATIONS: dict[str, dict[str, Any]] = {
    f"GET {_BASE}": {
        "id": "listPartitions",
        "summary": "What waits, is worked, failed or was set aside",
        "description": "For operators. Read from an index that lags a moment; work that was done is not listed.",
        "parameters": ["source", "partitionStatus", "partitionLimit", "partitionCursor"],
        "answers": {200: "PartitionList"},
        "errors": [400, 404, 503],
    },
    f"POST {_RUN}/retry": {
        "id": "retryPartition",
        "summary": "Have a partition that failed or was set aside worked again at once",
        "description": "For operators. One that waits or is worked stays as it is, so twice is harmless. A body is ignored.",
        "parameters": ["source", "fqn", "runId"],
        "answers": {200: "Partition"},
        "errors": [400, 404, 503],
    },
    f"POST {_RUN}/release": {
        "id": "releasePartition",
        "summary": "Take a partition from its owner, for others to work",
        "description": "For operators. The owner stops at its next call of the store. One without an owner stays as it is. A body is ignored.",
        "parameters": ["source", "fqn", "runId"],
        "answers": {200: "Partition"},
        "errors": [400, 404, 503],
    },
}
