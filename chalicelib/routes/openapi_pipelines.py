"""Processing pipelines in the OpenAPI document: tables only; ``openapi`` documents their format."""

from __future__ import annotations

from typing import Any

from chalicelib.routes.openapi_logs import query_parameter

_BASE = "/v1/pipelines"
_MOMENT = {"type": ["string", "null"], "format": "date-time"}
_COUNT = {"type": "integer", "minimum": 0}
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

SCHEMAS: dict[str, dict[str, Any]] = {
    "ProcessingPipeline": {
        "description": "The last reported status of a processing pipeline.",
        "type": "object",
        "required": list(_PIPELINE),
        "properties": {
            "name": {"type": "string"},
            "state": {
                "enum": ["new", "running", "silent", "disabled"],
                "description": "new: has never run. silent: its worker has reported no status for ten minutes.",
            },
            "told_at": {**_MOMENT, "description": "Time of the last status report."},
            "lag_events": {**_COUNT, "description": "Lines of known runs that are not processed yet."},
            "lag_s": {"type": "number", "minimum": 0, "description": "Age of the oldest of these lines in seconds."},
            "runs": {**_COUNT, "description": "Active runs."},
            "events": {
                **_COUNT,
                "description": "Events processed since the worker started. All counters below also start with the worker.",
            },
            "late": {**_COUNT, "description": "Events that arrived after later events were delivered."},
            "dropped": {**_COUNT, "description": "Events dropped because their run, pipeline or namespace was deleted."},
            "dead_letters": {**_COUNT, "description": "Events that a handler failed to process; they are stored below `_dead/`."},
            "errors": _COUNT,
            "last_error": {"type": ["string", "null"]},
            "replay_from": {**_MOMENT, "description": "Start time of a requested replay that has not begun."},
            "handlers": {"type": "array", "items": {"$ref": "#/components/schemas/PipelineHandler"}},
        },
        "examples": [_PIPELINE],
    },
    "PipelineHandler": {
        "description": "A handler of a pipeline.",
        "type": "object",
        "required": list(_HANDLER),
        "properties": {
            "name": {"type": "string"},
            "state": {
                "enum": ["enabled", "disabled", "failed", "replaying"],
                "description": "disabled: it failed too often, blocked, or an operator disabled it. failed: it could not be started; each "
                "start of the pipeline retries. replaying: it receives the events that it missed.",
            },
            "reason": {"type": ["string", "null"]},
            "since": _MOMENT,
            "at": {
                "description": "The event at which it was disabled.",
                "anyOf": [
                    {
                        "type": "object",
                        "required": ["run", "line"],
                        "properties": {"run": {"type": "string"}, "line": _COUNT},
                    },
                    {"type": "null"},
                ],
            },
            "errors": _COUNT,
        },
        "examples": [_HANDLER],
    },
    "ProcessingPipelineList": {
        "description": "A page of processing pipelines. The first page also lists invalid pipeline files.",
        "type": "object",
        "required": ["pipelines", "cursor", "problems", "more_problems"],
        "properties": {
            "pipelines": {"type": "array", "maxItems": 200, "items": {"$ref": "#/components/schemas/ProcessingPipeline"}},
            "cursor": {"type": ["string", "null"], "description": "Beginning of the next page; null on the last page."},
            "more_problems": {**_COUNT, "description": "Number of problems that are not listed."},
            "problems": {
                "type": "array",
                "maxItems": 100,
                "items": {
                    "type": "object",
                    "required": ["file", "reason"],
                    "properties": {"file": {"type": "string"}, "reason": {"type": "string"}},
                },
            },
        },
        "examples": [{"pipelines": [_PIPELINE], "cursor": None, "problems": [], "more_problems": 0}],
    },
}

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
        {"type": "integer", "minimum": 1, "maximum": 200, "default": 100},
        "Maximum number of pipelines. A page has at most 4 MiB.",
    ),
    "pipelinesCursor": query_parameter("cursor", {"type": "string"}, "`cursor` of the previous response."),
}


def _body(name: str, schema: dict[str, Any], example: Any, *, required: bool) -> dict[str, Any]:
    body = {"type": "object", "properties": {name: schema}, "additionalProperties": False}
    return {
        "required": required,
        "content": {"application/json": {"schema": body | ({"required": [name]} if required else {}), "example": {name: example}}},
    }


_HANDLER_BODY = _body(
    "handler", {"type": "string", "description": "Name of a handler. Default: the whole pipeline."}, "files", required=False
)

OPERATIONS: dict[str, dict[str, Any]] = {
    "listProcessingPipelines": {
        "summary": "List the status of processing pipelines",
        "description": "For operators: state, lag, errors, handlers that receive no events.",
        "parameters": ["pipelinesLimit", "pipelinesCursor"],
        "answers": {200: "ProcessingPipelineList"},
    },
    "enablePipeline": {
        "summary": "Enable a pipeline, or a handler, which then also receives the events it missed",
        "description": "For operators. Idempotent. Takes effect at the next checkpoint or start.",
        "parameters": ["pipelineName"],
        "body": _HANDLER_BODY,
        "answers": {200: "ProcessingPipeline"},
    },
    "disablePipeline": {
        "summary": "Disable a pipeline or a handler",
        "description": "For operators. Missed events are delivered after it is enabled again.",
        "parameters": ["pipelineName"],
        "body": _HANDLER_BODY,
        "answers": {200: "ProcessingPipeline"},
    },
    "replayPipeline": {
        "summary": "Replay the events from a time on",
        "description": "For operators. All handlers receive these events again, from runs whose checkpoints still exist.",
        "parameters": ["pipelineName"],
        "body": _body(
            "from",
            {"type": ["string", "integer"], "description": "ISO 8601, or ms since the epoch."},
            "2026-09-21T14:00:00Z",
            required=True,
        ),
        "answers": {200: "ProcessingPipeline"},
    },
}
