"""Files of processing pipelines in the OpenAPI document: tables only; ``openapi`` documents their format."""

from __future__ import annotations

from typing import Any

from chalicelib.routes.openapi_logs import query_parameter

_BASE = "/v1/pipeline-files"
_LAST_MS = 253_402_300_799_999


def _moment(most_ms: int) -> dict[str, Any]:
    return {"anyOf": [{"type": "integer", "minimum": 0, "maximum": most_ms}, {"type": "string", "format": "date-time"}]}


_COUNT = {"type": "integer", "minimum": 0}
_EVENT = {
    "time": 1790000000000,
    "level": "INFO",
    "logger": "ingestion.source",
    "message": "42 tables found",
    "fqn": "mysql.ingest",
    "runId": "run-1",
    "line": 4,
}
_FINDING = {"kind": "row-only", "path": "pipeline-files/mysql/2026-09-21/ingest/run/00000004.jsonl", "detail": "counted=512"}
_KINDS = ["row-unreadable", "row-only", "object-only", "longer", "changed", "shorter", "unfinished"]

SCHEMAS: dict[str, dict[str, Any]] = {
    "FileEvent": {
        "description": "An event of a file.",
        "type": "object",
        "required": list(_EVENT),
        "properties": {
            "time": {"type": "integer", "description": "Milliseconds since the epoch."},
            "level": {"type": "string"},
            "logger": {"type": "string"},
            "message": {"type": "string"},
            "fqn": {"type": "string", "description": "Pipeline of the run that logged it; empty in text files."},
            "runId": {"type": "string"},
            "line": {
                "type": "integer",
                "minimum": -1,
                "description": "Its line in the run's log; -1 in text files.",
            },
            "truncated": {
                "type": "boolean",
                "description": "True if the event is too large for a response and its texts are truncated; otherwise absent.",
            },
        },
        "examples": [_EVENT],
    },
    "FileEvents": {
        "description": "Events in the order of time.",
        "type": "object",
        "required": ["events", "cursor", "leftOut", "unsupported"],
        "properties": {
            "events": {"type": "array", "maxItems": 10_000, "items": {"$ref": "#/components/schemas/FileEvent"}},
            "cursor": {
                "type": ["string", "null"],
                "description": "Beginning of the next page; null: no more events at present.",
            },
            "leftOut": {**_COUNT, "description": "Number of missing or damaged files and rows, which are left out."},
            "unsupported": {
                **_COUNT,
                "description": "Number of files in a format that this server cannot read (Parquet); read them from the bucket.",
            },
        },
        "examples": [{"events": [_EVENT], "cursor": None, "leftOut": 0, "unsupported": 0}],
    },
    "Deletion": {
        "description": "The deletions of one request. Pipeline files are unreadable from the first request on.",
        "type": "object",
        "required": ["state", "files", "bytes", "runs", "waiting", "shared"],
        "properties": {
            "state": {
                "enum": ["deleted", "deleting"],
                "description": "deleting: repeat the request, or wait for the schedule.",
            },
            "files": {**_COUNT, "description": "Number of deleted pipeline files."},
            "bytes": {**_COUNT, "description": "Size of these files in bytes."},
            "runs": {**_COUNT, "description": "Number of runs whose logs were deleted."},
            "waiting": {**_COUNT, "description": "Number of runs whose last object is deleted 20 minutes after they were closed."},
            "shared": {
                **_COUNT,
                "description": "Number of runs that remain: OpenMetadata stored them under a name that several pipelines share.",
            },
        },
        "examples": [{"state": "deleted", "files": 3, "bytes": 4096, "runs": 2, "waiting": 0, "shared": 0}],
    },
    "FileFinding": {
        "description": "An inconsistency between a file and its row.",
        "type": "object",
        "required": ["kind", "path", "detail"],
        "properties": {"kind": {"enum": _KINDS}, "path": {"type": "string"}, "detail": {"type": "string"}},
        "examples": [_FINDING],
    },
    "FileFindings": {
        "description": "Inconsistencies between files and their rows that are older than an hour.",
        "type": "object",
        "required": ["findings", "complete"],
        "properties": {
            "findings": {"type": "array", "maxItems": 1000, "items": {"$ref": "#/components/schemas/FileFinding"}},
            "complete": {"type": "boolean", "description": "Whether all inconsistencies are listed."},
        },
        "examples": [{"findings": [_FINDING], "complete": True}],
    },
    "FilesMended": {
        "description": "The repaired inconsistencies.",
        "type": "object",
        "required": ["mended", "complete"],
        "properties": {
            "mended": {"type": "array", "maxItems": 1000, "items": {"$ref": "#/components/schemas/FileFinding"}},
            "complete": {"type": "boolean", "description": "Whether none is left; false: repeat the request."},
        },
        "examples": [{"mended": [_FINDING], "complete": True}],
    },
}

ERRORS: dict[int, tuple[int, str, str]] = {
    400: (400, "The request is invalid.", "no handler has this base base='audit-files'"),
    503: (
        503,
        "Temporarily unavailable: repeat the request.",
        "query failed code=ThrottlingException what=runlake-PipelineFilesTable-1A2B3C4D5E6F",
    ),
}

PARAMETERS: dict[str, dict[str, Any]] = {
    "filedBase": query_parameter(
        "base", {"type": "string", "default": "pipeline-files"}, "`base` of the handler that writes the files."
    ),
    "filedNamespace": {
        **query_parameter("namespace", {"type": "string", "minLength": 1}, "The service, which is the first part of the FQN."),
        "required": True,
        "example": "mysql",
    },
    "filedApp": {
        **query_parameter("app", {"type": "string", "minLength": 1}, "The application, which is the second part of the FQN."),
        "required": True,
        "example": "ingest",
    },
    "filedProgram": query_parameter(
        "program", {"type": "string"}, "The rest of the FQN, or `run` if there is none. Default: all programs."
    ),
    "filedFrom": query_parameter(
        "from", _moment(_LAST_MS) | {"default": 0}, "Only events from this time on: ISO 8601, or milliseconds since the epoch."
    ),
    "filedTo": query_parameter(
        "to", _moment(_LAST_MS + 1), "Only events before this time: ISO 8601, or milliseconds since the epoch."
    ),
    "filedLimit": query_parameter(
        "limit",
        {"type": "integer", "minimum": 1, "maximum": 10_000, "default": 1000},
        "Maximum number of events. A page has at most 4 MiB.",
    ),
    "filedCursor": query_parameter(
        "cursor", {"type": "string"}, "`cursor` of the previous response, for the same files and times."
    ),
    "deletedFqn": query_parameter(
        "fqn", {"type": "string"}, "The pipeline whose logs are deleted. Either `fqn` or `namespace` is required."
    ),
    "deletedNamespace": query_parameter(
        "namespace",
        {"type": "string"},
        "The namespace whose pipelines' logs are deleted. Requires the scope `admin` for all its names.",
    ),
}

OPERATIONS: dict[str, dict[str, Any]] = {
    "readPipelineFiles": {
        "summary": "Read an application's files as one list of events",
        "description": "Merges files of all formats with events in the time range. Contains only events of pipelines that the principal may read.",
        "parameters": [
            "filedBase",
            "filedNamespace",
            "filedApp",
            "filedProgram",
            "filedFrom",
            "filedTo",
            "filedLimit",
            "filedCursor",
        ],
        "answers": {200: "FileEvents"},
    },
    "deletePipelineLogs": {
        "summary": "Delete the logs of a pipeline or a namespace",
        "description": "Deletes the logs of its runs and the files that handlers wrote from them. Late events of these runs are dropped; later "
        "runs of a pipeline with the same name are not affected. Repeat the request until `state` is `deleted`; it can be interrupted at "
        "any time.",
        "parameters": ["deletedFqn", "deletedNamespace"],
        "answers": {200: "Deletion", 202: "Deletion"},
    },
    "listFileFindings": {
        "summary": "List inconsistencies between files and their rows",
        "description": "For operators.",
        "parameters": ["filedBase"],
        "answers": {200: "FileFindings"},
    },
    "mendFiles": {
        "summary": "Repair inconsistencies between files and their rows",
        "description": "For operators. Skips files and rows that were written within the last hour. Idempotent. A body is ignored.",
        "parameters": ["filedBase"],
        "answers": {200: "FilesMended"},
    },
}
