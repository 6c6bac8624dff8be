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
        "description": "A processing pipeline, as its worker told it last.",
        "type": "object",
        "required": list(_PIPELINE),
        "properties": {
            "name": {"type": "string"},
            "state": {
                "enum": ["new", "running", "silent", "disabled"],
                "description": "new: it never ran. silent: nothing was heard of its worker for ten minutes.",
            },
            "told_at": {**_MOMENT, "description": "When its worker told it."},
            "lag_events": {**_COUNT, "description": "Lines that are known of and not processed yet."},
            "lag_s": {"type": "number", "minimum": 0, "description": "Seconds since the time of the oldest of them."},
            "runs": {**_COUNT, "description": "Runs in hand."},
            "events": {**_COUNT, "description": "Processed since its worker started; so are all further numbers."},
            "late": {**_COUNT, "description": "Events that came after later ones had gone out."},
            "dropped": {**_COUNT, "description": "Events of what was deleted."},
            "dead_letters": {**_COUNT, "description": "Events that a handler would not take, below `_dead/`."},
            "errors": _COUNT,
            "last_error": {"type": ["string", "null"]},
            "replay_from": {**_MOMENT, "description": "A replay that was asked for and has not begun."},
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
                "description": "disabled: it failed too often, blocked, or an operator said so. failed: it could not be started, which is "
                "tried at each start. replaying: it gets what it missed.",
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
        "description": "A page of the processing pipelines, and with the first page files that are none.",
        "type": "object",
        "required": ["pipelines", "cursor", "problems", "more_problems"],
        "properties": {
            "pipelines": {"type": "array", "maxItems": 200, "items": {"$ref": "#/components/schemas/ProcessingPipeline"}},
            "cursor": {"type": ["string", "null"], "description": "Where the next page begins; null: this is the last one."},
            "more_problems": {**_COUNT, "description": "How many problems there are besides those listed."},
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
    400: (400, "The request can never work: fix it.", "the pipeline has no such handler: it has files handler='mail'"),
    404: (404, "There is no such pipeline.", "there is no such pipeline name='nonsense'"),
    503: (503, "Trouble of ours: repeat it.", "the store is away"),
}

PARAMETERS: dict[str, dict[str, Any]] = {
    "pipelineName": {
        "name": "name",
        "in": "path",
        "required": True,
        "description": "The processing pipeline.",
        "schema": {"type": "string"},
        "example": "runlake",
    },
    "pipelinesLimit": query_parameter(
        "limit",
        {"type": "integer", "minimum": 1, "maximum": 200, "default": 100},
        "Pipelines at most. A page has at most 4 MiB.",
    ),
    "pipelinesCursor": query_parameter("cursor", {"type": "string"}, "`cursor` of the answer before."),
}


def _body(name: str, schema: dict[str, Any], example: Any, *, required: bool) -> dict[str, Any]:
    given = {"type": "object", "properties": {name: schema}, "additionalProperties": False}
    return {
        "required": required,
        "content": {"application/json": {"schema": given | ({"required": [name]} if required else {}), "example": {name: example}}},
    }


_HANDLER_BODY = _body(
    "handler", {"type": "string", "description": "This handler alone. Default: the pipeline."}, "files", required=False
)

OPERATIONS: dict[str, dict[str, Any]] = {
    f"GET {_BASE}": {
        "id": "listProcessingPipelines",
        "summary": "How processing pipelines are",
        "description": "For operators: state, lag, errors, handlers that get nothing.",
        "parameters": ["pipelinesLimit", "pipelinesCursor"],
        "answers": {200: "ProcessingPipelineList"},
        "errors": [400, 503],
    },
    f"POST {_BASE}/{{name}}/enable": {
        "id": "enablePipeline",
        "summary": "Let a pipeline go on, or a handler get what it missed and all that comes",
        "description": "For operators. Twice is harmless. It takes effect at the next checkpoint or start.",
        "parameters": ["pipelineName"],
        "body": _HANDLER_BODY,
        "answers": {200: "ProcessingPipeline"},
        "errors": [400, 404, 503],
    },
    f"POST {_BASE}/{{name}}/disable": {
        "id": "disablePipeline",
        "summary": "Let a pipeline stand still, or a handler get nothing",
        "description": "For operators. What it misses it gets when it is enabled.",
        "parameters": ["pipelineName"],
        "body": _HANDLER_BODY,
        "answers": {200: "ProcessingPipeline"},
        "errors": [400, 404, 503],
    },
    f"POST {_BASE}/{{name}}/replay": {
        "id": "replayPipeline",
        "summary": "Process again what is not older than a time",
        "description": "For operators. All handlers get it again, of the runs whose places are still kept.",
        "parameters": ["pipelineName"],
        "body": _body(
            "from",
            {"type": ["string", "integer"], "description": "ISO 8601, or ms since the epoch."},
            "2026-09-21T14:00:00Z",
            required=True,
        ),
        "answers": {200: "ProcessingPipeline"},
        "errors": [400, 404, 503],
    },
}
