"""Pipelines and their runs in the OpenAPI document: tables only; ``openapi`` documents their format."""

from __future__ import annotations

from typing import Any

from chalicelib.catalog.recent import OUTCOMES
from chalicelib.ports import LINES
from chalicelib.routes.openapi_logs import CLOCK, query_parameter

_BASE = "/v1/catalog/pipelines"
_RUN = f"{_BASE}/{{fqn}}/runs/{{runId}}"
_FACTS: dict[str, Any] = {
    "runId": "run-1",
    "status": "finalized",
    "end": "closed",
    "lines": 5,
    "bytes": 25,
    "startedMs": 1790000000000,
    "lastAppendMs": 1790000003000,
    "durationMs": 3000,
    "complete": True,
    "pendingBytes": 0,
    "outcome": "succeeded",
    "silentSinceMs": None,
    "exitCode": 0,
    "signal": None,
    "exception": None,
    "failedStep": None,
    "lostLines": 0,
    "attempt": 1,
    "firstRunId": "run-1",
    "host": "worker-3",
    "command": "./load.sh --all",
}
_COUNT = {"type": "integer", "minimum": 0}
_CURSOR = {"type": ["string", "null"], "description": "Where the next page begins; null at the end."}
_FIELDS: dict[str, dict[str, Any]] = {
    "runId": {"type": "string"},
    "status": {"enum": ["open", "sealed", "finalized"], "description": "Whether it takes lines, has ended, is one file."},
    "end": {"enum": ["closed", "abandoned", None], "description": "Who ended it: its connector, or the sweep; null: it goes on."},
    "lines": _COUNT,
    "bytes": _COUNT,
    "startedMs": {**_COUNT, "description": "When it began, or its first line came, in milliseconds since the epoch."},
    "lastAppendMs": {**_COUNT, "description": "When its last line came, or its end."},
    "durationMs": {**_COUNT, "description": "The time between the two."},
    "complete": {"type": "boolean", "description": "Sealed, and all of it is in one file: nothing changes any more."},
    "pendingBytes": {**_COUNT, "description": "What the next compaction has to do."},
    "outcome": {
        "enum": list(OUTCOMES),
        "description": "How it ended, as its client reports it with the close, or a step or its log states; silent: no line and no "
        "heartbeat came when one was due; lost: sealed by the sweep; unknown: nothing states it.",
    },
    "silentSinceMs": {
        "type": ["integer", "null"],
        "minimum": 0,
        "description": "The last sign of life of a silent run; else null.",
    },
    "exitCode": {"type": ["integer", "null"], "description": "Of the command."},
    "signal": {"type": ["string", "null"], "description": "The signal that killed the command."},
    "exception": {"type": ["string", "null"], "description": "The exception that ended the run, secrets masked."},
    "failedStep": {"type": ["string", "null"], "description": "The step in which it failed."},
    "lostLines": {**_COUNT, "description": "Lines that its client could not store."},
    "attempt": {"type": "integer", "minimum": 1, "description": "Which attempt of `firstRunId` it is."},
    "firstRunId": {"type": "string", "description": "The run id of attempt 1."},
    "host": {"type": ["string", "null"], "description": "Where it was started; null where its client does not report it."},
    "command": {"type": ["string", "null"], "description": "The command or function, secrets masked."},
}

SCHEMAS: dict[str, dict[str, Any]] = {
    "RunFacts": {
        "description": "What the catalog knows of a run.",
        "type": "object",
        "required": list(_FIELDS),
        "properties": _FIELDS,
        "examples": [_FACTS],
    },
    "Run": {
        "description": "What the catalog knows of a run; of one that is not catalogued yet, what its last segment tells.",
        "type": "object",
        "required": [*_FIELDS, "lost"],
        "properties": {
            **_FIELDS,
            "lost": {**_COUNT, "description": "Lines that are missing: their segments were deleted too early."},
        },
        "examples": [{**_FACTS, "lost": 0}],
    },
    "RecentRuns": {
        "description": "Runs of all pipelines that may be read. A page may be shorter than `limit`, or empty, and go on.",
        "type": "object",
        "required": ["runs", "cursor"],
        "properties": {
            "runs": {
                "type": "array",
                "maxItems": 100,
                "items": {
                    "type": "object",
                    "required": ["fqn", *_FIELDS],
                    "properties": {"fqn": {"type": "string", "description": "Its pipeline."}, **_FIELDS},
                },
            },
            "cursor": _CURSOR,
        },
        "examples": [{"runs": [{"fqn": "mysql.ingest", **_FACTS}], "cursor": None}],
    },
    "RunFactsList": {
        "description": "Runs of a pipeline, newest first.",
        "type": "object",
        "required": ["runs", "cursor"],
        "properties": {
            "runs": {"type": "array", "maxItems": 100, "items": {"$ref": "#/components/schemas/RunFacts"}},
            "cursor": _CURSOR,
        },
        "examples": [{"runs": [_FACTS], "cursor": None}],
    },
    "PipelineList": {
        "description": "Pipelines that may be read, each once over all pages. A page may be shorter than `limit`, or empty, and go on.",
        "type": "object",
        "required": ["pipelines", "cursor"],
        "properties": {
            "pipelines": {
                "type": "array",
                "maxItems": 100,
                "items": {
                    "type": "object",
                    "required": ["fqn", "last"],
                    "properties": {
                        "fqn": {"type": "string"},
                        "last": {
                            "anyOf": [{"$ref": "#/components/schemas/RunFacts"}, {"type": "null"}],
                            "description": "Its newest run; null where none is catalogued (yet).",
                        },
                    },
                },
            },
            "cursor": _CURSOR,
        },
        "examples": [{"pipelines": [{"fqn": "mysql.ingest", "last": _FACTS}], "cursor": None}],
    },
}

_MATCH = {
    "type": "object",
    "required": ["line", "text", "spans"],
    "properties": {
        "line": {**_COUNT, "description": "Its number, from 0."},
        "text": {"type": "string", "maxLength": 2000, "description": "The line; of a long one what is around the first place."},
        "spans": {
            "type": "array",
            "maxItems": 100,
            "items": {"type": "array", "items": _COUNT, "minItems": 2, "maxItems": 2},
            "description": "Where in `text` it is: first letter, and the one behind the last.",
        },
    },
}
SCHEMAS["Matches"] = {
    "description": "Lines that have it, as far as the request came.",
    "type": "object",
    "required": ["matches", "after", "scannedLines", "scannedBytes", "total"],
    "properties": {
        "matches": {"type": "array", "maxItems": 1000, "items": _MATCH},
        "after": {
            "type": ["string", "null"],
            "description": "The line with which the next request goes on; null at the log's end.",
        },
        "scannedLines": _COUNT,
        "scannedBytes": _COUNT,
        "total": {**_COUNT, "description": "Lines of the whole log."},
    },
    "examples": [
        {
            "matches": [{"line": 41, "text": "an error", "spans": [[3, 8]]}],
            "after": None,
            "scannedLines": 100,
            "scannedBytes": 4096,
            "total": 100,
        }
    ],
}

_BUCKET = {
    "type": "object",
    "required": ["fromMs", "toMs", "line", "lines", "errors"],
    "properties": {
        "fromMs": _COUNT,
        "toMs": {**_COUNT, "description": "The moment behind it."},
        "line": {**_COUNT, "description": "The first line that came in it, from 0; where none did, the one that came next."},
        "lines": _COUNT,
        "errors": {
            "type": ["integer", "null"],
            "minimum": 0,
            "description": "Records of level ERROR or CRITICAL, stack traces among them; null: not counted.",
        },
    },
}
_FEW = [
    {"fromMs": 1790000000000, "toMs": 1790000001501, "line": 0, "lines": 2, "errors": 0},
    {"fromMs": 1790000001501, "toMs": 1790000003001, "line": 2, "lines": 3, "errors": None},
]
SCHEMAS["Histogram"] = {
    "description": "A run's lines over time.",
    "type": "object",
    "required": ["fromMs", "toMs", "buckets", "partial", "clock"],
    "properties": {
        "fromMs": _COUNT,
        "toMs": _COUNT,
        "buckets": {"type": "array", "maxItems": 500, "items": _BUCKET},
        "partial": {"type": "boolean", "description": "Lines are missing, or were spread evenly between samples."},
        "clock": CLOCK,
    },
    "examples": [{"fromMs": 1790000000000, "toMs": 1790000003001, "buckets": _FEW, "partial": False, "clock": LINES}],
}

ERRORS: dict[int, tuple[int, str, str]] = {
    400: (400, "The request can never work: fix it.", "limit is a whole number from 1 to 100 limit='0'"),
    404: (404, "There is no such run.", "there is no such run run=mysql.ingest/run-9"),
    503: (503, "Trouble of ours: repeat it.", "the store is away"),
}

PARAMETERS: dict[str, dict[str, Any]] = {
    "pipelinePrefix": query_parameter("prefix", {"type": "string", "maxLength": 500}, "How the names begin."),
    "pipelineContains": query_parameter(
        "contains",
        {"type": "string", "maxLength": 500},
        "A part of the names, in upper or lower case. A page may be empty, and go on.",
    ),
    "outcome": {
        **query_parameter(
            "outcome",
            {"type": "array", "items": {"enum": list(OUTCOMES)}},
            "Only runs with one of these, separated by commas; all unless it is given.",
        ),
        "style": "form",
        "explode": False,
    },
    "fqnPattern": query_parameter(
        "fqn", {"type": "string", "maxLength": 500}, "Only runs of these pipelines; `*` stands for any letters, as in `shop.*`."
    ),
    "activeSince": query_parameter(
        "since", {"type": "string"}, "Only runs that were active then or later: milliseconds since the epoch, or ISO 8601."
    ),
    "pageLimit": query_parameter("limit", {"type": "integer", "minimum": 1, "maximum": 100, "default": 50}, "How many at most."),
    "wanted": {
        **query_parameter(
            "q", {"type": "string", "minLength": 1, "maxLength": 500}, "What is looked for: a text, without a newline."
        ),
        "required": True,
        "example": "error",
    },
    "isPattern": query_parameter(
        "regex", {"type": "boolean", "default": False}, "`q` is a pattern, of Python's `re`. It is run on each line by itself."
    ),
    "ignoreCase": query_parameter("ignoreCase", {"type": "boolean", "default": False}, "Upper and lower case are alike."),
    "fromLine": query_parameter(
        "after",
        {"type": "integer", "minimum": 0, "maximum": 10**15, "default": 0},
        "The line to begin with: `after` of the answer before.",
    ),
    "matchLimit": query_parameter("limit", {"type": "integer", "minimum": 1, "maximum": 1000, "default": 100}, "Lines at most."),
    "buckets": query_parameter(
        "buckets", {"type": "integer", "minimum": 1, "maximum": 500, "default": 60}, "Into how many spans of time, at most."
    ),
    "pageCursor": query_parameter("cursor", {"type": "string"}, "`cursor` of the answer before."),
}

OPERATIONS: dict[str, dict[str, Any]] = {
    "GET /v1/catalog": {
        "id": "listRecentRuns",
        "summary": "Runs of all pipelines by outcome, the last to be active first",
        "description": "Read from the catalog: what failed, with `outcome=failed,lost`. A run that is active meanwhile moves to the front: "
        "a list of running runs may leave it out, or have it once more on a later page.",
        "parameters": ["outcome", "fqnPattern", "activeSince", "pageLimit", "pageCursor"],
        "answers": {200: "RecentRuns"},
        "errors": [400, 503],
    },
    f"GET {_BASE}": {
        "id": "listPipelines",
        "summary": "Pipelines by name, each with its newest run",
        "description": "Names in the order of their keys: by letters, but `a.b` before `a`, and what is percent-encoded first.",
        "parameters": ["pipelinePrefix", "pipelineContains", "pageLimit", "pageCursor"],
        "answers": {200: "PipelineList"},
        "errors": [400, 503],
    },
    f"GET {_BASE}/{{fqn}}/runs": {
        "id": "listRunFacts",
        "summary": "The runs of a pipeline with facts, newest first",
        "description": "Read from the catalog: a run appears a moment after its first batch.",
        "parameters": ["fqn", "pageLimit", "pageCursor"],
        "answers": {200: "RunFactsList"},
        "errors": [400, 503],
    },
    f"GET {_RUN}": {
        "id": "getRun",
        "summary": "One run with facts",
        "parameters": ["fqn", "runId"],
        "answers": {200: "Run"},
        "errors": [400, 404, 503],
    },
    f"GET {_RUN}/grep": {
        "id": "grepRun",
        "summary": "Lines that have a text, or a pattern",
        "description": "Forward from a line, for 5 s and 128 MiB or so; `after` says where to go on. A run that is not known has no lines.",
        "parameters": ["fqn", "runId", "wanted", "isPattern", "ignoreCase", "fromLine", "matchLimit"],
        "answers": {200: "Matches"},
        "errors": [400, 503],
    },
    f"GET {_RUN}/histogram": {
        "id": "histogramOfRun",
        "summary": "When the lines of a run came, and how many told of errors",
        "description": "From the catalog: the log itself is not read. A run that is not known has no buckets.",
        "parameters": ["fqn", "runId", "buckets"],
        "answers": {200: "Histogram"},
        "errors": [400, 503],
    },
}
