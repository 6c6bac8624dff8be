"""Events in the OpenAPI document: tables only; ``openapi`` documents their format."""

from __future__ import annotations

from typing import Any

from chalicelib.events.completeness import MAX_WAIT_S
from chalicelib.events.event_browser import DEFAULT_LIMIT, MAX_LIMIT
from chalicelib.events.event_view import SEVERITIES
from chalicelib.events.names import MAX_NAME_CHARS
from chalicelib.events.starts import MAX_AGE_MS, MAX_COMMAND_CHARS, MAX_HEARTBEAT_S, MAX_HOST_CHARS, MIN_HEARTBEAT_S
from chalicelib.routes.openapi_logs import query_parameter
from chalicelib.runlog.attempts import MAX_ATTEMPTS

_POSITION = "1_9f3c_0_12.aRzC4w"
_NEW = {"message": "42 rows", "timestamp": 1790000000000, "id": 0, "step": "load", "level": "INFO", "data": {"table": "orders"}}
_DATA = {"instanceId": "runlake", "loggableType": "run", "loggableId": "run-1", "jobId": "mysql.ingest", "stepId": "load"}


def _ref(name: str) -> dict[str, str]:
    return {"$ref": f"#/components/schemas/{name}"}


def _object(description: str, required: list[str], properties: dict[str, Any], *examples: Any) -> dict[str, Any]:
    return {
        "description": description,
        "type": "object",
        "required": required,
        "properties": properties,
        "examples": list(examples),
    }


def _number(description: str, **more: Any) -> dict[str, Any]:
    return {"type": "integer", "minimum": 0, "description": description, **more}


def _or_null(schema: dict[str, Any]) -> dict[str, Any]:
    return schema | {"type": [schema["type"], "null"]}


_ANNOTATION = {
    "type": "object",
    "required": ["position", "note"],
    "properties": {
        "position": _number("Offset in the message, in characters."),
        "note": {"description": "Any JSON, for example a link, a color or a fold."},
    },
}
_TIME = _number("In ms since the epoch.")
_TEXT = {"type": "string"}
_NAME = {"type": "string", "minLength": 1, "maxLength": MAX_NAME_CHARS}

_STEP_UPDATE: dict[str, Any] = {
    "name": _or_null(_NAME),
    "parent": _or_null(_NAME),
    "startedMs": _or_null(_TIME),
    "endedMs": _or_null(_TIME),
    "status": {"enum": ["running", "succeeded", "failed", None]},
}
_STEP = {
    "step": "load", "name": "Load orders", "parent": None, "startedMs": 1790000000000, "endedMs": 1790000002500, "durationMs": 2500,
    "lines": 2, "bytes": 16, "errors": 0, "firstLine": 0, "status": "succeeded", "complete": True,
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

_OUTLINE: dict[str, Any] = {
    "line": _number("Number of its first line, from 0."),
    "lines": _number("Number of its lines."),
    "severity": {"enum": [*SEVERITIES, None], "description": "Standard name of its level; null without a level."},
    "hasData": {"type": "boolean", "description": "Whether it has data in addition to the fields that the archive adds."},
}
_OUTLINED = {"line": 0, "lines": 1, "severity": "INFO", "hasData": True}
_AFTER = {"type": ["string", "null"], "description": "Beginning of the next page; null on the last page."}

SCHEMAS: dict[str, dict[str, Any]] = {
    "NewEvent": _object(
        "An event. Default of `timestamp`: the time of arrival. The ids of a writer's events count from 0.",
        ["message"],
        {
            "message": _TEXT | {"description": "One line or more."},
            "timestamp": _or_null(_TIME),
            "id": _or_null(_number("Unique within its writer.")),
            "step": {"type": ["string", "null"], "maxLength": MAX_NAME_CHARS},
            "level": {
                "type": ["string", "null"],
                "maxLength": 40,
                "description": "A common name of a level; other names are rejected.",
            },
            "data": {
                "type": "object",
                "description": "Additional fields. The archive adds `instanceId`, `loggableType`, `loggableId` and `jobId`.",
            },
            "annotations": {"type": "array", "items": _ANNOTATION, "description": "Notes on parts of the message."},
        },
        _NEW,
        {"message": "two\nlines"},
    )
    | {"additionalProperties": False},
    "EventsAccepted": _object(
        "Valid items are stored; the response lists the rejected ones.",
        ["accepted", "firstLine", "position", "repeated", "errors"],
        {
            "accepted": _number("Number of stored events."),
            "firstLine": _or_null(_number("Number of the first line of the first stored event.")),
            "position": _TEXT | {"description": "The position, as in the cookie."},
            "repeated": {"type": "boolean", "description": "Whether the batch was stored before."},
            "errors": {
                "type": "array",
                "items": {
                    "type": "object",
                    "required": ["index", "code", "message"],
                    "properties": {
                        "index": _number("Index of the item in the request."),
                        "code": {"type": "integer"},
                        "message": _TEXT,
                    },
                },
            },
        },
        {"accepted": 1, "firstLine": 0, "position": _POSITION, "repeated": False, "errors": []},
    ),
    "BrowsedEvent": _object(
        "An event of a log. Plain lines of the log are events too, with the line number as id and an empty writer.",
        ["id", "writer", "line", "lines", "timestamp", "level", "severity", "step", "message", "data", "hasData", "annotations"],
        {
            **_OUTLINE,
            "id": _number("Unique within its writer."),
            "writer": _TEXT,
            "timestamp": {
                "type": ["integer", "null"],
                "description": "In ms since the epoch; null for a plain line without a time.",
            },
            "level": {"type": ["string", "null"]},
            "step": {"type": ["string", "null"]},
            "message": _TEXT,
            "data": {"type": "object"},
            "annotations": {"type": "array", "items": _ANNOTATION},
            "truncated": {
                "const": True,
                "description": "The message is too large for a response and is truncated; `log` returns all of it.",
            },
        },
        _NEW | _OUTLINED | {"writer": "agent-1", "data": {"table": "orders"} | _DATA, "annotations": []},
    ),
    "EventOutline": _object("An event without its text, returned with `outline`.", list(_OUTLINE), _OUTLINE, _OUTLINED),
    "EventPage": _object(
        "Events in the order of the log. A page may have fewer events than `limit`, or none, and still have an `after`.",
        ["events", "after"],
        {
            "events": {
                "type": "array",
                "items": {"anyOf": [_ref("BrowsedEvent"), _ref("EventOutline")]},
                "maxItems": MAX_LIMIT,
                "description": "EventOutline with `outline`, else BrowsedEvent.",
            },
            "after": {"type": ["string", "null"], "description": "Beginning of the next page; null: no more events at present."},
        },
        {"events": [], "after": None},
    ),
    "LogText": _object(
        "Part of a log: complete lines, or a part of a line that is too long for a response.",
        ["text", "next", "complete", "lines"],
        {
            "text": _TEXT,
            "next": _number("Byte offset of the end of this part: `start` of the next request."),
            "complete": {"type": "boolean", "description": "Whether no more lines can follow."},
            "lines": _number("Number of line ends in this part."),
        },
        {"text": "one\ntwo\n", "next": 8, "complete": False, "lines": 2},
    ),
    "ToldStep": _object(
        "An update of a step. Omitted fields keep their values; null removes a value.",
        [],
        _STEP_UPDATE,
        {"name": "Load orders", "status": "running"},
    )
    | {"additionalProperties": False},
    "KnownStep": _object(
        "All updates of a step, merged.",
        ["step", "name", "parent", "startedMs", "endedMs", "status"],
        {"step": _TEXT, **_STEP_UPDATE},
        {"step": "load", "name": "Load orders", "parent": None, "startedMs": None, "endedMs": None, "status": "running"},
    ),
    "Step": _object(
        "A step, combined from its events and its updates.",
        list(_STEP),
        {
            "step": _TEXT,
            "name": _TEXT | {"description": "The name in the update; default: the step's id."},
            "parent": {"type": ["string", "null"]},
            "startedMs": _or_null(_TIME),
            "endedMs": _or_null(_TIME),
            "durationMs": _or_null(_number("Until its end, or until its last event if the end is unknown.")),
            "lines": _number("Number of lines in its log."),
            "bytes": _number("Size of its log in bytes."),
            "errors": _number("Number of its events that are errors."),
            "firstLine": _or_null(_number("Number of its first line in the log of the run.")),
            "status": _STEP_UPDATE["status"],
            "complete": {"type": "boolean", "description": "Whether no more events can follow."},
        },
        _STEP,
    ),
    "StepList": _object(
        "Steps in the order of their start.",
        ["steps", "after"],
        {"steps": {"type": "array", "items": _ref("Step")}, "after": _AFTER},
        {"steps": [_STEP], "after": None},
    ),
    "RunStart": _object(
        "The start of a run.",
        [],
        {
            "host": _TEXT | {"maxLength": MAX_HOST_CHARS},
            "command": _TEXT | {"maxLength": MAX_COMMAND_CHARS, "description": "The command or function; secrets are masked."},
            "ageMs": _number("Time since the run began, in ms.", maximum=MAX_AGE_MS, default=0),
            "attempt": {
                "type": ["integer", "null"],
                "minimum": 1,
                "maximum": MAX_ATTEMPTS,
                "description": "The attempt to start; omitted or null: the next free one.",
            },
            "join": {
                "type": "boolean",
                "default": False,
                "description": "Write to the newest running attempt of any client; start one if there is none.",
            },
            "heartbeatS": {
                "anyOf": [{"const": 0}, {"type": "integer", "minimum": MIN_HEARTBEAT_S, "maximum": MAX_HEARTBEAT_S}],
                "default": 0,
                "description": "Seconds between the heartbeats that the client will send; 0: none. The run is silent after three times "
                "as long without a line or a heartbeat.",
            },
        },
        {"host": "worker-3", "command": "./load.sh --all"},
    )
    | {"additionalProperties": False},
    "StartedRun": _object(
        "A started attempt.",
        ["runId", "attempt", "startedMs", "position", "joined"],
        {
            "runId": _TEXT | {"description": "The run that stores its log: `run-1~2` for attempt 2 of `run-1`."},
            "attempt": _number("Number of the attempt, from 1.", minimum=1),
            "startedMs": _TIME,
            "position": _TEXT | {"description": "The position for its first batch, as in the cookie."},
            "joined": {"type": "boolean", "description": "With `join`: another client started the attempt, and closes it."},
        },
        {"runId": "run-1~2", "attempt": 2, "startedMs": 1790000000000, "position": _POSITION, "joined": False},
    ),
    "Heartbeat": _object(
        "The result of a heartbeat.",
        ["recorded"],
        {
            "recorded": {
                "type": "boolean",
                "description": "False: the run has ended, is not catalogued yet, or a later heartbeat is recorded.",
            }
        },
        {"recorded": True},
    ),
    "EventWriter": _object("A registered writer.", ["writer"], {"writer": _TEXT}, {"writer": "agent-1"}),
    "WriterEnd": _object(
        "The end of a writer. Its events have the ids 0 to `count` - 1.",
        ["count"],
        {"count": _number("Number of its events."), "lastTimestamp": _or_null(_TIME)},
        {"count": 2, "lastTimestamp": 1790000000000},
    )
    | {"additionalProperties": False},
    "ClosedWriter": _object(
        "A closed writer.",
        ["writer", "count"],
        {"writer": _TEXT, "count": _number("Number of its events.")},
        {"writer": "agent-1", "count": 2},
    ),
    "Completeness": _object(
        "`complete`: the run is sealed, every registered writer is closed, and all their events are visible. `lost`: after a grace "
        "period, events of a closed writer are missing, or a writer of a sealed run is not closed. `pending`: neither.",
        ["state", "sealed", "writers", "lost", "after"],
        {
            "state": {"enum": ["complete", "pending", "lost"]},
            "sealed": {"type": "boolean"},
            "after": _AFTER,
            "writers": {
                "type": "array",
                "items": {
                    "type": "object",
                    "required": list(_WRITER),
                    "properties": {
                        "writer": _TEXT,
                        "opened": {"type": "boolean"},
                        "closed": {"type": "boolean"},
                        "count": _or_null(_number("The count that the writer reported when it was closed.")),
                        "visible": _number("Number of indexed events."),
                        "missing": {
                            "type": "array",
                            "maxItems": 10,
                            "items": {"type": "array", "items": {"type": "integer"}, "minItems": 2, "maxItems": 2},
                            "description": "The first ten ranges of missing ids: first and last id.",
                        },
                        "lastTimestamp": _or_null(_TIME),
                    },
                },
            },
            "lost": {"type": "array", "items": _TEXT, "description": "Writers with missing events, or that were not closed."},
        },
        {"state": "lost", "sealed": True, "after": None, "writers": [_WRITER], "lost": ["agent-1"]},
    ),
}

_CONFIGURATION = {
    "method": "runlog", "browser": "runlog", "methods": {"files": {"directory": "/var/log/runs"}}, "browsers": {}, "rules": [],
    "outputs": [], "installed": {"methods": ["files", "runlog"], "browsers": ["files", "runlog"]},
}  # fmt: skip
SCHEMAS["Configuration"] = _object(
    "Configuration of how events are written and browsed. Secrets are replaced by `***`.",
    list(_CONFIGURATION),
    {
        "method": _TEXT,
        "browser": _TEXT,
        "methods": {"type": "object", "description": "Options by name."},
        "browsers": {"type": "object", "description": "Options by name."},
        "rules": {"type": "array", "description": "Rules that assign agents' records to runs."},
        "outputs": {"type": "array", "description": "Other systems that get copies of events."},
        "installed": {"type": "object", "description": "Available methods and browsers."},
    },
    _CONFIGURATION,
)

ERRORS: dict[int, tuple[int, str, str]] = {
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
        "events are application/json or application/x-ndjson content_type='image/png'",
    ),
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
    "eventText": query_parameter("text", {"type": "string", "maxLength": 500}, "Only events with this text in the message."),
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
    "logMaxLines": query_parameter("maxLines", {"type": "integer", "minimum": 1, "maximum": 1_000_000}, "Maximum number of lines."),
    "logRaw": query_parameter(
        "raw",
        {"type": "boolean", "default": False},
        "Return text, with `next` and `complete` in the headers `X-Next` and `X-Complete`.",
    ),
    "listAfter": query_parameter("after", {"type": "integer", "minimum": 0, "default": 0}, "`after` of the previous page."),
    "listLimit": query_parameter(
        "limit", {"type": "integer", "minimum": 1, "maximum": 10_000, "default": 10_000}, "Maximum number of entries."
    ),
    "completenessWait": query_parameter(
        "wait",
        {"type": "integer", "minimum": 0, "maximum": int(MAX_WAIT_S), "default": 0},
        "Seconds to wait while the state is `pending`.",
    ),
}


def _body(schema: str, example: Any) -> dict[str, Any]:
    return {"required": True, "content": {"application/json": {"schema": _ref(schema), "example": example}}}


_BATCH = {
    "required": True,
    "content": {
        "application/json": {
            "schema": {"oneOf": [_ref("NewEvent"), {"type": "array", "items": _ref("NewEvent"), "maxItems": 10_000}]},
            "examples": {"one": {"value": _NEW}, "several": {"value": [_NEW, {"message": "done", "id": 1}]}},
        },
        "application/x-ndjson": {"schema": {"type": "string"}, "example": '{"message": "one"}\n{"message": "two"}\n'},
    },
}
_STORED = {
    "description": "Valid items are stored; the response lists the rejected ones.",
    "headers": {"Set-Cookie": {"description": "The position, as `PIPELINE_SESSION`.", "schema": {"type": "string"}}},
    "content": {"application/json": {"schema": _ref("EventsAccepted"), "example": SCHEMAS["EventsAccepted"]["examples"][0]}},
}
_STARTED = {
    "description": "The attempt is started.",
    "headers": {"Set-Cookie": {"description": "The position, as `PIPELINE_SESSION`.", "schema": {"type": "string"}}},
    "content": {"application/json": {"schema": _ref("StartedRun"), "example": SCHEMAS["StartedRun"]["examples"][0]}},
}
_LOG = {
    "description": "Part of the log.",
    "headers": {
        "X-Next": {"description": "With `raw`: byte offset of the end of this part.", "schema": {"type": "integer"}},
        "X-Complete": {"description": "With `raw`: whether no more lines can follow.", "schema": {"type": "boolean"}},
    },
    "content": {
        "application/json": {"schema": _ref("LogText"), "example": SCHEMAS["LogText"]["examples"][0]},
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
        "answers": {200: _STORED},
    },
    "startRun": {
        "summary": "Start a run, or its next attempt if it has ended or was started before",
        "description": "Idempotent: the same `start` of a run returns the same attempt. The run itself is attempt 1 if it is running and has no "
        "other start; further attempts are runs of their own. If `joined` is false, this client closes the run. 409: the requested attempt is "
        "taken, or all are.",
        "parameters": ["fqn", "runId", "pathStart"],
        "body": _body("RunStart", {"host": "worker-3", "command": "./load.sh --all"}),
        "answers": {200: _STARTED},
    },
    "sendHeartbeat": {
        "summary": "Send a heartbeat of a run without new lines",
        "description": "Idempotent. The run does not become silent, and the sweep does not end it. If `recorded` is false, send the next "
        "heartbeat in time all the same.",
        "parameters": ["fqn", "runId"],
        "answers": {200: "Heartbeat"},
    },
    "openWriter": {
        "summary": "Register a writer; the run's events are complete only after it is closed",
        "description": "Idempotent.",
        "parameters": ["fqn", "runId", "pathWriter"],
        "answers": {200: "EventWriter"},
    },
    "closeWriter": {
        "summary": "Close a writer",
        "description": "Idempotent; 409 for a different count.",
        "parameters": ["fqn", "runId", "pathWriter"],
        "body": _body("WriterEnd", {"count": 2}),
        "answers": {200: "ClosedWriter"},
    },
    "tellOfStep": {
        "summary": "Update a step: name, parent, times, status",
        "parameters": ["fqn", "runId", "pathStep"],
        "body": _body("ToldStep", {"name": "Load orders", "status": "running"}),
        "answers": {200: "KnownStep"},
    },
    "browseEvents": {
        "summary": "List the events of a run, with filters",
        "description": "A page reads a limited time and number of bytes, so it may be empty and not the last. The last plain line of a running "
        "run is withheld, because more lines may belong to it.",
        "parameters": [
            "fqn", "runId", "eventStep", "eventLevel", "eventFrom", "eventTo", "eventText", "eventAfter", "eventLimit",
            "eventOutline",
        ],
        "answers": {200: "EventPage"},
    },
    "readEventLog": {
        "summary": "Read the log of a run or of a step by byte offset",
        "description": "A response may have fewer lines than `maxLines`; continue from `next` until `complete`.",
        "parameters": ["fqn", "runId", "eventStep", "logStart", "logMaxLines", "logRaw"],
        "answers": {200: _LOG},
    },
    "listSteps": {
        "summary": "List the steps of a run",
        "parameters": ["fqn", "runId", "listAfter", "listLimit"],
        "answers": {200: "StepList"},
    },
    "getConfiguration": {
        "summary": "Get the configuration of how events are written and browsed",
        "answers": {200: "Configuration"},
    },
    "getCompleteness": {
        "summary": "Get the completeness of a run's events",
        "parameters": ["fqn", "runId", "completenessWait", "listAfter", "listLimit"],
        "answers": {200: "Completeness"},
    },
}  # fmt: skip
