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
_CURSOR = {"type": ["string", "null"], "description": "Cursor of the next page; null on the last page."}
_FIELDS: dict[str, dict[str, Any]] = {
    "runId": {"type": "string"},
    "status": {
        "enum": ["open", "sealed", "finalized"],
        "description": "open: accepts lines. sealed: ended. finalized: ended, and `logs.txt` contains the whole log.",
    },
    "end": {
        "enum": ["closed", "abandoned", None],
        "description": "closed: ended by its client; abandoned: ended by the sweep; null: running.",
    },
    "lines": _COUNT,
    "bytes": _COUNT,
    "startedMs": {**_COUNT, "description": "Time of its start, or else of its first line, in milliseconds since the epoch."},
    "lastAppendMs": {**_COUNT, "description": "Time of its last line or its end; if the sweep ended it, of its last sign of life."},
    "durationMs": {**_COUNT, "description": "Time from `startedMs` to `lastAppendMs`."},
    "complete": {"type": "boolean", "description": "Whether it is finalized: nothing changes anymore."},
    "pendingBytes": {**_COUNT, "description": "Bytes that are not compacted yet."},
    "outcome": {
        "enum": list(OUTCOMES),
        "description": "succeeded, failed, cancelled: as reported by its client with the close, or by a step or the log. silent: "
        "running, and overdue for a line or a heartbeat. lost: ended by the sweep. unknown: ended without a reported outcome.",
    },
    "silentSinceMs": {
        "type": ["integer", "null"],
        "minimum": 0,
        "description": "Time of the last sign of life of a silent run; otherwise null.",
    },
    "exitCode": {"type": ["integer", "null"], "description": "Exit code of the command."},
    "signal": {"type": ["string", "null"], "description": "Signal that killed the command."},
    "exception": {"type": ["string", "null"], "description": "Exception that ended the run, with secrets masked."},
    "failedStep": {"type": ["string", "null"], "description": "Step in which the run failed."},
    "lostLines": {**_COUNT, "description": "Number of lines that its client could not store."},
    "attempt": {"type": "integer", "minimum": 1, "description": "Number of the attempt of `firstRunId`."},
    "firstRunId": {"type": "string", "description": "Run id of attempt 1."},
    "host": {"type": ["string", "null"], "description": "Host on which it was started; null if its client does not report it."},
    "command": {"type": ["string", "null"], "description": "Command or function, with secrets masked."},
}

SCHEMAS: dict[str, dict[str, Any]] = {
    "RunFacts": {
        "description": "A run's catalog row.",
        "type": "object",
        "required": list(_FIELDS),
        "properties": _FIELDS,
        "examples": [_FACTS],
    },
    "Run": {
        "description": "A run's catalog row; of a run that is not catalogued yet, the data of its start and its last segment.",
        "type": "object",
        "required": [*_FIELDS, "lost"],
        "properties": {
            **_FIELDS,
            "lost": {**_COUNT, "description": "Number of missing lines, whose segments were deleted too early."},
        },
        "examples": [{**_FACTS, "lost": 0}],
    },
    "RecentRuns": {
        "description": "Runs of all pipelines that the principal may read. A page may have fewer than `limit` entries, or none, "
        "and still have a cursor.",
        "type": "object",
        "required": ["runs", "cursor"],
        "properties": {
            "runs": {
                "type": "array",
                "maxItems": 100,
                "items": {
                    "type": "object",
                    "required": ["fqn", *_FIELDS],
                    "properties": {"fqn": {"type": "string", "description": "FQN of the pipeline."}, **_FIELDS},
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
        "description": "Pipelines that the principal may read, without duplicates across pages. A page may have fewer than `limit` "
        "entries, or none, and still have a cursor.",
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
                            "description": "Its newest run; null if none is catalogued yet.",
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
        "line": {**_COUNT, "description": "Line number, from 0."},
        "text": {"type": "string", "maxLength": 2000, "description": "The line; of a long line, the part around the first match."},
        "spans": {
            "type": "array",
            "maxItems": 100,
            "items": {"type": "array", "items": _COUNT, "minItems": 2, "maxItems": 2},
            "description": "Ranges of the matches in `text`: index of the first character, and of the one after the last.",
        },
    },
}
SCHEMAS["Matches"] = {
    "description": "Matching lines among those that the request searched.",
    "type": "object",
    "required": ["matches", "after", "scannedLines", "scannedBytes", "total"],
    "properties": {
        "matches": {"type": "array", "maxItems": 1000, "items": _MATCH},
        "after": {
            "type": ["string", "null"],
            "description": "Line from which the next request continues; null at the end of the log.",
        },
        "scannedLines": _COUNT,
        "scannedBytes": _COUNT,
        "total": {**_COUNT, "description": "Number of lines in the log."},
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
        "toMs": {**_COUNT, "description": "End of the bucket, exclusive."},
        "line": {**_COUNT, "description": "Number of its first line, from 0; if it has none, of the next line."},
        "lines": _COUNT,
        "errors": {
            "type": ["integer", "null"],
            "minimum": 0,
            "description": "Number of records of level ERROR or CRITICAL, including stack traces; null: not counted.",
        },
    },
}
_FEW = [
    {"fromMs": 1790000000000, "toMs": 1790000001501, "line": 0, "lines": 2, "errors": 0},
    {"fromMs": 1790000001501, "toMs": 1790000003001, "line": 2, "lines": 3, "errors": None},
]
SCHEMAS["Histogram"] = {
    "description": "Histogram of a run's lines over time.",
    "type": "object",
    "required": ["fromMs", "toMs", "buckets", "partial", "clock"],
    "properties": {
        "fromMs": _COUNT,
        "toMs": _COUNT,
        "buckets": {"type": "array", "maxItems": 500, "items": _BUCKET},
        "partial": {"type": "boolean", "description": "Whether lines are missing, or estimated from samples."},
        "clock": CLOCK,
    },
    "examples": [{"fromMs": 1790000000000, "toMs": 1790000003001, "buckets": _FEW, "partial": False, "clock": LINES}],
}

ERRORS: dict[int, tuple[int, str, str]] = {
    400: (400, "The request is invalid.", "limit must be an integer from 1 to 100 limit='0'"),
    404: (404, "No such run.", "there is no such run run=mysql.ingest/run-9"),
    503: (503, "Temporarily unavailable: repeat the request.", "query failed code=ThrottlingException what=runlake-runs"),
}

PARAMETERS: dict[str, dict[str, Any]] = {
    "pipelinePrefix": query_parameter("prefix", {"type": "string", "maxLength": 500}, "Beginning of the names."),
    "pipelineContains": query_parameter(
        "contains",
        {"type": "string", "maxLength": 500},
        "Part of the names, case-insensitive. A page may be empty and still have a cursor.",
    ),
    "outcome": {
        **query_parameter(
            "outcome",
            {"type": "array", "items": {"enum": list(OUTCOMES)}},
            "Only runs with one of these outcomes, separated by commas; default: all.",
        ),
        "style": "form",
        "explode": False,
    },
    "fqnPattern": query_parameter(
        "fqn", {"type": "string", "maxLength": 500}, "Only runs of matching pipelines; `*` matches any characters, as in `shop.*`."
    ),
    "activeSince": query_parameter(
        "since", {"type": "string"}, "Only runs that were active at this time or later: milliseconds since the epoch, or ISO 8601."
    ),
    "pageLimit": query_parameter(
        "limit", {"type": "integer", "minimum": 1, "maximum": 100, "default": 50}, "Maximum number of entries."
    ),
    "wanted": {
        **query_parameter(
            "q",
            {"type": "string", "minLength": 1, "maxLength": 500},
            "Text to search for, without a newline; or a pattern, see `regex`.",
        ),
        "required": True,
        "example": "error",
    },
    "isPattern": query_parameter(
        "regex",
        {"type": "boolean", "default": False},
        "Whether `q` is a regular expression in the syntax of Python's `re`. It is matched line by line.",
    ),
    "ignoreCase": query_parameter("ignoreCase", {"type": "boolean", "default": False}, "Whether to ignore case."),
    "fromLine": query_parameter(
        "after",
        {"type": "integer", "minimum": 0, "maximum": 10**15, "default": 0},
        "First line to search: `after` of the previous response.",
    ),
    "matchLimit": query_parameter(
        "limit", {"type": "integer", "minimum": 1, "maximum": 1000, "default": 100}, "Maximum number of matching lines."
    ),
    "buckets": query_parameter(
        "buckets", {"type": "integer", "minimum": 1, "maximum": 500, "default": 60}, "Maximum number of buckets."
    ),
    "pageCursor": query_parameter("cursor", {"type": "string"}, "`cursor` of the previous response."),
}

OPERATIONS: dict[str, dict[str, Any]] = {
    "listRecentRuns": {
        "summary": "List the runs of all pipelines by outcome, most recently active first",
        "description": "Read from the catalog; for failures, use `outcome=failed,lost`. A run that becomes active between two "
        "requests moves to the front: the pages of a list of running runs may omit it, or contain it twice.",
        "parameters": ["outcome", "fqnPattern", "activeSince", "pageLimit", "pageCursor"],
        "answers": {200: "RecentRuns"},
    },
    "listPipelines": {
        "summary": "List pipelines by name, each with its newest run",
        "description": "Names are in the order of their keys: alphabetical, but `a.b` before `a`, and percent-encoded characters "
        "first.",
        "parameters": ["pipelinePrefix", "pipelineContains", "pageLimit", "pageCursor"],
        "answers": {200: "PipelineList"},
    },
    "listRunFacts": {
        "summary": "List the runs of a pipeline with details, newest first",
        "description": "Read from the catalog: a run is listed shortly after its first batch.",
        "parameters": ["fqn", "pageLimit", "pageCursor"],
        "answers": {200: "RunFactsList"},
    },
    "getRun": {
        "summary": "Get a run with details",
        "parameters": ["fqn", "runId"],
        "answers": {200: "Run"},
    },
    "grepRun": {
        "summary": "Search the lines of a run for a text or a pattern",
        "description": "Searches forward from a line, about 5 s or 128 MiB per request; `after` is the line from which the next "
        "request continues. An unknown run has no lines.",
        "parameters": ["fqn", "runId", "wanted", "isPattern", "ignoreCase", "fromLine", "matchLimit"],
        "answers": {200: "Matches"},
    },
    "histogramOfRun": {
        "summary": "Get a histogram of a run's lines and errors over time",
        "description": "Computed from the catalog, without reading the log. An unknown run has no buckets.",
        "parameters": ["fqn", "runId", "buckets"],
        "answers": {200: "Histogram"},
    },
}
