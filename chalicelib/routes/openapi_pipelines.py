"""Processing pipelines in the OpenAPI document: texts and examples; schemas are generated from the models. ``openapi`` documents the
format."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from chalicelib.routes.openapi_logs import query_parameter
from chalicelib.routes.pipelines_models import (
    DEFAULT_LIMIT,
    MAX_LIMIT,
    HandlerBody,
    PipelineHandler,
    ProcessingPipeline,
    ProcessingPipelinePage,
    ReplayBody,
)
from chalicelib.routes.schemas import RequestModel, component_schemas, request_schema

_HANDLER = {
    "name": "files",
    "state": "disabled",
    "reason": "OSError: no space left on device",
    "since": "2026-09-21T14:13:20.000Z",
    "at": {"run": "mysql.ingest/run-1", "line": 4711},
    "errors": 101,
}
_PIPELINE = {
    "name": "audit",
    "state": "running",
    "told_at": "2026-09-21T14:13:30.000Z",
    "lag_events": 12,
    "lag_s": 2.4,
    "runs": 3,
    "events": 81234,
    "late": 0,
    "dropped": 0,
    "dead_letters": 1,
    "errors": 101,
    "last_error": "OSError: no space left on device",
    "replay_from": None,
    "handlers": [_HANDLER],
}

SCHEMAS = component_schemas(
    {
        "ProcessingPipeline": ProcessingPipeline,
        "PipelineHandler": PipelineHandler,
        "ProcessingPipelineList": ProcessingPipelinePage,
    },
    {
        "ProcessingPipeline": [_PIPELINE],
        "PipelineHandler": [_HANDLER],
        "ProcessingPipelineList": [{"pipelines": [_PIPELINE], "cursor": None, "problems": [], "more_problems": 0}],
    },
)

ERRORS: dict[int, tuple[int, str, str]] = {
    400: (400, "The request is invalid.", "the pipeline has no such handler: it has files handler='mail'"),
    404: (404, "There is no such pipeline.", "there is no such pipeline name='nonsense'"),
    503: (
        503,
        "Temporarily unavailable: repeat the request.",
        "query failed code=ThrottlingException what=runlake-PipelinesTable-1A2B3C4D5E6F",
    ),
}

PARAMETERS: dict[str, dict[str, Any]] = {
    "pipelineName": {
        "name": "name",
        "in": "path",
        "required": True,
        "description": "Name of the processing pipeline.",
        "schema": {"type": "string"},
        "example": "runlake",
    },
    "pipelinesLimit": query_parameter(
        "limit",
        {"type": "integer", "minimum": 1, "maximum": MAX_LIMIT, "default": DEFAULT_LIMIT},
        "Maximum number of pipelines.",
    ),
    "pipelinesCursor": query_parameter("cursor", {"type": "string"}, "`cursor` of the previous response."),
}


def _body(model: type[RequestModel], example: Mapping[str, Any]) -> dict[str, Any]:
    schema = request_schema(model)
    return {"required": "required" in schema, "content": {"application/json": {"schema": schema, "example": example}}}


_HANDLER_BODY = _body(HandlerBody, {"handler": "files"})

OPERATIONS: dict[str, dict[str, Any]] = {
    "listProcessingPipelines": {
        "summary": "List the status of processing pipelines",
        "description": "Those of which the principal has the scope; `problems` only for `admin` of all names.",
        "parameters": ["pipelinesLimit", "pipelinesCursor"],
        "responses": {200: "ProcessingPipelineList"},
    },
    "enablePipeline": {
        "summary": "Enable a pipeline, or a handler, which then also receives the events it missed",
        "description": "Idempotent. Takes effect at the next checkpoint or start.",
        "parameters": ["pipelineName"],
        "body": _HANDLER_BODY,
        "responses": {200: "ProcessingPipeline"},
    },
    "disablePipeline": {
        "summary": "Disable a pipeline or a handler",
        "description": "Missed events are delivered after it is enabled again.",
        "parameters": ["pipelineName"],
        "body": _HANDLER_BODY,
        "responses": {200: "ProcessingPipeline"},
    },
    "replayPipeline": {
        "summary": "Replay the events from a time on",
        "description": "All handlers receive these events again, from runs whose checkpoints still exist. Before it begins, the "
        "earliest requested time counts.",
        "parameters": ["pipelineName"],
        "body": _body(ReplayBody, {"from": "2026-09-21T14:00:00Z"}),
        "responses": {200: "ProcessingPipeline"},
    },
}
