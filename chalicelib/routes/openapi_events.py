"""Events in the OpenAPI document: texts and examples; schemas are generated from the models. ``openapi`` documents the format."""

from __future__ import annotations

from typing import Any

from chalicelib.errors import RunDeletedError
from chalicelib.events.completeness import MAX_WAIT_S
from chalicelib.events.event import NewEvent
from chalicelib.events.event_browser import DEFAULT_LIMIT, MAX_LIMIT
from chalicelib.events.names import MAX_NAME_CHARS
from chalicelib.events.starts import StartBody
from chalicelib.events.step_updates import StepUpdate
from chalicelib.routes.budgets import EVENTS
from chalicelib.routes.events_models import (
    MAX_LINES,
    MAX_LISTED,
    MAX_TEXT_CHARS,
    AcceptedEvents,
    BrowsedEvent,
    BrowsedEventPage,
    ClosedWriter,
    EventOutline,
    HeartbeatResult,
    LogPart,
    MergedStep,
    RedactedConfiguration,
    RegisteredWriter,
    RunCompleteness,
    StartedAttempt,
    StepEntry,
    StepEntryPage,
    WriterEnd,
)
from chalicelib.routes.openapi_logs import query_parameter
from chalicelib.routes.schemas import component_schemas, reference

_POSITION = "1_9f3c_0_12.aRzC4w"
_NEW = {"message": "42 rows", "timestamp": 1790000000000, "id": 0, "step": "load", "level": "INFO", "data": {"table": "orders"}}
_NAME = {"type": "string", "minLength": 1, "maxLength": MAX_NAME_CHARS}
_DATA = {"instanceId": "runlake", "loggableType": "run", "loggableId": "run-1", "jobId": "mysql.ingest", "stepId": "load"}


_STEP = {
    "step": "load", "name": "Load orders", "parent": None, "startedMs": 1790000000000, "endedMs": 1790000002500, "durationMs": 2500,
    "lines": 2, "bytes": 16, "errors": 0, "firstLine": 0, "lineRanges": [[0, 1]], "status": "succeeded",
    "complete": True,
}  # fmt: skip
_WRITER = {
    "writer": "agent-1",
    "opened": True,
    "closed": True,
    "count": 2,
    "visible": 1,
    "missing": [[1, 1]],
    "lastTimestamp": 1790000000000,
}
_OUTLINED = {"line": 0, "lines": 1, "severity": "INFO", "hasData": True}
_CONFIGURATION = {
    "browser": "runlog", "browsers": {"cloudwatch": {"group": "runs"}}, "rules": [], "outputs": [],
    "installed": {"browsers": ["cloudwatch", "elasticsearch", "opensearch", "runlog"]},
    "locators": [{"pattern": "team.*", "browser": "cloudwatch", "outputs": []}],
    "plugins": [{"kind": "browser", "name": "cloudwatch", "protocol": 1, "problem": None, "fallback": None}],
    "chosen": {"fqn": "team.load", "browser": "cloudwatch", "outputs": [], "locator": "team.*"},
}  # fmt: skip

SCHEMAS = component_schemas(
    {"NewEvent": NewEvent, "StepUpdate": StepUpdate, "RunStart": StartBody, "WriterEnd": WriterEnd},
    {
        "NewEvent": [_NEW, {"message": "two\nlines"}],
        "StepUpdate": [{"name": "Load orders", "status": "running"}],
        "RunStart": [{"host": "worker-3", "command": "./load.sh --all"}],
        "WriterEnd": [{"count": 2, "lastTimestamp": 1790000000000}],
    },
    "validation",
) | component_schemas(
    {
        "EventsAccepted": AcceptedEvents,
        "BrowsedEvent": BrowsedEvent,
        "EventOutline": EventOutline,
        "EventPage": BrowsedEventPage,
        "LogText": LogPart,
        "KnownStep": MergedStep,
        "Step": StepEntry,
        "StepList": StepEntryPage,
        "StartedRun": StartedAttempt,
        "Heartbeat": HeartbeatResult,
        "EventWriter": RegisteredWriter,
        "ClosedWriter": ClosedWriter,
        "Completeness": RunCompleteness,
        "Configuration": RedactedConfiguration,
    },
    {
        "EventsAccepted": [{"accepted": 1, "firstLine": 0, "position": _POSITION, "repeated": False, "errors": []}],
        "BrowsedEvent": [_NEW | _OUTLINED | {"writer": "agent-1", "data": {"table": "orders"} | _DATA, "annotations": []}],
        "EventOutline": [_OUTLINED],
        "EventPage": [{"events": [], "after": None}],
        "LogText": [{"text": "one\ntwo\n", "next": 8, "complete": False, "lines": 2}],
        "KnownStep": [
            {"step": "load", "name": "Load orders", "parent": None, "startedMs": None, "endedMs": None, "status": "running"}
        ],
        "Step": [_STEP],
        "StepList": [{"steps": [_STEP], "after": None}],
        "StartedRun": [
            {
                "runId": "run-1~2",
                "attempt": 2,
                "startedMs": 1790000000000,
                "position": _POSITION,
                "joined": False,
                "instanceId": "runlake",
            }
        ],
        "Heartbeat": [{"recorded": True}],
        "EventWriter": [{"writer": "agent-1"}],
        "ClosedWriter": [{"writer": "agent-1", "count": 2}],
        "Completeness": [{"state": "lost", "sealed": True, "after": None, "writers": [_WRITER], "lost": ["agent-1"]}],
        "Configuration": [_CONFIGURATION],
    },
)

ERRORS: dict[int | str, tuple[int, str, str]] = {
    400: (
        400,
        "The request is invalid.",
        "no event of the batch can be stored: an event's data and annotations are too large limit=65536",
    ),
    409: (
        409,
        "The request conflicts with the state of the run; nothing was stored.",
        "the run is closed: its log takes no more lines sequence=4",
    ),
    413: (
        413,
        "The body is too large, expands too far, or has too many events.",
        "too many events for one request events=10001 limit=10000",
    ),
    500: (500, "Invalid configuration or an unexpected error; see the function's log.", "internal server error"),
    415: (
        415,
        "The content type or the content encoding is not supported.",
        "events must be application/json or application/x-ndjson content_type='image/png'",
    ),
    RunDeletedError.code: (410, "The run was deleted.", "the run was deleted run=mysql.ingest/run-9"),
    503: (
        503,
        "Temporarily unavailable: repeat the request with the same cookie or key.",
        "get failed code=SlowDown what=pipeline-logs/mysql.ingest/run-1/segments/0000000004",
    ),
}


def _path_parameter(name: str, description: str, example: str) -> dict[str, Any]:
    parameter = {"name": name, "in": "path", "required": True, "description": description}
    return parameter | {"schema": _NAME, "example": example}


PARAMETERS: dict[str, dict[str, Any]] = {
    "eventWriter": query_parameter(
        "writer", _NAME, "The writer's name; event ids are unique per writer. Registration is optional."
    ),
    "pathWriter": _path_parameter("writer", "The writer's name; encode slashes as `%2F`.", "agent-1"),
    "pathStart": _path_parameter("start", "A client-generated id that is unique to this start.", "4f1c9a3e5d7b2c60"),
    "pathStep": _path_parameter("step", "The step's id; encode slashes as `%2F`.", "load"),
    "eventStep": query_parameter("step", _NAME, "Only events of this step."),
    "eventLevel": query_parameter(
        "level", {"type": "string"}, "Only events of this level, in any spelling: `warn` is `WARNING`. 400 for an unknown level."
    ),
    "eventFrom": query_parameter(
        "from",
        {"type": "integer", "minimum": 0},
        "Only events from this time on, in ms since the epoch. The time of an event without one is that of the event before it, or of its "
        "arrival.",
    ),
    "eventTo": query_parameter("to", {"type": "integer", "minimum": 0}, "Only events before this time."),
    "eventText": query_parameter(
        "text", {"type": "string", "maxLength": MAX_TEXT_CHARS}, "Only events with this text in the message."
    ),
    "eventAfter": query_parameter(
        "after", {"type": "integer", "minimum": 0, "default": 0}, "`after` of the previous page: a line number."
    ),
    "eventLimit": query_parameter(
        "limit", {"type": "integer", "minimum": 1, "maximum": MAX_LIMIT, "default": DEFAULT_LIMIT}, "Maximum number of events."
    ),
    "eventOutline": query_parameter(
        "outline",
        {"type": "boolean", "default": False},
        "Return events without their text: `line`, `lines`, `severity`, `hasData`. Includes the last event of a growing log, which may get more "
        "lines.",
    ),
    "logStart": query_parameter(
        "start", {"type": "integer", "minimum": 0, "default": 0}, "Byte offset in that log: `next` of the previous part."
    ),
    "logMaxLines": query_parameter("maxLines", {"type": "integer", "minimum": 1, "maximum": MAX_LINES}, "Maximum number of lines."),
    "logRaw": query_parameter(
        "raw",
        {"type": "boolean", "default": False},
        "Return text, with `next` and `complete` in the headers `X-Next` and `X-Complete`.",
    ),
    "listAfter": query_parameter("after", {"type": "integer", "minimum": 0, "default": 0}, "`after` of the previous page."),
    "listLimit": query_parameter(
        "limit", {"type": "integer", "minimum": 1, "maximum": MAX_LISTED, "default": MAX_LISTED}, "Maximum number of entries."
    ),
    "chosenFqn": query_parameter("fqn", {"type": "string"}, "Also return what a new run of this pipeline gets."),
    "completenessWait": query_parameter(
        "wait",
        {"type": "integer", "minimum": 0, "maximum": int(MAX_WAIT_S), "default": 0},
        "Seconds to wait while the state is `pending`.",
    ),
}


def _body(schema: str, example: Any) -> dict[str, Any]:
    return {"required": True, "content": {"application/json": {"schema": reference(schema), "example": example}}}


_BATCH = {
    "required": True,
    "content": {
        "application/json": {
            "schema": {
                "oneOf": [reference("NewEvent"), {"type": "array", "items": reference("NewEvent"), "maxItems": EVENTS.items.limit}]
            },
            "examples": {"one": {"value": _NEW}, "several": {"value": [_NEW, {"message": "done", "id": 1}]}},
        },
        "application/x-ndjson": {"schema": {"type": "string"}, "example": '{"message": "one"}\n{"message": "two"}\n'},
    },
}
_STORED = {
    "description": "Valid items are stored; the response lists the rejected ones.",
    "headers": {"Set-Cookie": {"description": "The position, as `PIPELINE_SESSION`.", "schema": {"type": "string"}}},
    "content": {"application/json": {"schema": reference("EventsAccepted"), "example": SCHEMAS["EventsAccepted"]["examples"][0]}},
}
_STARTED = {
    "description": "The attempt is started.",
    "headers": {"Set-Cookie": {"description": "The position, as `PIPELINE_SESSION`.", "schema": {"type": "string"}}},
    "content": {"application/json": {"schema": reference("StartedRun"), "example": SCHEMAS["StartedRun"]["examples"][0]}},
}
_LOG = {
    "description": "Part of the log.",
    "headers": {
        "X-Next": {"description": "With `raw`: byte offset of the end of this part.", "schema": {"type": "integer"}},
        "X-Complete": {"description": "With `raw`: whether no more lines can follow.", "schema": {"type": "boolean"}},
    },
    "content": {
        "application/json": {"schema": reference("LogText"), "example": SCHEMAS["LogText"]["examples"][0]},
        "text/plain": {"schema": {"type": "string"}, "example": "one\ntwo\n"},
    },
}

OPERATIONS: dict[str, dict[str, Any]] = {
    "appendEvents": {
        "summary": "Append events to a run",
        "description": "Each item is accepted or rejected separately; 400 if all are rejected. Its message is one line of the log or more. An "
        "empty list opens a session.",
        "parameters": ["fqn", "runId", "eventWriter", "session", "idempotencyKey"],
        "body": _BATCH,
        "responses": {200: _STORED},
    },
    "startRun": {
        "summary": "Start a run, or its next attempt if it has ended or was started before",
        "description": "Idempotent: the same `start` of a run returns the same attempt. The run itself is attempt 1 if it is running and has no "
        "other start; further attempts are runs of their own. If `joined` is false, this client closes the run. 400: the pipeline has no "
        "browser for another `method`. 409: the run began with another `method` or `zone`, or the requested attempt is taken, or all "
        "are.",
        "parameters": ["fqn", "runId", "pathStart"],
        "body": _body("RunStart", {"host": "worker-3", "command": "./load.sh --all"}),
        "responses": {200: _STARTED},
    },
    "sendHeartbeat": {
        "summary": "Send a heartbeat of a run without new lines",
        "description": "Idempotent. The run does not become silent, and the sweep does not end it. If `recorded` is false, send the next "
        "heartbeat in time all the same.",
        "parameters": ["fqn", "runId"],
        "responses": {200: "Heartbeat"},
    },
    "openWriter": {
        "summary": "Register a writer; the run's events are complete only after it is closed",
        "description": "Idempotent.",
        "parameters": ["fqn", "runId", "pathWriter"],
        "responses": {200: "EventWriter"},
    },
    "closeWriter": {
        "summary": "Close a writer",
        "description": "Idempotent; 409 for a different count.",
        "parameters": ["fqn", "runId", "pathWriter"],
        "body": _body("WriterEnd", {"count": 2}),
        "responses": {200: "ClosedWriter"},
    },
    "updateStep": {
        "summary": "Update a step: name, parent, times, status",
        "parameters": ["fqn", "runId", "pathStep"],
        "body": _body("StepUpdate", {"name": "Load orders", "status": "running"}),
        "responses": {200: "KnownStep"},
    },
    "browseEvents": {
        "summary": "List the events of a run, with filters",
        "description": "A page reads a limited time and number of bytes, so it may be empty and not the last. The last plain line of a running "
        "run is withheld, because more lines may belong to it.",
        "parameters": [
            "fqn", "runId", "eventStep", "eventLevel", "eventFrom", "eventTo", "eventText", "eventAfter", "eventLimit",
            "eventOutline",
        ],
        "responses": {200: "EventPage"},
    },
    "readEventLog": {
        "summary": "Read the log of a run or of a step by byte offset",
        "description": "A response may have fewer lines than `maxLines`; continue from `next` until `complete`.",
        "parameters": ["fqn", "runId", "eventStep", "logStart", "logMaxLines", "logRaw"],
        "responses": {200: _LOG},
    },
    "listSteps": {
        "summary": "List the steps of a run",
        "parameters": ["fqn", "runId", "listAfter", "listLimit"],
        "responses": {200: "StepList"},
    },
    "getConfiguration": {
        "summary": "Get the configuration of where events are browsed and forwarded",
        "parameters": ["chosenFqn"],
        "responses": {200: "Configuration"},
    },
    "getCompleteness": {
        "summary": "Get the completeness of a run's events",
        "parameters": ["fqn", "runId", "completenessWait", "listAfter", "listLimit"],
        "responses": {200: "Completeness"},
    },
}  # fmt: skip
