"""Pipelines and their runs in the OpenAPI document: texts and examples; schemas are generated from the models. ``openapi`` documents the format."""

from __future__ import annotations

from typing import Any

from chalicelib.catalog.recent import OUTCOMES
from chalicelib.errors import RunDeletedError
from chalicelib.explanation.explanation import LATE_BYTES, REQUEST_BYTES, REQUEST_S
from chalicelib.ports import LINES
from chalicelib.routes.catalog_models import (
    DEFAULT_BUCKETS,
    DEFAULT_LIMIT,
    DEFAULT_MATCHES,
    HISTORY_RUNS,
    MAX_BUCKETS,
    MAX_HISTORIES,
    MAX_LIMIT,
    MAX_LINE,
    MAX_NAME_CHARS,
    MatchingLines,
    PipelineEntryPage,
    PipelineHistories,
    RecentRunPage,
    RunDetails,
    RunExplanation,
    RunFacts,
    RunFactsPage,
    RunHistogram,
    RunResult,
)
from chalicelib.routes.openapi_logs import query_parameter
from chalicelib.routes.removal_models import DATASET_UNTIL, OUTSIDE, RunDeletion
from chalicelib.routes.schemas import component_schemas
from chalicelib.runlog.deletion_marks import MAX_REASON_CHARS
from chalicelib.runlog.grep import MAX_MATCHES
from chalicelib.runlog.matching import MAX_PATTERN_CHARS, PATTERN_CHARS

_CANDIDATE = {"line": 3, "text": "ERROR disk full", "rule": "disk-full", "family": "disk", "score": 0.76}
_FACTS: dict[str, Any] = {
    "runId": "run-1",
    "status": "finalized",
    "end": "closed",
    "lines": 5,
    "bytes": 25,
    "startedMs": 1790000000000,
    "lastAppendMs": 1790000003000,
    "lastHeartbeatMs": None,
    "durationMs": 3000,
    "complete": True,
    "pendingBytes": 0,
    "outcome": "failed",
    "silentSinceMs": None,
    "exitCode": 1,
    "signal": None,
    "exception": None,
    "failedStep": None,
    "lostLines": 0,
    "attempt": 1,
    "firstRunId": "run-1",
    "host": "worker-3",
    "command": "./load.sh --all",
    "zone": "Europe/Berlin",
    "explanation": _CANDIDATE,
}
_DETAILS = {**_FACTS, "lost": 0, "candidates": [_CANDIDATE], "method": "runlog", "browser": "runlog", "orchestratorUrl": None}
_EXPLANATION = {
    "candidates": [{**_CANDIDATE, "about": "a disk or its quota is full"}],
    "fromLine": 0,
    "complete": True,
    "streaming": False,
}
_MATCHES = {
    "matches": [{"line": 41, "text": "an error", "spans": [[3, 8]]}],
    "after": None,
    "scannedLines": 100,
    "scannedBytes": 4096,
    "total": 100,
    "invert": False,
}
_BUCKETS = [
    {"fromMs": 1790000000000, "toMs": 1790000001501, "line": 0, "lines": 2, "errors": 0},
    {"fromMs": 1790000001501, "toMs": 1790000003001, "line": 2, "lines": 3, "errors": None},
]
_HISTOGRAM = {"fromMs": 1790000000000, "toMs": 1790000003001, "buckets": _BUCKETS, "partial": False, "clock": LINES}

_DELETION = {
    "state": "deleted",
    "deletedAt": 1790000000000,
    "deletedBy": "ada",
    "reason": "a password in line 3",
    "counts": {"objects": 7, "rows": 12},
    "outstanding": [{"what": "dataset", "until": DATASET_UNTIL}],
    "outside": [OUTSIDE[0]],
}

SCHEMAS = component_schemas(
    {
        "RunFacts": RunFacts,
        "Run": RunDetails,
        "RecentRuns": RecentRunPage,
        "Histories": PipelineHistories,
        "RunFactsList": RunFactsPage,
        "PipelineList": PipelineEntryPage,
        "Explanation": RunExplanation,
        "Matches": MatchingLines,
        "Histogram": RunHistogram,
        "RunDeletion": RunDeletion,
    },
    {
        "RunFacts": [_FACTS],
        "Run": [_DETAILS],
        "RecentRuns": [{"runs": [{"fqn": "mysql.ingest", **_FACTS}], "cursor": None}],
        "Histories": [
            {"pipelines": [{"fqn": "mysql.ingest", "runs": [{name: _FACTS[name] for name in RunResult.__annotations__}]}]}
        ],
        "RunFactsList": [{"runs": [_FACTS], "cursor": None}],
        "PipelineList": [{"pipelines": [{"fqn": "mysql.ingest", "last": _FACTS}], "cursor": None}],
        "Explanation": [_EXPLANATION],
        "Matches": [_MATCHES],
        "Histogram": [_HISTOGRAM],
        "RunDeletion": [_DELETION],
    },
)

ERRORS: dict[int | str, tuple[int, str, str]] = {
    400: (400, "The request is invalid.", "limit must be an integer from 1 to 100 limit='0'"),
    404: (404, "No such run.", "there is no such run run=mysql.ingest/run-9"),
    RunDeletedError.code: (410, "The run was deleted.", "the run was deleted run=mysql.ingest/run-9"),
    503: (503, "Temporarily unavailable: repeat the request.", "query failed code=ThrottlingException what=runlake-runs"),
}

PARAMETERS: dict[str, dict[str, Any]] = {
    "pipelinePrefix": query_parameter("prefix", {"type": "string", "maxLength": MAX_NAME_CHARS}, "Beginning of the names."),
    "pipelineContains": query_parameter(
        "contains",
        {"type": "string", "maxLength": MAX_NAME_CHARS},
        "Part of the names, case-insensitive.",
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
        "fqn",
        {"type": "string", "maxLength": MAX_NAME_CHARS},
        "Only runs of matching pipelines; `*` matches any characters, as in `shop.*`.",
    ),
    "runContains": query_parameter(
        "contains",
        {"type": "string", "maxLength": MAX_NAME_CHARS},
        "Part of the pipeline's name or of the run id, case-insensitive.",
    ),
    "histories": {
        **query_parameter(
            "fqn",
            {"type": "array", "items": {"type": "string"}, "minItems": 1, "maxItems": MAX_HISTORIES},
            "A pipeline; may be repeated.",
        ),
        "required": True,
        "example": ["mysql.ingest"],
    },
    "activeSince": query_parameter(
        "since", {"type": "string"}, "Only runs that were active at this time or later: milliseconds since the epoch, or ISO 8601."
    ),
    "pageLimit": query_parameter(
        "limit", {"type": "integer", "minimum": 1, "maximum": MAX_LIMIT, "default": DEFAULT_LIMIT}, "Maximum number of entries."
    ),
    "wanted": {
        **query_parameter(
            "q",
            {"type": "string", "minLength": 1, "maxLength": MAX_PATTERN_CHARS},
            "Text to search for, without a newline; or a pattern, see `regex`.",
        ),
        "required": True,
        "example": "error",
    },
    "isPattern": query_parameter(
        "regex",
        {"type": "boolean", "default": False},
        "Whether `q` is a regular expression in the syntax of Python's `re`, without comments and the flags `L` and `x`. It is matched "
        f"with the first {PATTERN_CHARS:,} characters of each line. 400 if it is too slow.",
    ),
    "ignoreCase": query_parameter("ignoreCase", {"type": "boolean", "default": False}, "Whether to ignore case."),
    "invertMatch": query_parameter(
        "invert", {"type": "boolean", "default": False}, "Whether to find the lines without a match instead. They have no `spans`."
    ),
    "fromLine": query_parameter(
        "after",
        {"type": "integer", "minimum": 0, "maximum": MAX_LINE, "default": 0},
        "First line to search: `after` of the previous response.",
    ),
    "matchLimit": query_parameter(
        "limit",
        {"type": "integer", "minimum": 1, "maximum": MAX_MATCHES, "default": DEFAULT_MATCHES},
        "Maximum number of matching lines.",
    ),
    "buckets": query_parameter(
        "buckets",
        {"type": "integer", "minimum": 1, "maximum": MAX_BUCKETS, "default": DEFAULT_BUCKETS},
        "Maximum number of buckets.",
    ),
    "deletionReason": query_parameter(
        "reason", {"type": "string", "maxLength": MAX_REASON_CHARS}, "Why; it is stored with the name of who deletes. No secrets."
    ),
    "pageCursor": query_parameter("cursor", {"type": "string"}, "`cursor` of the previous response."),
}

OPERATIONS: dict[str, dict[str, Any]] = {
    "listRecentRuns": {
        "summary": "List the runs of all pipelines by outcome, most recently active first",
        "description": "Read from the catalog; for failures, use `outcome=failed,lost`. A run that becomes active between two "
        "requests moves to the front: the pages of a list of running runs may omit it, or contain it twice.",
        "parameters": ["outcome", "fqnPattern", "runContains", "activeSince", "pageLimit", "pageCursor"],
        "responses": {200: "RecentRuns"},
    },
    "listHistories": {
        "summary": "List outcomes and durations of the newest runs of several pipelines",
        "description": f"At most {HISTORY_RUNS} runs of each.",
        "parameters": ["histories"],
        "responses": {200: "Histories"},
    },
    "listPipelines": {
        "summary": "List pipelines by name, each with its newest run",
        "description": "A pipeline exists as long as it has a run. Names are in the order of their keys: alphabetical, but `a.b` before "
        "`a`, and percent-encoded characters first. A long list is faster with `prefix`, not with `contains`.",
        "parameters": ["pipelinePrefix", "pipelineContains", "pageLimit", "pageCursor"],
        "responses": {200: "PipelineList"},
    },
    "listRunFacts": {
        "summary": "List the runs of a pipeline with details, newest first",
        "description": "Read from the catalog: a run is listed shortly after its first batch.",
        "parameters": ["fqn", "pageLimit", "pageCursor"],
        "responses": {200: "RunFactsList"},
    },
    "getRun": {
        "summary": "Get a run with details",
        "parameters": ["fqn", "runId"],
        "responses": {200: "Run"},
    },
    "explainRun": {
        "summary": "Find the lines that explain why a run failed",
        "description": "By rules, without a model. The logs of failed and lost runs are searched within minutes of their end. Of any other run, "
        f"running ones too, this request searches the last {REQUEST_BYTES // 1024**2} MiB, or the last {LATE_BYTES // 1024**2} MiB if that "
        f"takes longer than {REQUEST_S:.0f} s.",
        "parameters": ["fqn", "runId"],
        "responses": {200: "Explanation"},
    },
    "grepRun": {
        "summary": "Search the lines of a run for a text or a pattern",
        "description": "Searches forward from a line for a limited time and number of bytes, so a page may be empty and not the last. An "
        "unknown run has no lines.",
        "parameters": ["fqn", "runId", "wanted", "isPattern", "ignoreCase", "invertMatch", "fromLine", "matchLimit"],
        "responses": {200: "Matches"},
    },
    "histogramOfRun": {
        "summary": "Get a histogram of a run's lines and errors over time",
        "description": "Computed from the catalog, without reading the log. An unknown run has no buckets.",
        "parameters": ["fqn", "runId", "buckets"],
        "responses": {200: "Histogram"},
    },
    "deleteRun": {
        "summary": "Delete a run and its later attempts",
        "description": "Once it is answered, nobody reads the run or appends to it: both are answered with 410. Repeat it while the state is "
        "`deleting`, or leave the rest to the schedule. A repeat after the end returns the same answer. The run id cannot be used again.",
        "parameters": ["fqn", "runId", "deletionReason"],
        "responses": {200: "RunDeletion"},
    },
    "deletePipeline": {
        "summary": "Delete a pipeline: all of its runs and files",
        "description": "Of runs that began before. Repeat it while the state is `deleting`, or leave the rest to the schedule. The name can be used "
        "again, for other run ids.",
        "parameters": ["fqn", "deletionReason"],
        "responses": {200: "RunDeletion"},
    },
}
