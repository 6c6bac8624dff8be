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
            "fqn": {"type": "string", "description": "The pipeline whose run logged it; empty in files of text."},
            "runId": {"type": "string"},
            "line": {
                "type": "integer",
                "minimum": -1,
                "description": "Where it stands in the run's log; -1 where that is not kept.",
            },
            "truncated": {
                "type": "boolean",
                "description": "True where the event is too large for a response and its texts are cut; else absent.",
            },
        },
        "examples": [_EVENT],
    },
    "FileEvents": {
        "description": "Events in order of time.",
        "type": "object",
        "required": ["events", "cursor", "leftOut", "unsupported"],
        "properties": {
            "events": {"type": "array", "maxItems": 10_000, "items": {"$ref": "#/components/schemas/FileEvent"}},
            "cursor": {
                "type": ["string", "null"],
                "description": "Where the next page begins; null: no more now.",
            },
            "leftOut": {**_COUNT, "description": "Files and rows that were missing or damaged, and are left out."},
            "unsupported": {
                **_COUNT,
                "description": "Files in a format that this server cannot read (Parquet), left out: read them from the bucket.",
            },
        },
        "examples": [{"events": [_EVENT], "cursor": None, "leftOut": 0, "unsupported": 0}],
    },
    "Deletion": {
        "description": "What this request deleted. From the first one on nothing of it is read any more.",
        "type": "object",
        "required": ["state", "files", "bytes", "runs", "waiting", "shared"],
        "properties": {
            "state": {
                "enum": ["deleted", "deleting"],
                "description": "deleting: ask again, or wait for the schedule.",
            },
            "files": {**_COUNT, "description": "Files of processors."},
            "bytes": {**_COUNT, "description": "Of these."},
            "runs": {**_COUNT, "description": "Logs of runs."},
            "waiting": {**_COUNT, "description": "Runs whose last object goes 20 minutes after they were closed."},
            "shared": {
                **_COUNT,
                "description": "Runs that stay: OpenMetadata stored them under a name that several pipelines share.",
            },
        },
        "examples": [{"state": "deleted", "files": 3, "bytes": 4096, "runs": 2, "waiting": 0, "shared": 0}],
    },
    "FileFinding": {
        "description": "Something that does not fit.",
        "type": "object",
        "required": ["kind", "path", "detail"],
        "properties": {"kind": {"enum": _KINDS}, "path": {"type": "string"}, "detail": {"type": "string"}},
        "examples": [_FINDING],
    },
    "FileFindings": {
        "description": "What does not fit, an hour after it was written or later.",
        "type": "object",
        "required": ["findings", "complete"],
        "properties": {
            "findings": {"type": "array", "maxItems": 1000, "items": {"$ref": "#/components/schemas/FileFinding"}},
            "complete": {"type": "boolean", "description": "Whether this is all."},
        },
        "examples": [{"findings": [_FINDING], "complete": True}],
    },
    "FilesMended": {
        "description": "What was put right.",
        "type": "object",
        "required": ["mended", "complete"],
        "properties": {
            "mended": {"type": "array", "maxItems": 1000, "items": {"$ref": "#/components/schemas/FileFinding"}},
            "complete": {"type": "boolean", "description": "Whether nothing is left; else ask again."},
        },
        "examples": [{"mended": [_FINDING], "complete": True}],
    },
}

ERRORS: dict[int, tuple[int, str, str]] = {
    400: (400, "The request can never work: fix it.", "no handler writes files with this base base='nobody'"),
    503: (503, "Trouble of ours: repeat it.", "the store is away"),
}

PARAMETERS: dict[str, dict[str, Any]] = {
    "filedBase": query_parameter(
        "base", {"type": "string", "default": "pipeline-files"}, "Whose files: `base` of the handler that writes them."
    ),
    "filedNamespace": {
        **query_parameter("namespace", {"type": "string", "minLength": 1}, "The service: the first part of the FQN."),
        "required": True,
        "example": "mysql",
    },
    "filedApp": {
        **query_parameter("app", {"type": "string", "minLength": 1}, "The application: the second part."),
        "required": True,
        "example": "ingest",
    },
    "filedProgram": query_parameter(
        "program", {"type": "string"}, "The rest of the FQN, `run` where there is none. Without it all."
    ),
    "filedFrom": query_parameter(
        "from", _moment(_LAST_MS) | {"default": 0}, "From this time on: ISO 8601, or milliseconds since the epoch."
    ),
    "filedTo": query_parameter("to", _moment(_LAST_MS + 1), "Before this time: ISO 8601, or milliseconds since the epoch."),
    "filedLimit": query_parameter(
        "limit",
        {"type": "integer", "minimum": 1, "maximum": 10_000, "default": 1000},
        "Events at most. A page has at most 4 MiB.",
    ),
    "filedCursor": query_parameter("cursor", {"type": "string"}, "`cursor` of the answer before, for the same files and times."),
    "deletedFqn": query_parameter("fqn", {"type": "string"}, "The pipeline whose logs are deleted. This, or `namespace`."),
    "deletedNamespace": query_parameter(
        "namespace", {"type": "string"}, "The namespace whose pipelines' logs are deleted: `admin` of all its names is asked for."
    ),
}

OPERATIONS: dict[str, dict[str, Any]] = {
    f"GET {_BASE}": {
        "id": "readPipelineFiles",
        "summary": "Read an application's files together",
        "description": "Of pipelines that may be read; all files that have events of the range, whatever their format, as one.",
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
        "errors": [400, 503],
    },
    f"DELETE {_BASE}": {
        "id": "deletePipelineLogs",
        "summary": "Delete the logs of a pipeline or a namespace",
        "description": "Its runs' logs, and the files that processors wrote of them. What comes late of them is dropped; a pipeline of the "
        "same name whose runs begin later is another one. Repeat it until it says deleted; it can be broken off anywhere.",
        "parameters": ["deletedFqn", "deletedNamespace"],
        "answers": {200: "Deletion", 202: "Deletion"},
        "errors": [400, 503],
    },
    f"GET {_BASE}/repair": {
        "id": "listFileFindings",
        "summary": "List where files and their rows do not fit each other",
        "description": "For operators.",
        "parameters": ["filedBase"],
        "answers": {200: "FileFindings"},
        "errors": [400, 503],
    },
    f"POST {_BASE}/repair": {
        "id": "mendFiles",
        "summary": "Make files and their rows fit each other",
        "description": "For operators. What is younger than an hour is spared. The second time there is nothing left to do. A body is ignored.",
        "parameters": ["filedBase"],
        "answers": {200: "FilesMended"},
        "errors": [400, 503],
    },
}
