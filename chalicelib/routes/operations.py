"""Every operation of the API, one row each, and the one matcher from a request to its operation.

A new route is a row here, a view, and its texts in the document's module. Views, documents and decoders are named as text: each function
imports this module while it starts, and imports a view's module on the first request for it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from importlib import import_module
from typing import Any

from chalicelib.access.grants import Scope
from chalicelib.errors import RunDeletedError
from chalicelib.routes.budgets import BULK, DOCUMENT, EVENTS, LINES, OTLP, PLAIN_DOCUMENT, READ, RECORDS, SHARING, Budget
from chalicelib.routes.paths import (
    AGENTS,
    ARCHIVE,
    BASE,
    CATALOG,
    COORDINATION,
    DEAD_LETTERS,
    DOCS_PAGE,
    ELASTICSEARCH,
    EVENT_BASE,
    PIPELINE_FILES,
    PIPELINES,
    RECENT_RUNS,
)

_MAX_GATEWAY_SEGMENTS = 8
"""A path with an FQN has a route for each number of segments up to this; the last route is greedy."""
ANY_TYPE = ""
"""Key of the decoder for all other content types."""
PROTOBUF = "application/x-protobuf"


@dataclass(frozen=True, slots=True)
class Decoder:
    """Decodes requests of an agent. ``function``: module and function in ``events.codecs``; ``arguments``: attributes of ``AgentRequest``."""

    function: str
    arguments: tuple[str, ...] = ("records",)

    def import_function(self) -> Callable[..., Any]:
        """The function; imports its module."""
        return _imported("chalicelib.events.codecs", self.function)


@dataclass(frozen=True, slots=True)
class Agent:
    """A kind of log agent. ``batch_setting``: the setting of the agent that limits its requests, for error messages (docs/agents.md).
    ``decoders``: by content type. ``repeats_bytes``: whether a retry has the same bytes, by which it is recognized (``events.intake``)."""

    name: str
    batch_setting: str
    decoders: Mapping[str, Decoder] = field(hash=False)
    repeats_bytes: bool = True


@dataclass(frozen=True, slots=True)
class Operation:
    """One operation. ``id`` and ``path`` as in the OpenAPI document; if the path ends in a slash, requests without it are redirected. ``view``:
    module and function. ``document``: the table with its texts, by its name in ``openapi.RESOURCES``. ``scopes``: the view requires one of them
    for each name (for two: the first for a file of the archive, the second for the log of a run); none: any authenticated principal. ``errors``:
    the codes of its documented errors. ``is_public``: without authentication, also at the gateway. ``masks_body``: the view masks or ignores the
    body; other bodies that contain a configured secret are rejected. ``token_header``: the header in which its clients send a bare token.
    ``agent``: the kind of log agent that sends it, if any. ``is_stream``: the response is a live stream: a failure of the service is an event of
    the stream, not a 503."""

    id: str
    method: str
    path: str
    view: str
    document: str
    scopes: tuple[Scope, ...] = ()
    budget: Budget = READ
    errors: tuple[int | str, ...] = ()
    is_public: bool = False
    masks_body: bool = False
    token_header: str = ""
    agent: Agent | None = None
    is_stream: bool = False

    @property
    def has_slash(self) -> bool:
        """Whether the path ends in a slash that clients must send."""
        return self.path.endswith("/") and self.path != "/"

    def import_view(self) -> Callable[[Any], Any]:
        """The view; imports its module."""
        return _imported("chalicelib.routes", self.view)


def _imported(package: str, path: str) -> Callable[..., Any]:
    module, _, name = path.partition(":")
    function: Callable[..., Any] = getattr(import_module(f"{package}.{module}"), name)
    return function


_READ_LOGS, _WRITE_LOGS, _DELETE_LOGS, _ADMIN = (Scope.LOGS_READ,), (Scope.LOGS_WRITE,), (Scope.LOGS_DELETE,), (Scope.ADMIN,)
_READ_FILES, _WRITE_FILES = (Scope.ARCHIVE_READ, Scope.LOGS_READ), (Scope.ARCHIVE_WRITE,)
_APPEND_ERRORS, _AGENT_ERRORS = (400, 409, 413, 415, 503, RunDeletedError.code), (400, 403, 409, 410, 413, 415, 503)
_BODY_ERRORS, _READ_ERRORS, _FIND_ERRORS = (400, 413, 415, 503), (400, 503), (400, 404, 503)
_DELETED = RunDeletedError.code
_RUN_READ_ERRORS, _RUN_FIND_ERRORS = (*_READ_ERRORS, _DELETED), (*_FIND_ERRORS, _DELETED)
_LOG, _EVENTS, _RUNS = f"{BASE}/logs/{{fqn}}", f"{EVENT_BASE}/{{fqn}}/{{runId}}", f"{CATALOG}/{{fqn}}/runs"


_TEXT = Decoder("plain:decode", ("content",))
_MSGPACK = Decoder("fluent:decode_msgpack", ("packed", "tag", "allowance.values", "zone"))
_FLUENT = Agent(
    "fluent",
    "chunk_limit_records",
    {
        "application/msgpack": _MSGPACK,
        "application/x-msgpack": _MSGPACK,
        "text/plain": _TEXT,
        ANY_TYPE: Decoder("fluent:decode_json", ("records", "tag", "zone")),
    },
)
_LOGSTASH = Agent(
    "logstash", "pipeline.batch.size", {"text/plain": _TEXT, ANY_TYPE: Decoder("logstash:decode", ("records", "zone"))}
)
_SYSLOG = Agent(  # a retry is a new batch that includes later messages
    "syslog",
    "batch-lines or batch.maxsize",
    {ANY_TYPE: Decoder("syslog:decode", ("records", "now_ms", "zone"))},
    repeats_bytes=False,
)
_FIREHOSE = Agent(  # the id of a delivery identifies its retries
    "firehose",
    "SizeInMBs",
    {ANY_TYPE: Decoder("firehose:decode", ("records", "allowance.gunzip", "common_attributes", "allowance.check_values"))},
    repeats_bytes=False,
)
_OTLP = Agent(
    "otlp",
    "send_batch_max_size or OTEL_BLRP_MAX_EXPORT_BATCH_SIZE",
    {
        "application/json": Decoder("otlp:decode_json"),
        PROTOBUF: Decoder("otlp:decode_protobuf", ("packed", "allowance.items", "allowance.fields")),
    },
)
_ELASTICSEARCH = Agent(
    "elasticsearch", "bulk_max_size or chunk_size", {ANY_TYPE: Decoder("bulk:decode", ("records", "index", "zone"))}
)


def _records(id: str, path: str, agent: Agent, budget: Budget = RECORDS, view: str = "records") -> Operation:
    """The operation of an agent that appends records."""
    return Operation(
        id,
        "POST",
        f"{AGENTS}/{path}",
        f"agents:{view}",
        "agents",
        scopes=_WRITE_LOGS,
        budget=budget,
        errors=_AGENT_ERRORS,
        masks_body=True,
        agent=agent,
    )


def _bulk(id: str, method: str, path: str) -> Operation:
    """Elasticsearch's bulk API, whose response has the errors of items."""
    return Operation(
        id,
        method,
        f"{ELASTICSEARCH}/{path}",
        "elasticsearch:bulk",
        "agents",
        scopes=_WRITE_LOGS,
        budget=BULK,
        errors=_BODY_ERRORS,
        masks_body=True,
        agent=_ELASTICSEARCH,
    )


OPERATIONS: tuple[Operation, ...] = (
    # Run logs
    Operation(
        "appendLog",
        "POST",
        f"{_LOG}/{{runId}}",
        "logs:append",
        "logs",
        scopes=_WRITE_LOGS,
        budget=LINES,
        errors=_APPEND_ERRORS,
        masks_body=True,
    ),
    Operation(
        "closeRun",
        "POST",
        f"{_LOG}/{{runId}}/close",
        "logs:close",
        "logs",
        scopes=_WRITE_LOGS,
        budget=PLAIN_DOCUMENT,
        errors=_RUN_READ_ERRORS,
        masks_body=True,
    ),
    Operation("readLog", "GET", f"{_LOG}/{{runId}}", "logs:page", "logs", scopes=_READ_LOGS, errors=_RUN_READ_ERRORS),
    Operation(
        "streamLog",
        "GET",
        f"{_LOG}/stream/{{runId}}",
        "logs:stream",
        "logs",
        scopes=_READ_LOGS,
        errors=(400, 404, _DELETED),
        is_stream=True,
    ),
    Operation(
        "downloadLog", "GET", f"{_LOG}/{{runId}}/download", "logs:download", "logs", scopes=_READ_LOGS, errors=_RUN_FIND_ERRORS
    ),
    Operation("listRuns", "GET", _LOG, "logs:runs", "logs", scopes=_READ_LOGS, errors=_READ_ERRORS),
    Operation("readLastLog", "GET", f"{_LOG}/last", "logs:last_page", "logs", scopes=_READ_LOGS, errors=_RUN_READ_ERRORS),
    Operation(
        "downloadLastLog", "GET", f"{_LOG}/last/download", "logs:last_download", "logs", scopes=_READ_LOGS, errors=_RUN_FIND_ERRORS
    ),
    # Events
    Operation(
        "appendEvents",
        "POST",
        _EVENTS,
        "events:append",
        "events",
        scopes=_WRITE_LOGS,
        budget=EVENTS,
        errors=_APPEND_ERRORS,
        masks_body=True,
    ),
    Operation(
        "startRun",
        "PUT",
        f"{_EVENTS}/starts/{{start}}",
        "events:start",
        "events",
        scopes=_WRITE_LOGS,
        budget=DOCUMENT,
        errors=_APPEND_ERRORS,
        masks_body=True,
    ),
    Operation(
        "sendHeartbeat",
        "PUT",
        f"{_EVENTS}/heartbeat",
        "events:heartbeat",
        "events",
        scopes=_WRITE_LOGS,
        errors=_RUN_READ_ERRORS,
        masks_body=True,
    ),
    Operation(
        "openWriter",
        "PUT",
        f"{_EVENTS}/writers/{{writer}}",
        "events:open_writer",
        "events",
        scopes=_WRITE_LOGS,
        errors=_RUN_READ_ERRORS,
        masks_body=True,
    ),
    Operation(
        "closeWriter",
        "POST",
        f"{_EVENTS}/writers/{{writer}}/close",
        "events:close_writer",
        "events",
        scopes=_WRITE_LOGS,
        budget=DOCUMENT,
        errors=_APPEND_ERRORS,
        masks_body=True,
    ),
    Operation(
        "updateStep",
        "POST",
        f"{_EVENTS}/steps/{{step}}",
        "events:update_step",
        "events",
        scopes=_WRITE_LOGS,
        budget=DOCUMENT,
        errors=(*_BODY_ERRORS, _DELETED),
        masks_body=True,
    ),
    Operation("browseEvents", "GET", _EVENTS, "events:events", "events", scopes=_READ_LOGS, errors=_RUN_READ_ERRORS),
    Operation("readEventLog", "GET", f"{_EVENTS}/log", "events:log", "events", scopes=_READ_LOGS, errors=_RUN_READ_ERRORS),
    Operation("listSteps", "GET", f"{_EVENTS}/steps", "events:steps", "events", scopes=_READ_LOGS, errors=_RUN_READ_ERRORS),
    Operation(
        "getConfiguration",
        "GET",
        "/v1/configuration",
        "configuration:configuration",
        "events",
        scopes=_ADMIN,
        errors=(400, 500),
    ),
    Operation(
        "getCompleteness",
        "GET",
        f"{_EVENTS}/completeness",
        "events:completeness",
        "events",
        scopes=_READ_LOGS,
        errors=_RUN_READ_ERRORS,
    ),
    # Agents
    _records("appendFluentRecords", "fluent", _FLUENT),
    _records("appendLogstashEvents", "logstash", _LOGSTASH),
    _records("appendSyslogMessages", "syslog", _SYSLOG),
    replace(
        _records("appendFirehoseDelivery", "firehose", _FIREHOSE, SHARING, "firehose_delivery"),
        token_header="X-Amz-Firehose-Access-Key",
    ),
    _records("exportLogs", "otlp/v1/logs", _OTLP, OTLP, "otlp_logs"),
    _bulk("bulk", "POST", "_bulk"),
    _bulk("putBulk", "PUT", "_bulk"),
    _bulk("indexBulk", "POST", "{index}/_bulk"),
    _bulk("putIndexBulk", "PUT", "{index}/_bulk"),
    Operation("elasticsearchInfo", "GET", ELASTICSEARCH, "elasticsearch:root", "agents", scopes=_WRITE_LOGS),
    Operation("elasticsearchPing", "HEAD", ELASTICSEARCH, "elasticsearch:root", "agents", scopes=_WRITE_LOGS),
    Operation("elasticsearchLicense", "GET", f"{ELASTICSEARCH}/_license", "elasticsearch:license", "agents", scopes=_WRITE_LOGS),
    Operation(
        "elasticsearchHealth",
        "GET",
        f"{ELASTICSEARCH}/_cluster/health",
        "elasticsearch:cluster_health",
        "agents",
        scopes=_WRITE_LOGS,
    ),
    # Pipelines
    Operation("listRecentRuns", "GET", RECENT_RUNS, "catalog:recent_runs", "catalog", scopes=_READ_LOGS, errors=_READ_ERRORS),
    Operation(
        "listHistories", "GET", f"{RECENT_RUNS}/history", "catalog:histories", "catalog", scopes=_READ_LOGS, errors=_READ_ERRORS
    ),
    Operation("listPipelines", "GET", CATALOG, "catalog:pipelines", "catalog", scopes=_READ_LOGS, errors=_READ_ERRORS),
    Operation("listRunFacts", "GET", _RUNS, "catalog:runs", "catalog", scopes=_READ_LOGS, errors=_READ_ERRORS),
    Operation("getRun", "GET", f"{_RUNS}/{{runId}}", "catalog:run", "catalog", scopes=_READ_LOGS, errors=_RUN_FIND_ERRORS),
    Operation(
        "explainRun",
        "GET",
        f"{_RUNS}/{{runId}}/explanation",
        "catalog:explanation",
        "catalog",
        scopes=_READ_LOGS,
        errors=_RUN_FIND_ERRORS,
    ),
    Operation("grepRun", "GET", f"{_RUNS}/{{runId}}/grep", "catalog:grep", "catalog", scopes=_READ_LOGS, errors=_RUN_READ_ERRORS),
    Operation(
        "histogramOfRun",
        "GET",
        f"{_RUNS}/{{runId}}/histogram",
        "catalog:run_histogram",
        "catalog",
        scopes=_READ_LOGS,
        errors=_RUN_READ_ERRORS,
    ),
    Operation(
        "deleteRun", "DELETE", f"{_RUNS}/{{runId}}", "removal:delete_run", "catalog", scopes=_DELETE_LOGS, errors=_FIND_ERRORS
    ),
    Operation(
        "deletePipeline",
        "DELETE",
        f"{CATALOG}/{{fqn}}",
        "removal:delete_pipeline",
        "catalog",
        scopes=_DELETE_LOGS,
        errors=_FIND_ERRORS,
    ),
    # Archive
    Operation("getStorage", "GET", f"{ARCHIVE}/", "archive:archive", "archive"),
    Operation(
        "listFiles",
        "GET",
        f"{ARCHIVE}/files/",
        "archive:list_files",
        "archive",
        scopes=_READ_FILES,
        errors=(
            "NoArgs",
            "NoWhat",
            "NoWorkInterval",
            "InvalidWorkInterval",
            "InvalidTime",
            "InvalidCursor",
            "TooManyNames",
            "InvalidOrder",
            "Unavailable",
        ),
    ),
    Operation(
        "createFile",
        "POST",
        f"{ARCHIVE}/files",
        "archive:begin_upload",
        "archive",
        scopes=_WRITE_FILES,
        budget=PLAIN_DOCUMENT,
        errors=("InvalidMetadata", "TooLarge", "Unavailable"),
    ),
    Operation(
        "readFile",
        "GET",
        f"{ARCHIVE}/files/{{id}}/data",
        "archive:get_contents",
        "archive",
        scopes=_READ_FILES,
        errors=("NoSuchFile", "Unavailable"),
    ),
    Operation(
        "readMetadata",
        "GET",
        f"{ARCHIVE}/files/{{id}}/metadata",
        "archive:get_metadata",
        "archive",
        scopes=_READ_FILES,
        errors=("NoSuchFile", "Unavailable"),
    ),
    Operation(
        "changeMetadata",
        "PATCH",
        f"{ARCHIVE}/files/{{id}}/metadata",
        "archive:change_metadata",
        "archive",
        scopes=_WRITE_FILES,
        budget=PLAIN_DOCUMENT,
        errors=("InvalidMetadata", "NoSuchFile", "NotChangeable", "Unavailable"),
    ),
    Operation(
        "deleteFile",
        "DELETE",
        f"{ARCHIVE}/files/{{id}}",
        "archive:delete_file",
        "archive",
        scopes=_WRITE_FILES,
        errors=("NoSuchFile", "NotChangeable", "Unavailable"),
    ),
    Operation(
        "readLatest",
        "GET",
        f"{ARCHIVE}/latest/{{what}}/{{where}}",
        "archive:latest",
        "archive",
        scopes=_READ_FILES,
        errors=("InvalidLookback", "NoSuchFile", "Unavailable"),
    ),
    Operation(
        "readLatestFile",
        "GET",
        f"{ARCHIVE}/latest/{{what}}/{{where}}/data",
        "archive:latest_contents",
        "archive",
        scopes=_READ_FILES,
        errors=("InvalidLookback", "NoSuchFile", "Unavailable"),
    ),
    # Coordination
    Operation(
        "listPartitions",
        "GET",
        f"{COORDINATION}/{{source}}",
        "coordination:partitions",
        "coordination",
        scopes=_ADMIN,
        errors=_FIND_ERRORS,
    ),
    Operation(
        "retryPartition",
        "POST",
        f"{COORDINATION}/{{source}}/{{fqn}}/{{runId}}/retry",
        "coordination:retry",
        "coordination",
        scopes=_ADMIN,
        errors=_FIND_ERRORS,
    ),
    Operation(
        "releasePartition",
        "POST",
        f"{COORDINATION}/{{source}}/{{fqn}}/{{runId}}/release",
        "coordination:release",
        "coordination",
        scopes=_ADMIN,
        errors=_FIND_ERRORS,
    ),
    # Pipeline files
    Operation(
        "readPipelineFiles",
        "GET",
        PIPELINE_FILES,
        "pipeline_files:events",
        "pipeline_files",
        scopes=_READ_LOGS,
        errors=_READ_ERRORS,
    ),
    Operation(
        "listPipelineFiles",
        "GET",
        f"{PIPELINE_FILES}/files",
        "pipeline_files:files",
        "pipeline_files",
        scopes=_READ_LOGS,
        errors=_READ_ERRORS,
    ),
    Operation(
        "listPipelineFileBases",
        "GET",
        f"{PIPELINE_FILES}/bases",
        "pipeline_files:bases",
        "pipeline_files",
        scopes=_READ_LOGS,
        errors=_READ_ERRORS,
    ),
    Operation(
        "deletePipelineLogs",
        "DELETE",
        PIPELINE_FILES,
        "pipeline_files:delete",
        "pipeline_files",
        scopes=_DELETE_LOGS,
        errors=_READ_ERRORS,
    ),
    Operation(
        "listFileFindings",
        "GET",
        f"{PIPELINE_FILES}/repair",
        "pipeline_files:findings",
        "pipeline_files",
        scopes=_ADMIN,
        errors=_READ_ERRORS,
    ),
    Operation(
        "mendFiles",
        "POST",
        f"{PIPELINE_FILES}/repair",
        "pipeline_files:repair",
        "pipeline_files",
        scopes=_ADMIN,
        errors=_READ_ERRORS,
    ),
    # Processing pipelines
    Operation("listProcessingPipelines", "GET", PIPELINES, "pipelines:pipelines", "pipelines", scopes=_ADMIN, errors=_READ_ERRORS),
    Operation(
        "enablePipeline",
        "POST",
        f"{PIPELINES}/{{name}}/enable",
        "pipelines:enable",
        "pipelines",
        scopes=_ADMIN,
        budget=PLAIN_DOCUMENT,
        errors=_FIND_ERRORS,
    ),
    Operation(
        "disablePipeline",
        "POST",
        f"{PIPELINES}/{{name}}/disable",
        "pipelines:disable",
        "pipelines",
        scopes=_ADMIN,
        budget=PLAIN_DOCUMENT,
        errors=_FIND_ERRORS,
    ),
    Operation(
        "replayPipeline",
        "POST",
        f"{PIPELINES}/{{name}}/replay",
        "pipelines:replay",
        "pipelines",
        scopes=_ADMIN,
        budget=PLAIN_DOCUMENT,
        errors=_FIND_ERRORS,
    ),
    Operation("listDeadLetters", "GET", DEAD_LETTERS, "dead_letters:letters", "pipelines", scopes=_READ_LOGS, errors=_READ_ERRORS),
    Operation(
        "getDeadLetter",
        "GET",
        f"{DEAD_LETTERS}/{{name}}",
        "dead_letters:letter",
        "pipelines",
        scopes=_READ_LOGS,
        errors=_FIND_ERRORS,
    ),
    Operation(
        "dropDeadLetter",
        "DELETE",
        f"{DEAD_LETTERS}/{{name}}",
        "dead_letters:drop",
        "pipelines",
        scopes=_ADMIN,
        errors=_FIND_ERRORS,
    ),
    Operation(
        "resendDeadLetter",
        "POST",
        f"{DEAD_LETTERS}/{{name}}/resend",
        "dead_letters:resend",
        "pipelines",
        scopes=_ADMIN,
        errors=_FIND_ERRORS,
    ),
    # Viewer
    Operation("getViewer", "GET", "/v1/ui/", "viewer:page", "viewer", is_public=True),
    Operation("getViewerFile", "GET", "/v1/ui/{file}", "viewer:file", "viewer", errors=(404,), is_public=True),
    Operation("getViewerConfig", "GET", "/v1/ui/config", "viewer:config", "viewer", is_public=True),
    # Service
    Operation("getHealth", "GET", "/v1/health", "health:health", "service", errors=(500,), is_public=True),
    Operation("getArchiveHealth", "GET", "/health/", "health:archive_health", "service", is_public=True),
    Operation("getEnvironment", "GET", "/v0/environment/", "archive:environment", "service"),
    Operation("getDocument", "GET", "/spec/", "health:spec", "service", is_public=True),
    Operation("getOpenApi", "GET", "/v1/openapi.json", "health:openapi_document", "service", is_public=True),
    Operation("getHome", "GET", "/", "health:home", "service", is_public=True),
    Operation("getDocs", "GET", "/docs/", "health:docs", "service", is_public=True),
    Operation("getPage", "GET", DOCS_PAGE, "health:docs_page", "service", is_public=True),
)
"""In the order of the OpenAPI document."""


@dataclass(frozen=True, slots=True)
class OperationMatch:
    """The operation of a request, and the names in its path as sent, still percent-encoded."""

    operation: Operation
    names: Mapping[str, str]


def match(method: str, path: str) -> OperationMatch | None:
    """The operation of a request; None: there is none. ``path``: as the client sent it, without any prefix of a stage.

    ``{fqn}`` takes one or more segments, because clients do not quote an FQN's slashes. If several paths fit, the one with the most literal
    segments counts, then the longest, then the one whose last segment is literal; it is not passed over because one of its names is empty.
    """
    segments = path.removesuffix("/").split("/")
    for operation, parts in _TEMPLATES.get(method, ()):
        names = _names(parts, segments)
        if names is not None:
            return OperationMatch(operation, names) if all(names.values()) else None
    return None


def _names(parts: Sequence[str], segments: Sequence[str]) -> Mapping[str, str] | None:
    """The values of placeholders; None: the path does not fit."""
    more = len(segments) - len(parts)
    if more < 0 or (more and "{fqn}" not in parts):
        return None
    names: dict[str, str] = {}
    at = 0
    for part in parts:
        end = at + 1 + (more if part == "{fqn}" else 0)
        if part.startswith("{"):
            names[part[1:-1]] = "/".join(segments[at:end])
        elif part != segments[at]:
            return None
        at = end
    return names


def _rank(parts: Sequence[str]) -> tuple[int, int, Sequence[bool]]:
    literal = [not part.startswith("{") for part in reversed(parts)]
    return sum(literal), len(parts), literal


def _templates() -> Mapping[str, Sequence[tuple[Operation, Sequence[str]]]]:
    split = [(each, each.path.removesuffix("/").split("/")) for each in OPERATIONS]
    split.sort(key=lambda pair: _rank(pair[1]), reverse=True)
    return {method: [pair for pair in split if pair[0].method == method] for method in {each.method for each in OPERATIONS}}


_TEMPLATES = _templates()
"""Operations with the parts of their paths by method, in the order in which they are tried."""


def gateway_routes() -> Mapping[str, Sequence[str]]:
    """The methods of each route at the gateway. A path with an FQN has one route for each number of segments, a form that API Gateway, its
    emulators and ``chalice local`` all support. The last one is greedy at the gateway; ``chalice local`` treats it as one segment."""
    routes: dict[str, set[str]] = {}
    bases: dict[str, list[Operation]] = {}
    for operation in OPERATIONS:
        base, has_fqn, _ = operation.path.partition("/{fqn}")
        if has_fqn:
            bases.setdefault(base, []).append(operation)
        else:
            routes.setdefault(base.rstrip("/") or "/", set()).add(operation.method)
    for base, operations in bases.items():
        least = min(each.path.removeprefix(base).count("/") for each in operations)
        for route in _routes_below(base, least):
            routes.setdefault(route, set()).update(each.method for each in operations)
    return {route: sorted(methods) for route, methods in routes.items()}


def _routes_below(base: str, least: int) -> Sequence[str]:
    names = [f"{{s{level}{'+' if level == _MAX_GATEWAY_SEGMENTS else ''}}}" for level in range(1, _MAX_GATEWAY_SEGMENTS + 1)]
    return ["/".join([base, *names[:depth]]) for depth in range(least, _MAX_GATEWAY_SEGMENTS + 1)]
