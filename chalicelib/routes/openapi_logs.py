"""Run logs in the OpenAPI document: tables only; ``openapi`` documents their format."""

from __future__ import annotations

from typing import Any

from pydantic.json_schema import GenerateJsonSchema

from chalicelib.ports import ARRIVAL, LINES
from chalicelib.routes.bodies import LogBatch
from chalicelib.routes.close_requests import EndBody

_LOGS = "/v1/services/ingestionPipelines/logs"
_LINK = "https://runlake-logs.s3.amazonaws.com/pipeline-logs/mysql.ingest/run-1/logs.txt?X-Amz-Signature=0123"
_POSITION = "eyJzIjoiOWYzYyIsIm4iOjB9.aRzC4w.m1Xk2"
_LINES = "one\ntwo\n"
_END = {"outcome": "failed", "exitCode": 3}

CLOCK = {
    "enum": [LINES, ARRIVAL],
    "description": "Whose times are meant: those that the lines state themselves (UTC where they name no zone), or those of arrival.",
}


def _ref(name: str) -> dict[str, str]:
    return {"$ref": f"#/components/schemas/{name}"}


class Untitled(GenerateJsonSchema):
    """A model's schema without field titles, which would repeat the names."""

    def field_title_should_be_set(self, schema: object) -> bool:
        """See pydantic."""
        return False


SCHEMAS: dict[str, dict[str, Any]] = {
    "LogBatch": LogBatch.model_json_schema(schema_generator=Untitled),
    "Appended": {
        "description": "The batch is on S3. Where nothing was stored there is a position only.",
        "type": "object",
        "required": ["position"],
        "properties": {
            "position": {"type": "string", "description": "Where the writer stands: what the cookie carries."},
            "sequence": {"type": "integer", "minimum": 0, "description": "The number of the segment."},
            "line": {"type": "integer", "minimum": 0, "description": "The number of its first line in the whole log, from 0."},
            "lines": {"type": "integer", "minimum": 1, "description": "How many lines it has."},
            "repeated": {"type": "boolean", "description": "Whether it had been stored before."},
        },
        "examples": [
            {"position": _POSITION, "sequence": 0, "line": 0, "lines": 2, "repeated": False},
            {"position": _POSITION},
        ],
    },
    "RunEnd": EndBody.model_json_schema(schema_generator=Untitled) | {"examples": [_END]},
    "Closed": {
        "description": "The run has ended: no line can follow.",
        "type": "object",
        "required": ["message"],
        "properties": {"message": {"const": "Log stream closed successfully"}},
        "examples": [{"message": "Log stream closed successfully"}],
    },
    "LogPage": {
        "description": "A page of lines. A run that is not known is an empty page.",
        "type": "object",
        "required": ["logs", "after", "total", "streaming"],
        "properties": {
            "logs": {"type": "string", "description": "Lines joined by newlines, none at the end."},
            "after": {"type": ["string", "null"], "description": "Where the next page begins; null when there is no more now."},
            "total": {"type": "integer", "minimum": 0, "description": "Lines of the whole log."},
            "streaming": {"type": "boolean", "description": "Whether more may come."},
            "clock": CLOCK,
        },
        "examples": [
            {"logs": "one\ntwo", "after": "2", "total": 5, "streaming": False},
            {"logs": "", "after": None, "total": 0, "streaming": False},
            {"logs": "one", "after": "1", "total": 5, "streaming": False, "clock": LINES},
        ],
    },
    "RunList": {
        "description": "Runs of a pipeline, newest first by the time of their first line.",
        "type": "object",
        "required": ["runs", "cursor"],
        "properties": {
            "runs": {"type": "array", "items": {"type": "string"}, "description": "Ids of runs."},
            "cursor": {"type": ["string", "null"], "description": "Where the next page begins; null at the end."},
        },
        "examples": [{"runs": ["run-2", "run-1"], "cursor": None}],
    },
    "Link": {
        "description": "Where the file is; the same as the header `Location`. Null: the log is small, and answered without `link`.",
        "type": "object",
        "required": ["location"],
        "properties": {"location": {"type": ["string", "null"], "format": "uri"}},
        "examples": [{"location": _LINK}],
    },
    "LogError": {
        "description": "Why a request was refused. `message` is lowercase and ends in `key=value` where a value matters.",
        "type": "object",
        "required": ["code", "message"],
        "properties": {"code": {"type": "integer", "description": "The status."}, "message": {"type": "string"}},
        "examples": [{"code": 400, "message": "a run id has no slash run_id='a/b'"}],
    },
}

ERRORS: dict[int, tuple[int, str, str]] = {
    400: (400, "The request can never work: fix it.", "a run id has no slash run_id='a/b'"),
    404: (404, "There is nothing to download.", "there is no such run run=mysql.ingest/run-9"),
    409: (409, "The run was closed; nothing was stored.", "the run is closed: its log takes no more lines sequence=4"),
    413: (413, "The body is too large, or expands too far.", "gzip body expands too far limit=67108864"),
    415: (
        415,
        "The body is of a type that is no log, or packed in a way that is not gzip.",
        "a log is application/json, text/plain or application/gzip content_type='image/png'",
    ),
    500: (500, "A setting that cannot work, or something nobody expected; the function's log tells.", "internal server error"),
    503: (503, "Trouble of ours: repeat it, with the same cookie or key.", "the store is away"),
}


def query_parameter(name: str, schema: dict[str, Any], description: str) -> dict[str, Any]:
    """A parameter of the query."""
    return {"name": name, "in": "query", "description": description, "schema": schema}


PARAMETERS: dict[str, dict[str, Any]] = {
    "fqn": {
        "name": "fqn",
        "in": "path",
        "required": True,
        "description": "Fully qualified name of a pipeline. Its slashes go as `%2F`; raw ones are read too, except in a list of runs.",
        "schema": {"type": "string", "minLength": 1},
        "example": "mysql.ingest",
    },
    "runId": {
        "name": "runId",
        "in": "path",
        "required": True,
        "description": "Id of a run: no slash, and none of the words `last`, `close`, `download`.",
        "schema": {"type": "string", "pattern": "^[^/]+$", "not": {"enum": ["last", "close", "download"]}},
        "example": "run-1",
    },
    "session": {
        "name": "PIPELINE_SESSION",
        "in": "cookie",
        "description": "The position of the answer before. A batch that is sent again with the same position is stored once.",
        "schema": {"type": "string"},
    },
    "idempotencyKey": {
        "name": "Idempotency-Key",
        "in": "header",
        "description": "For clients without cookies. The same key and lines are stored once; the same key with other lines is a 400.",
        "schema": {"type": "string", "minLength": 1, "maxLength": 255, "pattern": "^[ -~]+$"},
    },
    "after": query_parameter(
        "after", {"type": "integer", "minimum": 0, "default": 0}, "Number of the first line, as the page before told it."
    ),
    "offset": query_parameter("offset", {"type": "integer", "minimum": 0}, "The same as `after`, which goes first."),
    "lineLimit": query_parameter("limit", {"type": "integer", "minimum": 1, "maximum": 10_000, "default": 1000}, "Lines at most."),
    "tail": query_parameter(
        "tail", {"type": "integer", "minimum": 0, "maximum": 10_000}, "Instead: begin so many lines before the end."
    ),
    "since": query_parameter(
        "since",
        {"type": "string"},
        "Instead: begin with the first line of this time or later, by its own time or that of its arrival: the earlier line of the two. "
        "Milliseconds since the epoch, or ISO 8601.",
    ),
    "clock": query_parameter(
        "clock",
        {"type": "string", "enum": ["lines", "arrival"]},
        "With `since`: by these times alone, the lines' own where they are known.",
    ),
    "wait": query_parameter(
        "wait",
        {"type": "number", "minimum": 0, "maximum": 20, "default": 0},
        "Seconds to hold the answer while there is nothing new and the run is open.",
    ),
    "lastEventId": {
        "name": "Last-Event-ID",
        "in": "header",
        "description": "The `id` of the last frame, as an `EventSource` sends it. It goes before `after` and `tail`.",
        "schema": {"type": "string", "pattern": "^[0-9]+$"},
        "example": "42",
    },
    "until": query_parameter(
        "until",
        {"type": "string"},
        "When the viewer has seen enough: milliseconds since the epoch, or ISO 8601. Then it is told `complete`, `maxDuration`.",
    ),
    "hold": query_parameter(
        "wait",
        {"type": "number", "minimum": 0, "maximum": 25, "default": 25},
        "Seconds to hold an answer while there is nothing new.",
    ),
    "isLink": query_parameter(
        "link",
        {"type": "boolean", "default": False},
        "Answer where a large log is, in place of leading there: for pages that show a token.",
    ),
    "runLimit": query_parameter("limit", {"type": "integer", "minimum": 1, "maximum": 1000, "default": 10}, "Runs at most."),
    "runCursor": query_parameter("cursor", {"type": "string"}, "`cursor` of the answer before."),
}

_PAGE_OF = ["after", "offset", "lineLimit", "tail", "since", "clock", "wait"]
_FORGIVING = "A parameter that cannot be read counts as not given: never an error. To follow a log, ask with `after` and `wait=20`."

_BATCH = {
    "description": "The lines. Lines end at `\\n` and nowhere else. `Content-Encoding: gzip` goes with every type.",
    "content": {
        "application/json": {
            "schema": {"anyOf": [_ref("LogBatch"), {"type": "string"}, {"type": "null"}]},
            "examples": {
                "batch": {"summary": "OpenMetadata's batch", "value": {"connectorId": "host-17", "logs": _LINES}},
                "string": {"summary": "The lines as they are", "value": _LINES},
                "init": {"summary": "Init or keep-alive: nothing is stored", "value": {"connectorId": "host-17"}},
            },
        },
        "text/plain": {"schema": {"type": "string"}, "example": _LINES},
        "application/x-ndjson": {"schema": {"type": "string"}, "example": '{"level":"info"}\n{"level":"error"}\n'},
        "application/octet-stream": {},
        "application/gzip": {},
        "application/x-gzip": {},
    },
}

_STORED = {
    "description": "The batch is on S3.",
    "headers": {
        "Set-Cookie": {
            "description": "The position, for the next batch.",
            "schema": {"type": "string"},
            "example": f"PIPELINE_SESSION={_POSITION}; Path=/; Max-Age=86400; HttpOnly; SameSite=Lax; Secure",
        },
    },
    "content": {"application/json": {"schema": _ref("Appended"), "example": SCHEMAS["Appended"]["examples"][0]}},
}
_WHOLE = {
    "description": "The whole log: it is small, and UTF-8. With `link`: where it is.",
    "headers": {
        "Content-Disposition": {"schema": {"type": "string"}, "example": 'attachment; filename="mysql.ingest-run-1.log"'},
    },
    "content": {
        "text/plain": {"schema": {"type": "string"}, "example": _LINES},
        "application/json": {"schema": _ref("Link"), "example": {"location": _LINK}},
    },
}
_ELSEWHERE = {
    "description": "The log is large, or no UTF-8: a link to S3 that holds for 15 minutes.",
    "headers": {"Location": {"description": "The link.", "schema": {"type": "string", "format": "uri"}, "example": _LINK}},
    "content": {"application/json": {"schema": _ref("Link"), "example": {"location": _LINK}}},
}

_FRAMES = {
    "description": "A part of the stream: frames, each with the `id` from which the next part goes on.",
    "headers": {"Cache-Control": {"schema": {"const": "no-store"}}},
    "content": {
        "text/event-stream": {
            "schema": {"description": "Frames, which some take for a text and some for objects."},
            "examples": {
                "lines": {
                    "summary": "Lines, and the end of the run",
                    "value": (
                        'retry: 250\n\nid: 2\ndata: {"eventType":"logs","runId":"run-1","logs":"one\\ntwo\\n","after":"2",'
                        '"replay":false,"truncated":false}\n\n'
                        'id: 2\ndata: {"eventType":"complete","runId":"run-1","after":"2","reason":"runFinished"}\n\n'
                    ),
                },
                "quiet": {"summary": "Nothing came", "value": "retry: 250\n\nid: 2\n: heartbeat\n\n"},
                "trouble": {
                    "summary": "Trouble of ours: come back",
                    "value": 'retry: 1000\n\ndata: {"eventType":"error","runId":"run-1","message":"the store is away"}\n\n',
                },
            },
        }
    },
}

OPERATIONS: dict[str, dict[str, Any]] = {
    f"POST {_LOGS}/{{fqn}}/{{runId}}": {
        "id": "appendLog",
        "summary": "Append a batch of lines",
        "description": "200 means that it is on S3. After a 503, or no answer, repeat it with the same cookie or key: it is stored once.",
        "parameters": ["fqn", "runId", "session", "idempotencyKey"],
        "body": _BATCH,
        "answers": {200: _STORED},
        "errors": [400, 409, 413, 415, 503],
    },
    f"POST {_LOGS}/{{fqn}}/{{runId}}/close": {
        "id": "closeRun",
        "summary": "End a run for good",
        "description": "A body reports how the run ended; one without `outcome` is ignored, and a failed step or the end of the log may state it. "
        "Twice is harmless: the first outcome holds. "
        "Once it is answered no line can follow.",
        "parameters": ["fqn", "runId", "session"],
        "body": {
            "required": False,
            "content": {"application/json": {"schema": {"$ref": "#/components/schemas/RunEnd"}, "example": _END}},
        },
        "answers": {200: "Closed"},
        "errors": [400, 503],
    },
    f"GET {_LOGS}/{{fqn}}/{{runId}}": {
        "id": "readLog",
        "summary": "A page of lines",
        "description": _FORGIVING,
        "parameters": ["fqn", "runId", *_PAGE_OF],
        "answers": {200: "LogPage"},
        "errors": [400, 503],
    },
    f"GET {_LOGS}/{{fqn}}/stream/{{runId}}": {
        "id": "streamLog",
        "summary": "Follow a run, as an EventSource does",
        "description": "Server-sent events. An answer is held until there are lines; one without `complete` means: ask again from the last `id`.",
        "parameters": ["fqn", "runId", "lastEventId", "after", "tail", "until", "hold"],
        "answers": {200: _FRAMES},
        "errors": [400, 404],
    },
    f"GET {_LOGS}/{{fqn}}/{{runId}}/download": {
        "id": "downloadLog",
        "summary": "The whole log as a file",
        "parameters": ["fqn", "runId", "isLink"],
        "answers": {200: _WHOLE, 307: _ELSEWHERE},
        "errors": [400, 404, 503],
    },
    f"GET {_LOGS}/{{fqn}}": {
        "id": "listRuns",
        "summary": "The runs of a pipeline, newest first",
        "description": "Read from the catalog: a run appears a moment after its first batch.",
        "parameters": ["fqn", "runLimit", "runCursor"],
        "answers": {200: "RunList"},
        "errors": [400, 503],
    },
    f"GET {_LOGS}/{{fqn}}/last": {
        "id": "readLastLog",
        "summary": "A page of lines of the newest run",
        "description": _FORGIVING,
        "parameters": ["fqn", *_PAGE_OF],
        "answers": {200: "LogPage"},
        "errors": [400, 503],
    },
    f"GET {_LOGS}/{{fqn}}/last/download": {
        "id": "downloadLastLog",
        "summary": "The whole log of the newest run as a file",
        "parameters": ["fqn", "isLink"],
        "answers": {200: _WHOLE, 307: _ELSEWHERE},
        "errors": [400, 404, 503],
    },
}
