"""Processing pipelines in the OpenAPI document: texts and examples; schemas are generated from the models. ``openapi`` documents the
format."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from chalicelib.pipelines.files.key_layout import LAST_MS
from chalicelib.routes import dead_letters_models
from chalicelib.routes.dead_letters_models import (
    DeadLetterDetails,
    DeadLetterEvent,
    DeadLetterItem,
    DeadLetterItemPage,
    ResendState,
)
from chalicelib.routes.openapi_logs import moment, query_parameter
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
_LETTER = {
    "pipeline": "audit",
    "handler": "files",
    "fqn": "mysql.ingest",
    "runId": "run-1",
    "line": 4711,
    "storedAt": "2026-09-21T14:13:20.000Z",
    "bytes": 1234,
}
_LETTER_EVENT = {
    "fqn": "mysql.ingest",
    "runId": "run-1",
    "line": 4711,
    "time": 1790000000000,
    "level": "INFO",
    "logger": "ingestion.source",
    "message": "42 tables found",
    "step": "",
    "data": {},
}
_LETTER_DETAILS = {
    "pipeline": "audit",
    "handler": "files",
    "reason": "OSError: no space left on device",
    "trace": None,
    "attempts": 4,
    "failedAt": "2026-09-21T14:13:20.000Z",
    "resendRequestedAt": None,
    "event": _LETTER_EVENT,
    "truncated": False,
}

SCHEMAS = component_schemas(
    {
        "ProcessingPipeline": ProcessingPipeline,
        "PipelineHandler": PipelineHandler,
        "ProcessingPipelineList": ProcessingPipelinePage,
        "DeadLetter": DeadLetterItem,
        "DeadLetterList": DeadLetterItemPage,
        "DeadLetterEvent": DeadLetterEvent,
        "DeadLetterDetails": DeadLetterDetails,
        "DeadLetterResend": ResendState,
    },
    {
        "ProcessingPipeline": [_PIPELINE],
        "PipelineHandler": [_HANDLER],
        "ProcessingPipelineList": [{"pipelines": [_PIPELINE], "cursor": None, "problems": [], "more_problems": 0}],
        "DeadLetter": [_LETTER],
        "DeadLetterList": [{"letters": [_LETTER], "cursor": None}],
        "DeadLetterEvent": [_LETTER_EVENT],
        "DeadLetterDetails": [_LETTER_DETAILS],
        "DeadLetterResend": [{"requestedAt": "2026-09-21T15:00:00.000Z"}],
    },
)

ERRORS: dict[int, tuple[int, str, str]] = {
    400: (400, "The request is invalid.", "the pipeline has no such handler: it has files handler='mail'"),
    404: (404, "There is no such pipeline or dead letter.", "there is no such pipeline name='nonsense'"),
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
    "deadFqn": query_parameter(
        "fqn",
        {"type": "string", "minLength": 1},
        "The pipeline of the run that logged the event.",
        required=True,
        example="mysql.ingest",
    ),
    "deadRunId": query_parameter(
        "runId", {"type": "string", "minLength": 1}, "The run that logged the event.", required=True, example="run-1"
    ),
    "deadHandler": query_parameter(
        "handler",
        {"type": "string", "minLength": 1, "maxLength": dead_letters_models.MAX_HANDLER_CHARS},
        "The handler that failed.",
        required=True,
        example="files",
    ),
    "deadLine": query_parameter(
        "line",
        {"type": "integer", "minimum": 0, "maximum": dead_letters_models.MAX_LINE},
        "The first line of the event in the run's log, from 0.",
        required=True,
        example=4711,
    ),
    "deadOfFqn": query_parameter(
        "fqn", {"type": "string"}, "Only of runs of this pipeline of the catalog.", example="mysql.ingest"
    ),
    "deadOfRun": query_parameter("runId", {"type": "string"}, "Only of this run; requires `fqn`."),
    "deadOfPipeline": query_parameter("pipeline", {"type": "string"}, "Only of this processing pipeline."),
    "deadOfHandler": query_parameter("handler", {"type": "string"}, "Only of this handler."),
    "deadFrom": query_parameter(
        "from",
        moment(LAST_MS) | {"default": 0},
        "Only with `storedAt` from this time on: ISO 8601, or milliseconds since the epoch.",
    ),
    "deadTo": query_parameter(
        "to", moment(LAST_MS + 1), "Only with `storedAt` before this time: ISO 8601, or milliseconds since the epoch."
    ),
    "deadLimit": query_parameter(
        "limit",
        {
            "type": "integer",
            "minimum": 1,
            "maximum": dead_letters_models.MAX_LIMIT,
            "default": dead_letters_models.DEFAULT_LIMIT,
        },
        "Maximum number of dead letters.",
    ),
    "deadCursor": query_parameter("cursor", {"type": "string"}, "`cursor` of the previous response, for the same list."),
}


def _body(model: type[RequestModel], example: Mapping[str, Any]) -> dict[str, Any]:
    schema = request_schema(model)
    return {"required": "required" in schema, "content": {"application/json": {"schema": schema, "example": example}}}


_ONE_LETTER = ["pipelineName", "deadFqn", "deadRunId", "deadHandler", "deadLine"]
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
    "listDeadLetters": {
        "summary": "List the events that handlers failed to process",
        "description": "Of the pipelines that the principal may read, by FQN, run, processing pipeline, handler and line. A page may have fewer "
        "items, or none, although more follow.",
        "parameters": [
            "deadOfFqn",
            "deadOfRun",
            "deadOfPipeline",
            "deadOfHandler",
            "deadFrom",
            "deadTo",
            "deadLimit",
            "deadCursor",
        ],
        "responses": {200: "DeadLetterList"},
    },
    "getDeadLetter": {
        "summary": "Get a dead letter: its event, and the reason",
        "description": "The scope is required for `fqn`.",
        "parameters": _ONE_LETTER,
        "responses": {200: "DeadLetterDetails"},
    },
    "dropDeadLetter": {
        "summary": "Drop a dead letter",
        "description": "The handler does not receive its event again, unless a worker is sending it just now. The scope is required for "
        "`pipelines/{name}`.",
        "parameters": _ONE_LETTER,
        "responses": {204: {"description": "The dead letter is deleted."}},
    },
    "resendDeadLetter": {
        "summary": "Send a dead letter again to the handler that failed",
        "description": "The pipeline's worker does so at one of its next checkpoints, at least once, and deletes the letter once the handler "
        "has accepted it. If the handler fails, the letter has one more attempt and the new reason. While pipeline or handler are disabled, "
        "the request waits, until it expires with the letter. Idempotent. The scope is required for `pipelines/{name}`.",
        "parameters": _ONE_LETTER,
        "responses": {202: "DeadLetterResend"},
    },
}
