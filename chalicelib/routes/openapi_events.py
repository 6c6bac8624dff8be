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

_EVENTS = "/v1/events/{fqn}/{runId}"
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
        "position": _number("In characters of the message."),
        "note": {"description": "Any JSON: a link, a colour, a fold."},
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
    "line": _number("Its first line."),
    "lines": _number("How many it has."),
    "severity": {"enum": [*SEVERITIES, None], "description": "The standard name of its level; null without one."},
    "hasData": {"type": "boolean", "description": "Whether it has data beyond what the archive adds."},
}
_OUTLINED = {"line": 0, "lines": 1, "severity": "INFO", "hasData": True}
_AFTER = {"type": ["string", "null"], "description": "Where the next page begins; null at the end."}

SCHEMAS: dict[str, dict[str, Any]] = {
    "NewEvent": _object(
        "An event. Without `timestamp` it is of now; events of a named writer have an `id` that counts from 0.",
        ["message"],
        {
            "message": _TEXT | {"description": "One line or many."},
            "timestamp": _or_null(_TIME),
            "id": _or_null(_number("Unique within its writer.")),
            "step": {"type": ["string", "null"], "maxLength": MAX_NAME_CHARS},
            "level": {"type": ["string", "null"], "maxLength": 40, "description": "A usual name of a level; others are refused."},
            "data": {"type": "object", "description": "More of it; `instanceId`, `loggableType`, `loggableId`, `jobId` are added."},
            "annotations": {"type": "array", "items": _ANNOTATION, "description": "Notes beside the text."},
        },
        _NEW,
        {"message": "two\nlines"},
    )
    | {"additionalProperties": False},
    "EventsAccepted": _object(
        "The good items are on S3, the others are told.",
        ["accepted", "firstLine", "position", "repeated", "errors"],
        {
            "accepted": _number("How many were stored."),
            "firstLine": _or_null(_number("The line where the first of them begins.")),
            "position": _TEXT | {"description": "What the cookie carries."},
            "repeated": {"type": "boolean", "description": "Whether they had been stored before."},
            "errors": {
                "type": "array",
                "items": {
                    "type": "object",
                    "required": ["index", "code", "message"],
                    "properties": {"index": _number("Which item."), "code": {"type": "integer"}, "message": _TEXT},
                },
            },
        },
        {"accepted": 1, "firstLine": 0, "position": _POSITION, "repeated": False, "errors": []},
    ),
    "BrowsedEvent": _object(
        "An event as it is browsed. A plain line of the log is one too: its number is its id, its writer is empty.",
        ["id", "writer", "line", "lines", "timestamp", "level", "severity", "step", "message", "data", "hasData", "annotations"],
        {
            **_OUTLINE,
            "id": _number("Unique within its writer."),
            "writer": _TEXT,
            "timestamp": {
                "type": ["integer", "null"],
                "description": "In ms since the epoch; null where a plain line does not say.",
            },
            "level": {"type": ["string", "null"]},
            "step": {"type": ["string", "null"]},
            "message": _TEXT,
            "data": {"type": "object"},
            "annotations": {"type": "array", "items": _ANNOTATION},
            "truncated": {"const": True, "description": "The message is too large for any answer: read it by `log`."},
        },
        _NEW | _OUTLINED | {"writer": "agent-1", "data": {"table": "orders"} | _DATA, "annotations": []},
    ),
    "EventOutline": _object("An event without its text, as `outline` answers.", list(_OUTLINE), _OUTLINE, _OUTLINED),
    "EventPage": _object(
        "Events in the log's order. A page may have fewer than were asked for, or none, and go on.",
        ["events", "after"],
        {
            "events": {
                "type": "array",
                "items": {"anyOf": [_ref("BrowsedEvent"), _ref("EventOutline")]},
                "maxItems": MAX_LIMIT,
                "description": "With `outline`: EventOutline.",
            },
            "after": {"type": ["string", "null"], "description": "Where the next page begins; null when there is no more now."},
        },
        {"events": [], "after": None},
    ),
    "LogText": _object(
        "Part of a log: whole lines, as long as a line is no longer than an answer.",
        ["text", "next", "complete", "lines"],
        {
            "text": _TEXT,
            "next": _number("The byte behind it: pass it as `start`."),
            "complete": {"type": "boolean", "description": "Whether nothing will ever follow."},
            "lines": _number("How many lines end in it."),
        },
        {"text": "one\ntwo\n", "next": 8, "complete": False, "lines": 2},
    ),
    "ToldStep": _object(
        "What is told of a step. What is left out stays.", [], _STEP_UPDATE, {"name": "Load orders", "status": "running"}
    )
    | {"additionalProperties": False},
    "KnownStep": _object(
        "What is told of a step by now.",
        ["step", "name", "parent", "startedMs", "endedMs", "status"],
        {"step": _TEXT, **_STEP_UPDATE},
        {"step": "load", "name": "Load orders", "parent": None, "startedMs": None, "endedMs": None, "status": "running"},
    ),
    "Step": _object(
        "A step: what its events show, and what was told of it.",
        list(_STEP),
        {
            "step": _TEXT,
            "name": _TEXT | {"description": "As it was told; else the step's own."},
            "parent": {"type": ["string", "null"]},
            "startedMs": _or_null(_TIME),
            "endedMs": _or_null(_TIME),
            "durationMs": _or_null(_number("Up to its last event, as long as it has no end.")),
            "lines": _number("Of its log."),
            "bytes": _number("Of its log."),
            "errors": _number("Events that tell of one."),
            "firstLine": _or_null(_number("In the whole log.")),
            "status": _STEP_UPDATE["status"],
            "complete": {"type": "boolean", "description": "Whether nothing will follow."},
        },
        _STEP,
    ),
    "StepList": _object(
        "Steps in the order in which they began.",
        ["steps", "after"],
        {"steps": {"type": "array", "items": _ref("Step")}, "after": _AFTER},
        {"steps": [_STEP], "after": None},
    ),
    "RunStart": _object(
        "The start of a run.",
        [],
        {
            "host": _TEXT | {"maxLength": MAX_HOST_CHARS},
            "command": _TEXT | {"maxLength": MAX_COMMAND_CHARS, "description": "The command or the function; secrets are masked."},
            "ageMs": _number("How long ago it began, in ms.", maximum=MAX_AGE_MS, default=0),
            "attempt": {
                "type": ["integer", "null"],
                "minimum": 1,
                "maximum": MAX_ATTEMPTS,
                "description": "The attempt to start; left out or null: the next free one.",
            },
            "join": {
                "type": "boolean",
                "default": False,
                "description": "Write to the newest attempt that is open, whoever started it; start one if there is none.",
            },
            "heartbeatS": {
                "anyOf": [{"const": 0}, {"type": "integer", "minimum": MIN_HEARTBEAT_S, "maximum": MAX_HEARTBEAT_S}],
                "default": 0,
                "description": "A heartbeat comes so many seconds after the last batch, or the one before; 0: none. Without a line and "
                "a heartbeat for three times as long the run is silent.",
            },
        },
        {"host": "worker-3", "command": "./load.sh --all"},
    )
    | {"additionalProperties": False},
    "StartedRun": _object(
        "A started attempt.",
        ["runId", "attempt", "startedMs", "position", "joined"],
        {
            "runId": _TEXT | {"description": "The run that its log is stored as: `run-1~2` for attempt 2 of `run-1`."},
            "attempt": _number("Its number, from 1.", minimum=1),
            "startedMs": _TIME,
            "position": _TEXT | {"description": "The position of its first batch, as in the cookie."},
            "joined": {"type": "boolean", "description": "With `join`: it is open, and of another start, whose client closes it."},
        },
        {"runId": "run-1~2", "attempt": 2, "startedMs": 1790000000000, "position": _POSITION, "joined": False},
    ),
    "Heartbeat": _object(
        "Whether the heartbeat is recorded.",
        ["recorded"],
        {"recorded": {"type": "boolean", "description": "False: the run has ended, or is not catalogued (yet)."}},
        {"recorded": True},
    ),
    "EventWriter": _object("A writer is registered.", ["writer"], {"writer": _TEXT}, {"writer": "agent-1"}),
    "WriterEnd": _object(
        "A writer's end: it has written ids 0 to `count` - 1.",
        ["count"],
        {"count": _number("How many events."), "lastTimestamp": _or_null(_TIME)},
        {"count": 2, "lastTimestamp": 1790000000000},
    )
    | {"additionalProperties": False},
    "ClosedWriter": _object(
        "A writer is closed.",
        ["writer", "count"],
        {"writer": _TEXT, "count": _number("How many events it has written.")},
        {"writer": "agent-1", "count": 2},
    ),
    "Completeness": _object(
        "`complete`: the run is sealed, every registered writer closed, and all of their events visible. `lost`: after a time of grace it "
        "is not, and cannot become so by itself. Else `pending`.",
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
                        "count": _or_null(_number("What it said at its end.")),
                        "visible": _number("Events that are indexed."),
                        "missing": {
                            "type": "array",
                            "maxItems": 10,
                            "items": {"type": "array", "items": {"type": "integer"}, "minItems": 2, "maxItems": 2},
                            "description": "From an id to an id, the first ten.",
                        },
                        "lastTimestamp": _or_null(_TIME),
                    },
                },
            },
            "lost": {"type": "array", "items": _TEXT, "description": "Writers that something is missing of."},
        },
        {"state": "lost", "sealed": True, "after": None, "writers": [_WRITER], "lost": ["agent-1"]},
    ),
}

_CONFIGURATION = {
    "method": "runlog", "browser": "runlog", "methods": {"files": {"directory": "/var/log/runs"}}, "browsers": {}, "rules": [],
    "outputs": [], "installed": {"methods": ["files", "runlog"], "browsers": ["files", "runlog"]},
}  # fmt: skip
SCHEMAS["Configuration"] = _object(
    "How events are written and browsed. What is secret is `***`.",
    list(_CONFIGURATION),
    {
        "method": _TEXT,
        "browser": _TEXT,
        "methods": {"type": "object", "description": "Options, by name."},
        "browsers": {"type": "object", "description": "Options, by name."},
        "rules": {"type": "array", "description": "Which run an agent's record belongs to."},
        "outputs": {"type": "array", "description": "Where events go too."},
        "installed": {"type": "object", "description": "What may be chosen."},
    },
    _CONFIGURATION,
)

ERRORS: dict[int, tuple[int, str, str]] = {
    400: (400, "The request can never work: fix it.", "an event lacks its id, and others of its writer have one"),
    409: (409, "The present state refuses it; nothing was stored.", "the run is closed: its log takes no more lines sequence=4"),
    413: (
        413,
        "The body is too large, expands too far, or has too many events.",
        "too many events in one batch events=10001 limit=10000",
    ),
    500: (500, "A setting that cannot work, or something nobody expected; the function's log tells.", "internal server error"),
    415: (415, "The body is of another type.", "events are application/json or application/x-ndjson content_type='image/png'"),
    503: (503, "Trouble of ours: repeat it, with the same cookie or key.", "the store is away"),
}


def _path_parameter(name: str, description: str, example: str) -> dict[str, Any]:
    told = {"name": name, "in": "path", "required": True, "description": description}
    return told | {"schema": _NAME, "example": example}


PARAMETERS: dict[str, dict[str, Any]] = {
    "eventWriter": query_parameter("writer", _NAME, "Who writes: ids are unique within it. It need not be registered."),
    "pathWriter": _path_parameter("writer", "A writer; its slashes go as `%2F`.", "agent-1"),
    "pathStart": _path_parameter("start", "An id that the client makes, unique to this start.", "4f1c9a3e5d7b2c60"),
    "pathStep": _path_parameter("step", "A step; its slashes go as `%2F`.", "load"),
    "eventStep": query_parameter("step", _NAME, "Of this step only."),
    "eventLevel": query_parameter(
        "level", {"type": "string"}, "Of this level only, in any spelling: `warn` is `WARNING`. A name that is no level is a 400."
    ),
    "eventFrom": query_parameter(
        "from",
        {"type": "integer", "minimum": 0},
        "From this time on, in ms since the epoch. An event without a time counts by the one before it, or by its arrival.",
    ),
    "eventTo": query_parameter("to", {"type": "integer", "minimum": 0}, "Before this time."),
    "eventText": query_parameter("text", {"type": "string", "maxLength": 500}, "With this in the message."),
    "eventAfter": query_parameter("after", {"type": "integer", "minimum": 0, "default": 0}, "Where the page before ended: a line."),
    "eventLimit": query_parameter(
        "limit", {"type": "integer", "minimum": 1, "maximum": MAX_LIMIT, "default": DEFAULT_LIMIT}, "Events at most."
    ),
    "eventOutline": query_parameter(
        "outline",
        {"type": "boolean", "default": False},
        "Events without their text: `line`, `lines`, `severity`, `hasData`; the last event of a growing log too, which may get more lines.",
    ),
    "logStart": query_parameter("start", {"type": "integer", "minimum": 0, "default": 0}, "A byte of that log, as `next` told it."),
    "logMaxLines": query_parameter("maxLines", {"type": "integer", "minimum": 1, "maximum": 1_000_000}, "Lines at most."),
    "logRaw": query_parameter("raw", {"type": "boolean", "default": False}, "As text; `X-Next` and `X-Complete` are headers then."),
    "listAfter": query_parameter("after", {"type": "integer", "minimum": 0, "default": 0}, "`after` of the page before."),
    "listLimit": query_parameter(
        "limit", {"type": "integer", "minimum": 1, "maximum": 10_000, "default": 10_000}, "Entries at most."
    ),
    "completenessWait": query_parameter(
        "wait", {"type": "integer", "minimum": 0, "maximum": int(MAX_WAIT_S), "default": 0}, "Seconds to wait while it is pending."
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
    "description": "The good items are on S3, the others are told.",
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
        "X-Next": {"description": "With `raw`: the byte behind it.", "schema": {"type": "integer"}},
        "X-Complete": {"description": "With `raw`: whether nothing will ever follow.", "schema": {"type": "boolean"}},
    },
    "content": {
        "application/json": {"schema": _ref("LogText"), "example": SCHEMAS["LogText"]["examples"][0]},
        "text/plain": {"schema": {"type": "string"}, "example": "one\ntwo\n"},
    },
}

OPERATIONS: dict[str, dict[str, Any]] = {
    f"POST {_EVENTS}": {
        "id": "appendEvents",
        "summary": "Append events to a run",
        "description": "Each item is taken or refused by itself. The message is one or more lines of the run's log. An empty list opens a session.",
        "parameters": ["fqn", "runId", "eventWriter", "session", "idempotencyKey"],
        "body": _BATCH,
        "answers": {200: _STORED},
        "errors": [400, 409, 413, 415, 503],
    },
    f"PUT {_EVENTS}/starts/{{start}}": {
        "id": "startRun",
        "summary": "Start a run, or the next attempt of one that has ended or was started before",
        "description": "Idempotent: the same start of the same run gets the same attempt. 409: the attempt asked for is taken.",
        "parameters": ["fqn", "runId", "pathStart"],
        "body": _body("RunStart", {"host": "worker-3", "command": "./load.sh --all"}),
        "answers": {200: _STARTED},
        "errors": [400, 409, 413, 415, 503],
    },
    f"PUT {_EVENTS}/heartbeat": {
        "id": "sendHeartbeat",
        "summary": "A sign of life of a run that has no lines to append",
        "description": "Idempotent. It keeps the run from being silent, and from being swept.",
        "parameters": ["fqn", "runId"],
        "answers": {200: "Heartbeat"},
        "errors": [400, 503],
    },
    f"PUT {_EVENTS}/writers/{{writer}}": {
        "id": "openWriter",
        "summary": "Register a writer: the run is not complete before it is closed",
        "parameters": ["fqn", "runId", "pathWriter"],
        "answers": {200: "EventWriter"},
        "errors": [400, 503],
    },
    f"POST {_EVENTS}/writers/{{writer}}/close": {
        "id": "closeWriter",
        "summary": "A writer has ended",
        "description": "Twice is harmless; another count is a 409.",
        "parameters": ["fqn", "runId", "pathWriter"],
        "body": _body("WriterEnd", {"count": 2}),
        "answers": {200: "ClosedWriter"},
        "errors": [400, 409, 413, 415, 503],
    },
    f"POST {_EVENTS}/steps/{{step}}": {
        "id": "tellOfStep",
        "summary": "Tell of a step: its name, its parent, its times, its status",
        "parameters": ["fqn", "runId", "pathStep"],
        "body": _body("ToldStep", {"name": "Load orders", "status": "running"}),
        "answers": {200: "KnownStep"},
        "errors": [400, 413, 415, 503],
    },
    f"GET {_EVENTS}": {
        "id": "browseEvents",
        "summary": "The events of a run, those that are wanted",
        "description": "Plain lines of the log are events too. A page reads 16 MiB or 5 s at most, and then goes on with `after`.",
        "parameters": [
            "fqn", "runId", "eventStep", "eventLevel", "eventFrom", "eventTo", "eventText", "eventAfter", "eventLimit",
            "eventOutline",
        ],
        "answers": {200: "EventPage"},
        "errors": [400, 503],
    },
    f"GET {_EVENTS}/log": {
        "id": "readEventLog",
        "summary": "The overall log, or the log of a step, by position",
        "parameters": ["fqn", "runId", "eventStep", "logStart", "logMaxLines", "logRaw"],
        "answers": {200: _LOG},
        "errors": [400, 503],
    },
    f"GET {_EVENTS}/steps": {
        "id": "listSteps",
        "summary": "The steps of a run",
        "parameters": ["fqn", "runId", "listAfter", "listLimit"],
        "answers": {200: "StepList"},
        "errors": [400, 503],
    },
    "GET /v1/configuration": {
        "id": "getConfiguration",
        "summary": "How events are written and browsed here",
        "answers": {200: "Configuration"},
        "errors": [500],
    },
    f"GET {_EVENTS}/completeness": {
        "id": "getCompleteness",
        "summary": "Whether all events are there",
        "parameters": ["fqn", "runId", "completenessWait", "listAfter", "listLimit"],
        "answers": {200: "Completeness"},
        "errors": [400, 503],
    },
}  # fmt: skip
