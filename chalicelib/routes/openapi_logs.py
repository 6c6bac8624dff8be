"""Run logs in the OpenAPI document: texts and examples; schemas are generated from the models. ``openapi`` documents the format."""

from __future__ import annotations

from typing import Any

from chalicelib.errors import RunDeletedError
from chalicelib.ports import ARRIVAL, LINES
from chalicelib.routes.bodies import LogBatch
from chalicelib.routes.close_requests import EndBody
from chalicelib.routes.logs_models import ClosedRun, LogError, LogLink, LogPage, RunIdPage, StoredBatch, TaskPage
from chalicelib.routes.queries import DEFAULT_RUNS, MAX_RUNS
from chalicelib.routes.schemas import component_schemas, reference
from chalicelib.runlog.following import HOLD_S
from chalicelib.runlog.layout import RESERVED_RUN_IDS
from chalicelib.runlog.reader import DEFAULT_LIMIT, MAX_LIMIT, MAX_WAIT_S
from chalicelib.runlog.writer import MAX_IDEMPOTENCY_KEY_CHARS
from chalicelib.runlog.zone import MAX_ZONE_CHARS

_LINK = "https://runlake-logs.s3.amazonaws.com/pipeline-logs/mysql.ingest/run-1/logs.txt?X-Amz-Signature=0123"
_POSITION = "eyJzIjoiOWYzYyIsIm4iOjB9.aRzC4w.m1Xk2"
_LINES = "one\ntwo\n"
_END = {"outcome": "failed", "exitCode": 3}
_UNAVAILABLE = "get failed code=SlowDown what=pipeline-logs/mysql.ingest/run-1/logs.txt"


SCHEMAS: dict[str, dict[str, Any]] = {
    **component_schemas(
        {"LogBatch": LogBatch, "RunEnd": EndBody},
        {
            "LogBatch": [
                {"connectorId": "host-17", "logs": _LINES},
                {"logs": "H4sIAAAAAAACA8vPS+UqKc/nAgDmC7oSCAAAAA==", "compressed": True},
            ],
            "RunEnd": [_END],
        },
        "validation",
    ),
    **component_schemas(
        {
            "Appended": StoredBatch,
            "Closed": ClosedRun,
            "LogPage": LogPage,
            "TaskPage": TaskPage,
            "RunList": RunIdPage,
            "Link": LogLink,
            "LogError": LogError,
        },
        {
            "Appended": [
                {"position": _POSITION, "sequence": 0, "line": 0, "lines": 2, "repeated": False},
                {"position": _POSITION},
            ],
            "Closed": [{"message": "Log stream closed successfully"}],
            "LogPage": [
                {"logs": "one\ntwo", "after": "2", "total": 5, "streaming": False},
                {"logs": "", "after": None, "total": 0, "streaming": False},
                {"logs": "one", "after": "1", "total": 5, "streaming": False, "clock": LINES},
            ],
            "TaskPage": [{"ingestion_task": "one\ntwo", "logs": "one\ntwo", "after": "2", "total": "2"}],
            "RunList": [{"runs": ["run-2", "run-1"], "cursor": None}],
            "Link": [{"location": _LINK}],
            "LogError": [{"code": 400, "message": "a run id must not contain a slash"}],
        },
    ),
}

ERRORS: dict[int | str, tuple[int, str, str]] = {
    400: (400, "The request is invalid.", "a run id must not contain a slash"),
    404: (404, "No such run, or no such path.", "there is no such run run=mysql.ingest/run-9"),
    409: (
        409,
        "The run is closed, or has another zone; nothing was stored.",
        "the run is closed: its log takes no more lines sequence=4",
    ),
    413: (413, "The body is too large, or decompresses to too many bytes.", "gzip body expands too far limit=67108864"),
    415: (
        415,
        "Unsupported content type, content encoding or charset, or text that is not UTF-8.",
        "unsupported content type: send application/json, text/plain or application/gzip content_type='image/png'",
    ),
    500: (500, "Invalid configuration or an unexpected error; see the function's log.", "internal server error"),
    RunDeletedError.code: (410, "The run was deleted.", "the run was deleted run=mysql.ingest/run-9"),
    503: (503, "Temporarily unavailable: repeat the request with the same cookie or key.", _UNAVAILABLE),
}


def query_parameter(name: str, schema: dict[str, Any], description: str, **more: Any) -> dict[str, Any]:
    """A parameter of the query. ``more``: other members, such as ``required``."""
    return {"name": name, "in": "query", "description": description, "schema": schema, **more}


def moment(most_ms: int) -> dict[str, Any]:
    """The schema of a time in a query: ms since the epoch, or ISO 8601."""
    return {"anyOf": [{"type": "integer", "minimum": 0, "maximum": most_ms}, {"type": "string", "format": "date-time"}]}


PARAMETERS: dict[str, dict[str, Any]] = {
    "fqn": {
        "name": "fqn",
        "in": "path",
        "required": True,
        "description": "Fully qualified name of a pipeline. Encode slashes as `%2F`; all operations except the list of runs accept "
        "them unencoded too.",
        "schema": {"type": "string", "minLength": 1},
        "example": "mysql.ingest",
    },
    "runId": {
        "name": "runId",
        "in": "path",
        "required": True,
        "description": "Id of a run, without slashes. `last`, `close` and `download` are reserved.",
        "schema": {"type": "string", "pattern": "^[^/]+$", "not": {"enum": sorted(RESERVED_RUN_IDS)}},
        "example": "run-1",
    },
    "session": {
        "name": "PIPELINE_SESSION",
        "in": "cookie",
        "description": "The position in the previous response. A batch that is repeated with its position is stored once.",
        "schema": {"type": "string"},
    },
    "idempotencyKey": {
        "name": "Idempotency-Key",
        "in": "header",
        "description": "For clients without cookies. A batch that is repeated with its key is stored once. The same key with other "
        "lines is a 400.",
        "schema": {"type": "string", "minLength": 1, "maxLength": MAX_IDEMPOTENCY_KEY_CHARS, "pattern": "^[ -~]+$"},
    },
    "zone": {
        "name": "X-Runlake-Zone",
        "in": "header",
        "description": "Zone of times without one in the lines of the run: a name of IANA, or an offset such as `+01:00`. The first "
        "batch of a run settles it; later ones may omit it. Without one times are in UTC.",
        "schema": {"type": "string", "minLength": 1, "maxLength": MAX_ZONE_CHARS},
        "example": "Europe/Berlin",
    },
    "after": query_parameter(
        "after", {"type": "integer", "minimum": 0}, "Number of the first line: `after` of the previous page. Default: 0."
    ),
    "offset": query_parameter("offset", {"type": "integer", "minimum": 0}, "Alias of `after`, which takes precedence."),
    "lineLimit": query_parameter(
        "limit",
        {"type": "integer", "minimum": 1, "maximum": MAX_LIMIT},
        f"Maximum number of lines. Default: `tail`, or {DEFAULT_LIMIT}.",
    ),
    "tail": query_parameter(
        "tail",
        {"type": "integer", "minimum": 0, "maximum": MAX_LIMIT},
        "Start this number of lines before the end, instead of at `after`.",
    ),
    "since": query_parameter(
        "since",
        {"type": "string"},
        "Start at the first line of this time or later: milliseconds since the epoch, or ISO 8601 (UTC without a zone). Without "
        "`clock`, both kinds of times are compared, and the earlier line counts. Lines that are not catalogued yet count as later.",
    ),
    "clock": query_parameter(
        "clock",
        {"type": "string", "enum": [LINES, ARRIVAL]},
        "Times that `since` is compared with. `lines`: timestamps in the lines, or time of storage if they have none; `arrival`: "
        "time of storage.",
    ),
    "wait": query_parameter(
        "wait",
        {"type": "number", "minimum": 0, "maximum": int(MAX_WAIT_S), "default": 0},
        "Seconds to wait for new lines while the run is running (long polling).",
    ),
    "lastEventId": {
        "name": "Last-Event-ID",
        "in": "header",
        "description": "The `id` of the last frame, as an `EventSource` sends it. Takes precedence over `after` and `tail`.",
        "schema": {"type": "string", "pattern": "^[0-9]+$"},
        "example": "42",
    },
    "until": query_parameter(
        "until",
        {"type": "string"},
        "End of the stream: milliseconds since the epoch, or ISO 8601, such as `20300101`.",
    ),
    "hold": query_parameter(
        "wait",
        {"type": "number", "minimum": 0, "maximum": int(HOLD_S), "default": int(HOLD_S)},
        "Seconds that a response waits for new lines.",
    ),
    "isLink": query_parameter(
        "link",
        {"type": "boolean", "default": False},
        "Return the link to a large log instead of a redirect, for web pages that authenticate with a token.",
    ),
    "runLimit": query_parameter(
        "limit", {"type": "integer", "minimum": 1, "maximum": MAX_RUNS, "default": DEFAULT_RUNS}, "Maximum number of runs."
    ),
    "runCursor": query_parameter("cursor", {"type": "string"}, "`cursor` of the previous response."),
}

_PAGE_OF = ["after", "offset", "lineLimit", "tail", "since", "clock", "wait"]
_FORGIVING = (
    "Invalid query parameters are ignored. To follow a log, repeat the request with `wait=20` and `after` set to the number of "
    "lines received. A page has fewer lines than `limit` if they do not fit a response. A line longer than a page is truncated in the "
    "page, not in the download. Bytes that are not UTF-8 are shown as U+FFFD."
)

_BATCH = {
    "description": "The lines, by default as JSON; `\\n` is the only line separator. All types allow `Content-Encoding: gzip`.",
    "content": {
        "application/json": {
            "schema": {"anyOf": [reference("LogBatch"), {"type": "string"}, {"type": "null"}]},
            "examples": {
                "batch": {"summary": "OpenMetadata's batch", "value": {"connectorId": "host-17", "logs": _LINES}},
                "string": {"summary": "Lines as text", "value": _LINES},
                "init": {"summary": "Init or keep-alive: nothing is stored", "value": {"connectorId": "host-17"}},
            },
        },
        "text/plain": {"schema": {"type": "string"}, "example": _LINES},
        "application/x-ndjson": {"schema": {"type": "string"}, "example": '{"level":"info"}\n{"level":"error"}\n'},
        "application/octet-stream": {"schema": {"type": "string", "format": "binary"}},
        "application/gzip": {},
        "application/x-gzip": {},
    },
}

_NEWEST = {
    "description": "The page.",
    "content": {
        "application/json": {
            "schema": {"anyOf": [reference("LogPage"), reference("TaskPage")]},
            "examples": {
                "byFqn": {"value": SCHEMAS["LogPage"]["examples"][0]},
                "byId": {"value": SCHEMAS["TaskPage"]["examples"][0]},
            },
        },
    },
}
_STORED = {
    "description": "The batch is stored.",
    "headers": {
        "Set-Cookie": {
            "description": "The position, for the next batch.",
            "schema": {"type": "string"},
            "example": f"PIPELINE_SESSION={_POSITION}; Path=/; Max-Age=86400; HttpOnly; SameSite=Lax; Secure",
        },
    },
    "content": {"application/json": {"schema": reference("Appended"), "example": SCHEMAS["Appended"]["examples"][0]}},
}
_WHOLE = {
    "description": "The whole log, if it is small and valid UTF-8. With `link`: the link to a large log, or null.",
    "headers": {
        "Content-Disposition": {"schema": {"type": "string"}, "example": 'attachment; filename="mysql.ingest-run-1.log"'},
    },
    "content": {
        "text/plain": {"schema": {"type": "string"}, "example": _LINES},
        "application/json": {"schema": reference("Link"), "example": {"location": _LINK}},
    },
}
_ELSEWHERE = {
    "description": "The log is large or not valid UTF-8: a redirect to S3. The link is valid for 15 minutes.",
    "headers": {"Location": {"description": "The link.", "schema": {"type": "string", "format": "uri"}, "example": _LINK}},
    "content": {"application/json": {"schema": reference("Link"), "example": {"location": _LINK}}},
}

_FRAMES = {
    "description": "A part of the stream: frames, each with the `id` from which the next part continues.",
    "headers": {"Cache-Control": {"schema": {"const": "no-store"}}},
    "content": {
        "text/event-stream": {
            "schema": {"description": "Frames. The schema has no type, because tools represent frames as text or as objects."},
            "examples": {
                "lines": {
                    "summary": "Lines, and the end of the run",
                    "value": (
                        'retry: 250\n\nid: 2\ndata: {"eventType":"logs","runId":"run-1","logs":"one\\ntwo\\n","after":"2",'
                        '"replay":false,"cut":false}\n\n'
                        'id: 2\ndata: {"eventType":"complete","runId":"run-1","after":"2","reason":"runFinished"}\n\n'
                    ),
                },
                "quiet": {
                    "summary": "No new lines",
                    "value": 'retry: 250\n\nid: 2\ndata: {"eventType":"complete","runId":"run-1","after":"2","reason":"maxDuration"}\n\n',
                },
                "unavailable": {
                    "summary": "Temporarily unavailable: reconnect",
                    "value": 'retry: 1000\n\ndata: {"eventType":"interrupted","runId":"run-1","message":"'
                    + _UNAVAILABLE
                    + '"}\n\n',
                },
            },
        }
    },
}

OPERATIONS: dict[str, dict[str, Any]] = {
    "appendLog": {
        "summary": "Append a batch of lines",
        "description": "200 means that the batch is stored. After a 503, or without a response, repeat the request with the same "
        "cookie or key; without either, a repeat is a new batch. A position that is invalid or of another run is ignored. Bytes are "
        "stored unchanged, with a missing newline at the end; in JSON, which is UTF-8, other bytes and lone surrogates become U+FFFD. API Gateway "
        "decodes `text/plain`, so text that is not UTF-8, or has U+FFFD, is refused (415): send it as `application/octet-stream`. A declared "
        "charset `iso-8859-N`, `windows-125N` or `utf-16` is converted to UTF-8, another one refused. An append to an abandoned "
        "run makes it running again; 409: the run is closed, or began with another zone, or without one.",
        "parameters": ["fqn", "runId", "session", "idempotencyKey", "zone"],
        "body": _BATCH,
        "responses": {200: _STORED},
    },
    "closeRun": {
        "summary": "Close a run",
        "description": "The body reports how the run ended. A body without `outcome` is ignored; the outcome may then follow from "
        "a failed step or the end of the log. `exception` and `step`, the cause of a failure, are masked like lines; `lostLines` counts "
        "lines that the client could not store. `ageMs` is the time since the run ended, for a close that comes late; an age, so that a wrong "
        "clock does no harm. Idempotent: the first outcome is kept. After the response no line can be appended. A run "
        "without lines can be closed.",
        "parameters": ["fqn", "runId", "session"],
        "body": {
            "required": False,
            "content": {"application/json": {"schema": reference("RunEnd"), "example": _END}},
        },
        "responses": {200: "Closed"},
    },
    "readLog": {
        "summary": "Read a page of lines",
        "description": _FORGIVING,
        "parameters": ["fqn", "runId", *_PAGE_OF],
        "responses": {200: "LogPage"},
    },
    "streamLog": {
        "summary": "Follow a run with an EventSource",
        "description": "A response waits until there are lines, also for a run that does not exist yet, and ends with `complete`. Its "
        "`reason` is `maxDuration` or `idleTimeout` (no line came for long) if the stream continues: repeat the request from `after`, or, as an "
        "`EventSource` does, from the last `id` after `retry` ms. Every line arrives once, in order. Other reasons are final: `runFinished`; "
        "`untilReached`; `maxBytes`, by a setting and only for requests without `tail` or `Last-Event-ID`. A response without `complete`, with "
        "`interrupted`, is a temporary failure, which clients would take for permanent if it were a 503; `error` is permanent: the log is "
        "damaged, or the run has expired. Frames `logs` have "
        "complete lines; `replay`: they were stored before the request; `cut`: the only line does not fit a response. `after` takes precedence "
        "over `tail`, which may stay in the address.",
        "parameters": ["fqn", "runId", "lastEventId", "after", "tail", "until", "hold"],
        "responses": {200: _FRAMES},
    },
    "downloadLog": {
        "summary": "Download the log of a run",
        "description": "The link to a large running log ends with the bytes stored when it was made, or slightly before.",
        "parameters": ["fqn", "runId", "isLink"],
        "responses": {200: _WHOLE, 307: _ELSEWHERE},
    },
    "listRuns": {
        "summary": "List the runs of a pipeline, newest first",
        "description": "Read from the catalog: a run is listed shortly after its first batch.",
        "parameters": ["fqn", "runLimit", "runCursor"],
        "responses": {200: "RunList"},
    },
    "readLastLog": {
        "summary": "Read a page of lines of the newest run; without a run, an empty page",
        "description": f"{_FORGIVING} In place of the FQN: the id of a pipeline that the setting `pipeline_ids` lists; the response is "
        "then the one that OpenMetadata's older pages read.",
        "parameters": ["fqn", *_PAGE_OF],
        "responses": {200: _NEWEST},
    },
    "downloadLastLog": {
        "summary": "Download the log of the newest run",
        "parameters": ["fqn", "isLink"],
        "responses": {200: _WHOLE, 307: _ELSEWHERE},
    },
}
