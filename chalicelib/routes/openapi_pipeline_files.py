"""Files of processing pipelines in the OpenAPI document: texts and examples; schemas are generated from the models. ``openapi`` documents
the format."""

from __future__ import annotations

from typing import Any

from chalicelib.pipelines.files.key_layout import LAST_MS
from chalicelib.routes.openapi_logs import moment, query_parameter
from chalicelib.routes.pipeline_files_models import (
    DEFAULT_FILES,
    DEFAULT_LIMIT,
    MAX_FILES,
    MAX_LIMIT,
    DeletionState,
    FileBasePage,
    FileEventItem,
    FileEventItemPage,
    FileFindingItem,
    FileFindingItems,
    PipelineFileItem,
    PipelineFileItemPage,
    RepairedFileItems,
)
from chalicelib.routes.schemas import component_schemas

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
_FILE = {
    "key": "pipeline-files/mysql/2026-09-21/ingest/run/00000004.jsonl",
    "fqn": "mysql.ingest",
    "program": "run",
    "format": "jsonl",
    "bytes": 4096,
    "events": 32,
    "firstTime": 1790000000000,
    "lastTime": 1790000060000,
    "complete": False,
    "url": "https://runlake-logs.s3.amazonaws.com/pipeline-files/mysql/2026-09-21/ingest/run/00000004.jsonl?X-Amz-Signature=1",
}

SCHEMAS = component_schemas(
    {
        "FileEvent": FileEventItem,
        "FileEvents": FileEventItemPage,
        "PipelineFile": PipelineFileItem,
        "PipelineFileList": PipelineFileItemPage,
        "PipelineFileBases": FileBasePage,
        "Deletion": DeletionState,
        "FileFinding": FileFindingItem,
        "FileFindings": FileFindingItems,
        "FilesMended": RepairedFileItems,
    },
    {
        "FileEvent": [_EVENT],
        "FileEvents": [{"events": [_EVENT], "cursor": None, "leftOut": 0, "unsupported": 0}],
        "PipelineFile": [_FILE],
        "PipelineFileBases": [{"bases": ["pipeline-files", "pipeline-files/audit"], "cursor": None}],
        "PipelineFileList": [{"files": [_FILE], "cursor": None, "leftOut": 0}],
        "Deletion": [{"state": "deleted", "files": 3, "bytes": 4096, "runs": 2, "waiting": 0, "shared": 0}],
        "FileFinding": [_FINDING],
        "FileFindings": [{"findings": [_FINDING], "complete": True}],
        "FilesMended": [{"mended": [_FINDING], "complete": True}],
    },
)

ERRORS: dict[int, tuple[int, str, str]] = {
    400: (400, "The request is invalid.", "no handler has this base, GET /v1/pipeline-files/bases lists them base='audit-files'"),
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
        "from", moment(LAST_MS) | {"default": 0}, "Only events from this time on: ISO 8601, or milliseconds since the epoch."
    ),
    "filedTo": query_parameter(
        "to", moment(LAST_MS + 1), "Only events before this time: ISO 8601, or milliseconds since the epoch."
    ),
    "filedKey": query_parameter("key", {"type": "string"}, "Only of the file with this `key`."),
    "filedLevel": query_parameter(
        "level", {"type": "string"}, "Only events of this level, in any spelling: `warn` is `WARNING`. 400 for an unknown level."
    ),
    "filedLimit": query_parameter(
        "limit",
        {"type": "integer", "minimum": 1, "maximum": MAX_LIMIT, "default": DEFAULT_LIMIT},
        "Maximum number of events.",
    ),
    "filedCursor": query_parameter(
        "cursor", {"type": "string"}, "`cursor` of the previous response, for the same files and times."
    ),
    "filesLimit": query_parameter(
        "limit",
        {"type": "integer", "minimum": 1, "maximum": MAX_FILES, "default": DEFAULT_FILES},
        "Maximum number of files.",
    ),
    "basesLimit": query_parameter(
        "limit",
        {"type": "integer", "minimum": 1, "maximum": MAX_FILES, "default": DEFAULT_FILES},
        "Maximum number of bases.",
    ),
    "basesCursor": query_parameter("cursor", {"type": "string"}, "`cursor` of the previous response."),
    "deletedFqn": query_parameter(
        "fqn", {"type": "string"}, "The pipeline whose logs are deleted. Either `fqn` or `namespace` is required."
    ),
    "deletedNamespace": query_parameter(
        "namespace",
        {"type": "string"},
        "The namespace whose pipelines' logs are deleted. Requires the scope `logs:delete` of `{namespace}.*`; pipelines that it does not "
        "cover remain. With the scope of all names, the namespace is deleted too.",
    ),
}

_FILED = ["filedBase", "filedNamespace", "filedApp", "filedProgram", "filedFrom", "filedTo", "filedKey"]

OPERATIONS: dict[str, dict[str, Any]] = {
    "readPipelineFiles": {
        "summary": "Read an application's files as one list of events",
        "description": "Contains only events of pipelines that the principal may read. A page ends early after a limited time.",
        "parameters": [*_FILED, "filedLevel", "filedLimit", "filedCursor"],
        "responses": {200: "FileEvents"},
    },
    "listPipelineFiles": {
        "summary": "List an application's files with links to download them",
        "description": "Contains only files of pipelines that the principal may read.",
        "parameters": [*_FILED, "filesLimit", "filedCursor"],
        "responses": {200: "PipelineFileList"},
    },
    "listPipelineFileBases": {
        "summary": "List the bases of files",
        "description": "Each is the `base` of a handler that writes, or wrote, files.",
        "parameters": ["basesLimit", "basesCursor"],
        "responses": {200: "PipelineFileBases"},
    },
    "deletePipelineLogs": {
        "summary": "Delete the logs of a pipeline or a namespace",
        "description": "Deletes the logs of its runs and the files that handlers wrote from them. Late events of these runs are dropped; later "
        "runs of a pipeline with the same name are not affected. Repeat the request until `state` is `deleted`; it can be interrupted at "
        "any time.",
        "parameters": ["deletedFqn", "deletedNamespace"],
        "responses": {200: "Deletion", 202: "Deletion"},
    },
    "listFileFindings": {
        "summary": "List inconsistencies between files and their rows",
        "description": "Requires the scope `admin` of all names. Kinds and repairs: `row-unreadable`, an invalid row, `row-only`, a row "
        "without its object, and `object-only`, an object that was never committed: removed. `longer` than its row: truncated. `changed`, "
        "with another ETag: the ETag is stored if the object is readable, else both are removed. `shorter` than its row: the row is reduced "
        "to the readable part. `unfinished`: the deletion is finished.",
        "parameters": ["filedBase"],
        "responses": {200: "FileFindings"},
    },
    "mendFiles": {
        "summary": "Repair inconsistencies between files and their rows",
        "description": "Requires the scope `admin` of all names. Idempotent. A body is ignored.",
        "parameters": ["filedBase"],
        "responses": {200: "FilesMended"},
    },
}
